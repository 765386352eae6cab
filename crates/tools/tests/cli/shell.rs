//! The shell, fed from a pipe.

use crate::harness::Scratch;

#[test]
fn lines_from_a_pipe_are_run_in_order() {
    let scratch = Scratch::with_database();
    let script =
        b"put \"a key\" 'a value'\nget \"a key\"\n\ndel user/2\n.mode raw\nscan --keys-only\n\
                   count\n.mode json\nget v\n.stats\n.levels\n.timer on\n.help\n.quit\nget v\n";
    let ran = scratch.feed("./db", script);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = ran.text();
    assert!(text.starts_with("a value\n\\x00\\xff\na key\nuser/1\nv\n4\n"), "{text}");
    assert!(text.contains("\"value\": \"7\""), "{text}");
    assert!(ran.err.contains(".levels"), "{}", ran.err);
}

#[test]
fn a_line_that_fails_is_reported_and_the_next_one_runs() {
    let scratch = Scratch::with_database();
    let ran = scratch.feed("./db", b"get nothing\nget \"open\nnonsense\nget user/1\n");
    assert_eq!(ran.code, 1);
    assert_eq!(ran.text(), "Ravi\n");
    assert_eq!(ran.err.matches("error: ").count(), 3, "{}", ran.err);
}

#[test]
fn read_only_shells_change_nothing() {
    let scratch = Scratch::with_database();
    let ran = scratch.feed("./db --read-only", b"put k v\nget user/1\n");
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert_eq!(ran.text(), "Ravi\n");
    assert_eq!(scratch.run("get db k").code, 1);
}

#[test]
fn a_missing_database_is_made_only_when_asked() {
    let scratch = Scratch::new();
    assert_eq!(scratch.feed("./new", b"put k v\n").code, 1);
    assert_eq!(scratch.feed("./new --create", b"put k v\nget k\n").text(), "v\n");
}
