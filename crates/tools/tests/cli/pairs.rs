//! Loading, reading and dumping pairs: no byte is lost on any way through the program.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use crate::harness::Scratch;

/// 400 pairs of any bytes at all, the same each time.
fn wild_pairs() -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut byte = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let mut lines = String::new();
    for number in 0..400_u32 {
        let mut key = number.to_be_bytes().to_vec();
        key.extend((0..byte() % 20).map(|_| byte()));
        // Every third value is of the characters that quoting gets wrong.
        let value: Vec<u8> =
            (0..byte() % 40)
                .map(|_| {
                    if number % 3 == 0 {
                        b"\",\\\t\n\r \0x"[usize::from(byte() % 9)]
                    } else {
                        byte()
                    }
                })
                .collect();
        let (key, value) = (BASE64.encode(key), BASE64.encode(value));
        lines.push_str(&format!("{{\"key_b64\":\"{key}\",\"value_b64\":\"{value}\"}}\n"));
    }
    lines
}

#[test]
fn random_bytes_survive_dump_and_load_in_every_format() {
    let scratch = Scratch::new();
    scratch.file("wild.jsonl", wild_pairs());
    scratch.ok("load db wild.jsonl");
    let expected = scratch.ok("dump db -o raw --key hex --value hex");
    assert_eq!(expected.lines().count(), 400);
    for format in ["json", "jsonl", "csv", "raw"] {
        for bytes in ["auto", "utf8", "hex", "base64", "escaped"] {
            let flags = format!("--key {bytes} --value {bytes}");
            let name = format!("{bytes}.{format}");
            scratch.file(&name, scratch.ok(&format!("dump db -o {format} {flags}")));
            let copy = format!("copy-{bytes}-{format}");
            scratch.ok(&format!("load {copy} {name} {flags}"));
            let found = scratch.ok(&format!("dump {copy} -o raw --key hex --value hex"));
            assert_eq!(found, expected, "{name}");
        }
    }
}

#[test]
fn get_gives_the_bytes_and_nothing_else() {
    let scratch = Scratch::with_database();
    assert_eq!(scratch.run("get db 0x00ff").out, [0xfe, b'\n']);
    assert_eq!(scratch.ok("get db user/2"), "{\"name\":\"Mina\",\"n\":1.50}");
    assert_eq!(scratch.ok("get db user/1 -o table"), "Ravi\n");
    let json: Value = serde_json::from_str(&scratch.ok("get db 0x00ff -o json --timing")).unwrap();
    assert_eq!(json["key_b64"], "AP8=");
    assert_eq!(json["value_b64"], "/go=");
    assert!(json["first_read_us"].is_number());
    assert!(scratch.run("get db user/1 --timing").err.contains("first read"));
}

#[test]
fn put_takes_any_value() {
    let scratch = Scratch::new();
    scratch.ok("put db minus -1");
    assert_eq!(scratch.ok("get db minus"), "-1");
    assert_eq!(scratch.feed("put db stdin", b"a\0b\n").code, 0);
    assert_eq!(scratch.run("get db stdin").out, b"a\0b\n");
    scratch.ok("put db b64 --value base64 /w==");
    assert_eq!(scratch.run("get db b64").out, [0xff]);
}

#[test]
fn scans_keep_to_their_range() {
    let scratch = Scratch::new();
    let text: String = ["a", "b1", "b2", "b3", "c"].map(|key| format!("{key}\tv\n")).concat();
    scratch.file("keys.tsv", text);
    scratch.ok("load db keys.tsv");
    for (flags, keys) in [
        ("", "a b1 b2 b3 c"),
        ("--prefix b", "b1 b2 b3"),
        ("--prefix b --reverse", "b3 b2 b1"),
        ("--reverse --limit 2", "c b3"),
        ("--from b2", "b2 b3 c"),
        ("--from b2 --to c", "b2 b3"),
        ("--to b2 --reverse", "b1 a"),
        ("--from b0 --to b9 --prefix b --limit 1", "b1"),
        ("--prefix zz", ""),
        ("--from c --to a", ""),
        ("--from c --to a --reverse", ""),
    ] {
        let out = scratch.ok(&format!("scan db --keys-only -o raw {flags}"));
        assert_eq!(out.split_whitespace().collect::<Vec<_>>().join(" "), keys, "{flags}");
        let limit = flags.contains("--limit");
        if !limit {
            let count = keys.split_whitespace().count();
            assert_eq!(scratch.ok(&format!("count db {flags}")), format!("{count}\n"), "{flags}");
        }
    }
}

#[test]
fn duplicates_are_treated_as_asked() {
    let scratch = Scratch::new();
    scratch.file("one.json", "{\"a\": 1, \"b\": 1, \"a\": 2}");
    scratch.file("two.jsonl", "[\"b\", 3]\n[\"c\", 3]\n");
    for (policy, a, b, duplicates) in
        [("last", "2", "3", 2), ("count", "2", "3", 2), ("first", "1", "1", 2)]
    {
        let line = format!("load {policy} one.json two.jsonl --duplicates {policy} -o json");
        let summary: Value = serde_json::from_str(&scratch.ok(&line)).unwrap();
        assert_eq!(summary["pairs"], 5, "{policy}");
        assert_eq!(summary["duplicates"], duplicates, "{policy}");
        assert_eq!(scratch.ok(&format!("get {policy} a")), a, "{policy}");
        assert_eq!(scratch.ok(&format!("get {policy} b")), b, "{policy}");
    }
    let ran = scratch.run("load error one.json two.jsonl --duplicates error");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("the key a is there already"), "{}", ran.err);
    assert_eq!(scratch.ok("count error"), "2\n");
}

#[test]
fn generated_files_load_with_the_duplicates_promised() {
    let scratch = Scratch::new();
    let line = "gen json one.json two.json --pairs 4k --duplicates 0.1 --seed 42";
    scratch.ok(line);
    let first = std::fs::read(scratch.path().join("two.json")).unwrap();
    scratch.ok(line);
    assert_eq!(std::fs::read(scratch.path().join("two.json")).unwrap(), first);
    let flags = "--bloom-bits 10 --compression none --write-buffer-size 64KiB --block-size 1k";
    let out = scratch.ok(&format!("load db one.json two.json {flags} -o json"));
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&summary["pairs"], &summary["duplicates"]), (&4000.into(), &200.into()));
    assert_eq!(scratch.ok("count db"), "3800\n");
    for kind in ["jsonl", "csv"] {
        scratch.ok(&format!("gen {kind} more.{kind} --pairs 100"));
        scratch.ok(&format!("load {kind} more.{kind}"));
        assert_eq!(scratch.ok(&format!("count {kind}")), "100\n");
    }
}

#[test]
fn stdin_is_a_file_like_others() {
    let scratch = Scratch::new();
    assert_eq!(scratch.feed("load db -", b"{\"a\": 1}").code, 0);
    assert_eq!(scratch.feed("load db -", b"[\"b\", 1]\n[\"c\", 1]\n").code, 0);
    assert_eq!(scratch.feed("load db - --format csv", b"\xef\xbb\xbfkey,value\nd,1\n").code, 0);
    assert_eq!(scratch.ok("scan db -o raw --keys-only"), "a\nb\nc\nd\n");
}
