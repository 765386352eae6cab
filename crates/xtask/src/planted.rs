//! Known bugs, planted into the engine one at a time, to see whether the ground notices each. What it
//! does not notice it does not guard against.
//!
//! `crates/sim/planted` holds one patch per bug. Its heading says what the bug is and, in lines of
//! their own,
//!
//! ```text
//! whose: who had it, e.g. leveldb#193
//! find: the smallest campaign that must fail
//! shows: what that campaign must then say; others that would do follow behind " | "
//! ```
//!
//! The patches are applied to a copy of the work tree, never to the tree itself. Each campaign is also
//! run without any bug: a command that always fails would find everything.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

const PATCHES: &str = "crates/sim/planted";
/// What of the repository a build needs.
const COPIED: [&str; 6] = [".cargo", "Cargo.toml", "Cargo.lock", "README.md", "crates", "testdata"];
/// A campaign that takes longer has lost its way. The first one builds everything.
const LIMIT: Duration = Duration::from_secs(900);
/// Fewer patches than this would be a slip of the hand.
const PLANTED_MIN: usize = 12;

/// One patch.
struct Planted {
    name: String,
    path: PathBuf,
    /// The command that must fail.
    find: String,
    /// A part of what it must say, or several of which one will do.
    shows: String,
}

/// What came of one.
enum Verdict {
    /// With the line that shows it.
    Found(String),
    Missed(String),
}

/// Where the copy lies, and what is built from it.
struct Scratch {
    root: PathBuf,
    tree: PathBuf,
    target: PathBuf,
    logs: PathBuf,
}

/// Plants all bugs, or those named. False if one was not found.
pub(crate) fn run(root: &Path, only: &[&str]) -> io::Result<bool> {
    let planted = patches(root)?;
    let unknown = only.iter().find(|name| !planted.iter().any(|one| one.name == **name));
    if let Some(name) = unknown {
        return Err(io::Error::other(format!("{PATCHES}/{name}.patch does not exist")));
    }
    let chosen = |one: &&Planted| only.is_empty() || only.contains(&one.name.as_str());
    let planted: Vec<&Planted> = planted.iter().filter(chosen).collect();
    let scratch = Scratch::new(root)?;
    let vain = scratch.run_without_bugs(&planted)?;
    let mut missed = 0;
    for one in &planted {
        let begun = Instant::now();
        let verdict = scratch.judge(one)?;
        let (word, what) = match &verdict {
            Verdict::Found(line) => ("found", line),
            Verdict::Missed(reason) => ("MISSED", reason),
        };
        missed += usize::from(word == "MISSED");
        println!("{word:6} {} in {} s: {what}", one.name, begun.elapsed().as_secs());
    }
    let figures = [
        ("planted", planted.len(), "", true),
        ("found", planted.len() - missed, "", true),
        ("missed", missed, "<= 0", missed == 0),
        ("campaigns that fail without a bug", vain, "<= 0", vain == 0),
    ];
    for (name, value, goal, met) in figures {
        let verdict = if met { "ok" } else { "MISSED" };
        println!("FIGURE\tplanted\t{name}\t{value}\t{goal}\t{verdict}");
    }
    Ok(missed == 0 && vain == 0)
}

/// Whether every patch still applies. False if one does not.
pub(crate) fn check(root: &Path) -> io::Result<bool> {
    let planted = patches(root)?;
    let mut sound = planted.len() >= PLANTED_MIN;
    for one in &planted {
        if !git_apply(root, root, &["--check"], &one.path)? {
            println!("{PATCHES}/{}.patch no longer applies", one.name);
            sound = false;
        }
    }
    println!("{} patches looked at", planted.len());
    Ok(sound)
}

/// All patches, by name.
fn patches(root: &Path) -> io::Result<Vec<Planted>> {
    let mut planted = Vec::new();
    for entry in fs::read_dir(root.join(PATCHES))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            planted.push(Planted::read(path)?);
        }
    }
    planted.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(planted)
}

