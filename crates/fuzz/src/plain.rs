//! Bodies without libFuzzer: over a kept corpus, and over random changes of it. Slices of this run
//! in `cargo test`, on any toolchain.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use siltstone_sim::Dice;

use crate::{Body, Target};

/// Where the kept corpora lie, one folder for each target.
pub fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The kept inputs of a target, by name.
pub fn corpus(target: &str) -> Vec<Vec<u8>> {
    let listed = std::fs::read_dir(corpora().join(target)).unwrap();
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Adds an input to a corpus, under a name that its bytes give.
pub fn keep(target: &str, input: &[u8]) {
    let folder = corpora().join(target);
    std::fs::create_dir_all(&folder).unwrap();
    let name = format!("{:08x}-{}", crc32c::crc32c(input), input.len());
    std::fs::write(folder.join(name), input).unwrap();
}

/// Runs the target of that name over its kept corpus, and `runs` random inputs made from it. For
/// targets whose body the caller has.
pub fn check(name: &str, body: Body, runs: u64) {
    let target = Target::find(name).unwrap();
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "{name} has no corpus");
    corpus.iter().for_each(|input| run(target, body, input));
    let mut mutator = Mutator { dice: Dice::new(0x5eed + runs), corpus: &corpus };
    for _ in 0..runs {
        run(target, body, &mutator.next(target.len_max));
    }
}

/// Runs one input; if it panics, keeps it and says how to run it again.
fn run(target: &Target, body: Body, input: &[u8]) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| target.run(body, input))) else { return };
    let path = std::env::temp_dir().join(format!("siltstone-{}-crash", target.name));
    std::fs::write(&path, input).unwrap();
    eprintln!("replay: cargo xtask fuzz {} --replay {}", target.name, path.display());
    resume_unwind(panic);
}

/// Makes inputs from those of a corpus.
struct Mutator<'a> {
    dice: Dice,
    corpus: &'a [Vec<u8>],
}

/// Bytes at which lengths and kinds turn into something else.
const ODD_BYTES: [u8; 10] = [0, 1, 2, 6, 7, 8, 0x7f, 0x80, 0xfe, 0xff];

impl Mutator<'_> {
    fn next(&mut self, len_max: usize) -> Vec<u8> {
        let mut input = self.some_input().to_vec();
        for _ in 0..1 + self.dice.roll(6) {
            self.change(&mut input);
        }
        input.truncate(len_max);
        input
    }

    fn some_input(&mut self) -> &[u8] {
        let at = self.dice.roll(self.corpus.len() as u64) as usize;
        &self.corpus[at]
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.at(input);
        if at == input.len() {
            input.push(self.dice.roll(256) as u8);
            return;
        }
        match self.dice.roll(8) {
            0 => input[at] ^= 1 << self.dice.roll(8),
            1 => input[at] = self.dice.roll(256) as u8,
            2 | 3 => input[at] = ODD_BYTES[self.dice.roll(ODD_BYTES.len() as u64) as usize],
            4 => input.insert(at, self.dice.roll(256) as u8),
            5 => drop(input.drain(at..(at + 1 + self.dice.roll(8) as usize).min(input.len()))),
            6 => {
                let end = (at + self.dice.roll(32) as usize).min(input.len());
                let copied = input[at..end].to_vec();
                let to = self.at(input);
                input.splice(to..to, copied);
            }
            _ => {
                let from = self.some_input().to_vec();
                let from_at = self.at(&from);
                let piece = &from[from_at..(from_at + 64).min(from.len())];
                input.splice(at.., piece.iter().copied());
            }
        }
    }

    /// A place in `input` or at its end.
    fn at(&mut self, input: &[u8]) -> usize {
        self.dice.roll(input.len() as u64 + 1) as usize
    }
}
