//! Writes the seeds of every target into the kept corpora. `cargo xtask fuzz --seeds` builds it
//! with `--cfg fuzzing`, for only such an engine takes its files apart.

fn main() {
    #[cfg(fuzzing)]
    let decoders = siltstone::fuzz::seeds;
    #[cfg(not(fuzzing))]
    let decoders = |_: &_| Vec::new();
    let mut count = 0;
    for (target, input) in siltstone_fuzz::seeds::all(|files| decoders(files)) {
        siltstone_fuzz::plain::keep(&target, &input);
        count += 1;
    }
    println!("{count} seeds");
}