impl Planted {
    fn read(path: PathBuf) -> io::Result<Self> {
        let text = fs::read_to_string(&path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let heading = || text.lines().take_while(|line| !line.starts_with("--- "));
        let field = |label: &str| {
            let found = heading().find_map(|line| line.strip_prefix(label));
            let missing = || io::Error::other(format!("{name}.patch has no line '{label}'"));
            found.map(|text| text.trim().to_owned()).ok_or_else(missing)
        };
        field("whose:")?;
        let (find, shows) = (field("find:")?, field("shows:")?);
        Ok(Planted { find, shows, path, name })
    }
}

impl Scratch {
    fn new(root: &Path) -> io::Result<Self> {
        let root = root.canonicalize()?;
        let base = root.join("target/planted");
        let (tree, logs) = (base.join("tree"), base.join("logs"));
        fs::create_dir_all(&tree)?;
        fs::create_dir_all(&logs)?;
        Ok(Scratch { target: base.join("build"), root, tree, logs })
    }

    /// Runs each campaign on the engine as it is. Returns how many fail.
    fn run_without_bugs(&self, planted: &[&Planted]) -> io::Result<usize> {
        self.restore()?;
        let mut failed = 0;
        let commands: BTreeSet<&str> = planted.iter().map(|one| one.find.as_str()).collect();
        for (number, command) in commands.iter().enumerate() {
            let log = self.logs.join(format!("without-{number}.log"));
            let ended = self.run(command, &log)?;
            if !ended.is_some_and(|status| status.success()) {
                println!("fails without any bug: {command}\n  see {}", log.display());
                failed += 1;
            }
        }
        Ok(failed)
    }

    fn judge(&self, one: &Planted) -> io::Result<Verdict> {
        self.restore()?;
        if !git_apply(&self.root, &self.tree, &[], &one.path)? {
            return Ok(Verdict::Missed("the patch does not apply".to_owned()));
        }
        let log = self.logs.join(format!("{}.log", one.name));
        let ended = self.run(&one.find, &log)?;
        self.restore()?;
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let shows = |line: &&str| one.shows.split(" | ").any(|part| line.contains(part));
        let shown = said.lines().find(shows);
        let missed = |what: &str| Verdict::Missed(format!("{what}; see {}", log.display()));
        Ok(match (ended, shown) {
            (Some(status), _) if status.success() => missed("the campaign passes"),
            (_, None) if said.contains("could not compile") => missed("it does not compile"),
            (_, None) => missed(&format!("nothing says {:?}", one.shows)),
            (_, Some(line)) => Verdict::Found(line.trim().chars().take(100).collect()),
        })
    }

    /// Makes the copy the same as the work tree again.
    fn restore(&self) -> io::Result<()> {
        COPIED.iter().try_for_each(|name| mirror(&self.root.join(name), &self.tree.join(name)))
    }

    /// Runs a command on the copy; `None` if it had to be ended.
    fn run(&self, command: &str, log: &Path) -> io::Result<Option<ExitStatus>> {
        let out = File::create(log)?;
        // `env`, so that a command may begin with settings such as RUSTFLAGS.
        let mut child = Command::new("env")
            .args(command.split_whitespace())
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.target)
            .stderr(out.try_clone()?)
            .stdout(out)
            .spawn()?;
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        child.kill()?;
        child.wait()?;
        Ok(None)
    }
}

/// Applies a patch to the files in `tree`, as if it were in no repository: git leaves out what lies in
/// a folder of one.
fn git_apply(root: &Path, tree: &Path, options: &[&str], patch: &Path) -> io::Result<bool> {
    let mut git = Command::new("git");
    git.arg("apply").args(options).arg(patch.canonicalize()?).current_dir(tree);
    if root != tree {
        git.env("GIT_CEILING_DIRECTORIES", root.join("target/planted"));
    }
    Ok(git.status()?.success())
}

/// Makes `to` the same as `from`. What is the same already stays untouched, so that cargo builds only
/// what a patch changes.
fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        let bytes = fs::read(from)?;
        return if fs::read(to).is_ok_and(|there| there == bytes) {
            Ok(())
        } else {
            fs::write(to, bytes)
        };
    }
    fs::create_dir_all(to)?;
    let names = |folder: &Path| -> io::Result<BTreeSet<_>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
    };
    let (wanted, there) = (names(from)?, names(to)?);
    for name in there.difference(&wanted) {
        let stale = to.join(name);
        if stale.is_dir() { fs::remove_dir_all(stale)? } else { fs::remove_file(stale)? }
    }
    wanted.iter().try_for_each(|name| mirror(&from.join(name), &to.join(name)))
}
