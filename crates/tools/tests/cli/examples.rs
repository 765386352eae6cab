//! The examples in the help are run as they stand there, in order, in one folder.
#![cfg(unix)]

use crate::harness::Scratch;

/// The verbs in the order the help lists them.
fn verbs(help: &str) -> Vec<String> {
    let list = help.split("Commands:\n").nth(1).unwrap();
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    // What is indented further goes on about the verb above.
    let lines = lines.filter(|line| !line.starts_with("   "));
    let words = lines.filter_map(|line| line.split_whitespace().next());
    words.filter(|word| *word != "help").map(str::to_owned).collect()
}

fn examples(help: &str) -> Vec<String> {
    let list = help.split("Examples:\n").nth(1).unwrap_or_default();
    list.lines().take_while(|line| line.starts_with("  ")).map(|line| line.trim().into()).collect()
}

#[test]
fn every_example_in_the_help_works() {
    let scratch = Scratch::new();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_siltstone"));
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let verbs = verbs(&scratch.ok("--help"));
    assert!(verbs.len() > 20, "{verbs:?}");
    let mut pages: Vec<String> =
        verbs.iter().map(|verb| scratch.ok(&format!("{verb} --help"))).collect();
    pages.push(scratch.ok("--help"));
    #[cfg(feature = "cloud")]
    let bucket = Bucket::new(&scratch, &mut pages);
    for page in pages {
        let examples = examples(&page);
        assert!(examples.len() >= 2, "{page}");
        for example in examples {
            let mut command = std::process::Command::new("sh");
            command
                .args(["-c", &example])
                .current_dir(scratch.path())
                .env("PATH", &path)
                .env("XDG_STATE_HOME", scratch.path());
            #[cfg(feature = "cloud")]
            bucket.lend(&mut command);
            let ran = command.output().unwrap();
            let errors = String::from_utf8_lossy(&ran.stderr);
            assert!(ran.status.success(), "{example}: {errors}");
        }
    }
}

/// What examples of databases in a bucket find: a server, and the database that they are about.
#[cfg(feature = "cloud")]
struct Bucket(crate::cloud::server::Server);

#[cfg(feature = "cloud")]
impl Bucket {
    /// Adds the pages of `cloud`'s own verbs.
    fn new(scratch: &Scratch, pages: &mut Vec<String>) -> Bucket {
        for verb in verbs(&scratch.ok("cloud --help")) {
            pages.push(scratch.ok(&format!("cloud {verb} --help")));
        }
        let server = crate::cloud::server::Server::new();
        drop(crate::cloud::database::make(&server));
        Bucket(server)
    }

    fn lend(&self, command: &mut std::process::Command) {
        crate::cloud::reach(command, &self.0);
    }
}
