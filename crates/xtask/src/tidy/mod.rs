//! What no compiler checks: the layers, how files open, where unsafe code may stand, plain text
//! rules, and sizes. Called by `cargo xtask tidy`.
//!
//! The checks read source with a scanner that tells code, comments and strings apart ([`source`]);
//! they need no parser, and so they can be wrong only about code that hides its names in macros.

mod layers;
mod links;
mod report;
mod sizes;
mod source;
mod text;
mod tree;
mod unsafe_code;

use std::path::Path;

use report::Report;
use tree::Tree;

/// Runs every check on the repository at `root`, prints what was found, and tells whether all is
/// well. `Err` means that the checks could not be made.
pub(crate) fn run(root: &Path) -> Result<bool, String> {
    let tree = Tree::read(root)?;
    let mut report = Report::default();
    layers::check(&tree, &mut report);
    text::check(&tree, &mut report);
    links::check(&tree, &mut report);
    unsafe_code::check(&tree, &mut report);
    sizes::check(&tree, &mut report);

    print!("{}", sizes::overview(&tree));
    println!("{}", unsafe_code::overview(&tree));
    print!("{report}");
    Ok(report.is_clean())
}
