//! The examples in the help are run as they stand there, in order, in one folder.
#![cfg(unix)]

use crate::harness::Scratch;

/// The verbs in the order the help lists them.
fn verbs(help: &str) -> Vec<String> {
    let list = help.split("Commands:\n").nth(1).unwrap();
    let lines = list.lines().take_while(|line| line.starts_with("  "));
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
    for page in pages {
        let examples = examples(&page);
        assert!(examples.len() >= 2, "{page}");
        for example in examples {
            let ran = std::process::Command::new("sh")
                .args(["-c", &example])
                .current_dir(scratch.path())
                .env("PATH", &path)
                .env("XDG_STATE_HOME", scratch.path())
                .output()
                .unwrap();
            let errors = String::from_utf8_lossy(&ran.stderr);
            assert!(ran.status.success(), "{example}: {errors}");
        }
    }
}
