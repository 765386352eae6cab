//! Fuzz bodies of the decoders: any bytes at all go in, and a panic is a bug. The libFuzzer program
//! of `crates/fuzz` calls them in builds with `--cfg fuzzing`; unit tests run them over the kept
//! corpora. No other build holds this module, so it is no part of the API.
//!
//! A body looks for more than panics: what decodes must encode again to the same meaning, and what
//! was encoded from the input must decode.

mod logs;
mod names;
mod seeds;
mod tables;
#[cfg(test)]
mod tests;

pub use seeds::seeds;

/// What is done with one input.
pub type Body = fn(&[u8]);

/// The bodies of this crate by the names of their targets.
pub const BODIES: &[(&str, Body)] = &[
    ("batch", logs::batch),
    ("block", tables::block),
    ("decompress", tables::decompress),
    ("edit", logs::edit),
    ("filter", tables::filter),
    ("footer", tables::footer),
    ("manifest", logs::manifest),
    ("names", names::names),
    ("order", names::order),
    ("record", logs::record),
    ("table", tables::table),
];

/// Cuts an input into pieces, each behind one byte that tells its length; the last may be short.
fn pieces(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while let Some((&len, rest)) = bytes.split_first() {
        let (piece, behind) = rest.split_at(rest.len().min(usize::from(len)));
        pieces.push(piece);
        bytes = behind;
    }
    pieces
}
