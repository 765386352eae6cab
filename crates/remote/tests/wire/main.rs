//! The committed code is what the proto files make.

mod generator;

#[test]
fn generating_the_code_again_changes_nothing() {
    let made = generator::generate().unwrap();
    assert!(
        made == generator::committed(),
        "run `cargo run -p siltstone-remote --example generate`"
    );
}
