//! The libFuzzer program. The environment names the target; `cargo xtask fuzz` builds and runs it.
//! Built without `--cfg fuzzing` it only lists the targets: name, and longest input.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
mod fuzzing {
    use std::sync::LazyLock;

    use siltstone_fuzz::{Body, Target};

    static CHOSEN: LazyLock<(&Target, Body)> = LazyLock::new(|| {
        let name = std::env::var("SILTSTONE_FUZZ_TARGET").unwrap_or_default();
        let target = Target::find(&name).expect("SILTSTONE_FUZZ_TARGET names a target");
        (target, target.body().expect("a build for fuzzing has every body"))
    });

    libfuzzer_sys::fuzz_target!(|input: &[u8]| {
        let (target, body) = *CHOSEN;
        target.run(body, input);
    });
}

#[cfg(not(fuzzing))]
fn main() {
    for target in siltstone_fuzz::TARGETS {
        println!("{}\t{}", target.name, target.len_max);
    }
}
