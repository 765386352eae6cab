//! The tour runs through, and cleans up.

use crate::harness::Scratch;

#[test]
fn the_tour_ends_well() {
    let scratch = Scratch::new();
    let text = scratch.ok("demo --quick");
    for part in ["LATIN CAPITAL LETTER A", "in the snapshot", "every acknowledged write is there"] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}

#[test]
fn the_tour_leaves_facts_and_a_database() {
    let scratch = Scratch::new();
    let facts: serde_json::Value =
        serde_json::from_str(&scratch.ok("demo --quick --keep kept -o json")).unwrap();
    assert_eq!(facts["duplicates"], 1000);
    assert!(facts["recovered"].as_u64() >= facts["acknowledged"].as_u64());
    assert_eq!(scratch.ok("get kept U+00E9"), "LATIN SMALL LETTER E WITH ACUTE");
    assert_eq!(scratch.run("demo --quick --keep kept").code, 2);
}
