//! LevelDB and siltstone do the same in separate folders, and must show the same: gets, scans,
//! snapshots, what survives a reopening, and the shape of the properties.

use siltstone_interop::leveldb::LevelDb;
use siltstone_interop::model::Model;
use siltstone_interop::peer::{Change, Database, Durability, Engine, Order, Settings, View};
use siltstone_interop::rng::Rng;
use siltstone_interop::scratch::Scratch;
use siltstone_interop::workload;

/// The number of random acts; about one in ten reopens the databases.
const ACTS: usize = 400;

#[test]
fn engines_do_the_same() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    play(leveldb, Order::Bytewise);
}

#[test]
fn engines_do_the_same_under_a_custom_order() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    play(leveldb, Order::Backwards);
}

/// A state that both databases and the model have kept.
struct Kept<'a> {
    views: [Box<dyn View<'a> + 'a>; 2],
    model: Model,
}

fn play(leveldb: LevelDb, order: Order) {
    let mut rng = Rng::for_test();
    let scratch = Scratch::new("differential");
    let mut model = Model::new(order);
    let mut acts = 0;
    while acts < ACTS {
        let settings = workload::settings(&mut rng, order);
        let dbs = [Engine::LevelDb(leveldb), Engine::Siltstone].map(|engine| {
            let path = scratch.join(engine.name());
            engine.open(&path, &settings).unwrap_or_else(|error| panic!("{settings:?}: {error}"))
        });
        acts += session(&dbs, &mut model, &mut rng);
        for db in dbs {
            db.close();
        }
    }
    assert!(model.len() > 1000, "the databases grew");
}

/// Random acts between an opening and a closing. Returns how many.
fn session(dbs: &[Box<dyn Database>; 2], model: &mut Model, rng: &mut Rng) -> usize {
    let mut kept: Vec<Kept<'_>> = Vec::new();
    check_both(&dbs.each_ref().map(|db| db.now()), model, rng, "after opening");
    for act in 1.. {
        match rng.below(20) {
            0..10 => {
                let changes = workload::changes(rng, 120);
                let durability = workload::durability(rng);
                dbs.iter().for_each(|db| db.write(&changes, durability));
                model.write(&changes);
            }
            10..13 => check_both(&dbs.each_ref().map(|db| db.now()), model, rng, "now"),
            13 => {
                let views = dbs.each_ref().map(|db| db.snapshot());
                kept.push(Kept { views, model: model.clone() });
            }
            14 | 15 if !kept.is_empty() => {
                let old = kept.swap_remove(rng.below(kept.len()));
                check_both(&old.views, &old.model, rng, "in a snapshot");
            }
            16 => {
                let (start, limit) = workload::range(rng, model.order());
                dbs.iter().for_each(|db| db.compact(start.as_deref(), limit.as_deref()));
            }
            17 => same_properties(dbs),
            18 | 19 => return act,
            _ => {}
        }
    }
    unreachable!("the loop is left by an act")
}

/// Both views show the model's content, thus each other's.
fn check_both<'a>(views: &[Box<dyn View<'a> + 'a>; 2], model: &Model, rng: &mut Rng, when: &str) {
    let [leveldb, siltstone] = views;
    // Both are asked the same.
    workload::check(&format!("LevelDB {when}"), &**leveldb, model, &mut rng.clone());
    workload::check(&format!("siltstone {when}"), &**siltstone, model, rng);
}

/// The properties that exist, and how their lines are built, are the same. Their numbers are not:
/// the engines flush and compact at moments of their own.
fn same_properties(dbs: &[Box<dyn Database>; 2]) {
    let names = (0..=7).map(|level| format!("leveldb.num-files-at-level{level}"));
    let others = [
        "leveldb.num-files-at-level",
        "leveldb.num-files-at-level1x",
        "leveldb.num-files-at-level-1",
        "leveldb.approximate-memory-usage",
        "leveldb.stats",
        "leveldb.sstables",
        "leveldb.nonsense",
        "siltstone",
        "",
    ];
    for name in names.chain(others.map(str::to_string)) {
        let [leveldb, siltstone] = dbs.each_ref().map(|db| db.property(&name));
        let [leveldb, siltstone] =
            [leveldb, siltstone].map(|text| text.map(|text| shape(&name, &text)));
        assert_eq!(siltstone, leveldb, "{name}");
    }
}

/// The lines of the property `name` that do not depend on the moment, with each number as `#`.
/// Those that do, about single levels and tables, must be built as both engines build them.
fn shape(name: &str, text: &str) -> Vec<String> {
    let mut lasting = Vec::new();
    for line in text.split_inclusive('\n') {
        let kind = without_numbers(line);
        let row_is_right = match name {
            "leveldb.stats" if kind.starts_with("  #") => {
                column_bytes(line) == [3, 9, 9, 10, 9, 10]
            }
            "leveldb.sstables" if kind.starts_with(" #") => {
                kind.starts_with(" #:#['") && kind.contains(" @ # : # .. ") && kind.ends_with("]\n")
            }
            _ => {
                lasting.push(if name == "leveldb.sstables" { line.to_string() } else { kind });
                true
            }
        };
        assert!(row_is_right, "{name}: {line:?}");
    }
    lasting
}

/// The line with each run of digits as `#`.
fn without_numbers(line: &str) -> String {
    let mut kind = String::new();
    for letter in line.chars() {
        match letter {
            '0'..='9' if kind.ends_with('#') => {}
            '0'..='9' => kind.push('#'),
            _ => kind.push(letter),
        }
    }
    kind
}

/// The widths of right-aligned numbers, each with the spaces before it.
fn column_bytes(line: &str) -> Vec<usize> {
    let mut widths = vec![0];
    let mut in_number = false;
    for byte in line.trim_end().bytes() {
        if in_number && byte == b' ' {
            widths.push(0);
        }
        in_number = byte != b' ';
        *widths.last_mut().expect("begins with one") += 1;
    }
    widths
}

#[test]
fn the_only_table_is_described_alike() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let scratch = Scratch::new("described");
    let lines = [Engine::LevelDb(leveldb), Engine::Siltstone].map(|engine| {
        let db = engine.open(&scratch.join(engine.name()), &Settings::default()).unwrap();
        let put = |key: &[u8]| Change::Put(key.to_vec(), b"value".to_vec());
        db.write(&[put(b"\0'\\\xff"), put(b"b"), put(b"c c")], Durability::Buffered);
        db.compact(None, None);
        let tables = db.property("leveldb.sstables").unwrap();
        let lines = tables.lines().filter(|line| !line.starts_with("---"));
        // What follows the file's number and size.
        lines.map(|line| line[line.find('[').unwrap()..].to_string()).collect::<Vec<_>>()
    });
    assert_eq!(lines[0], ["['\\x00'\\\\xff' @ 1 : 1 .. 'c c' @ 3 : 1]"]);
    assert_eq!(lines[1], lines[0]);
}

#[test]
fn ranges_are_estimated_alike() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let mut rng = Rng::for_test();
    let scratch = Scratch::new("sizes");
    let settings = Settings { snappy: false, ..Settings::default() };
    let entries = 0..5000_u32;
    let value = rng.bytes(1000);
    let dbs = [Engine::LevelDb(leveldb), Engine::Siltstone].map(|engine| {
        let db = engine.open(&scratch.join(engine.name()), &settings).unwrap();
        entries.clone().for_each(|number| db.put(&number.to_be_bytes(), &value));
        db.compact(None, None);
        db
    });
    for _ in 0..50 {
        let mut ends = [0, 1].map(|_| (rng.below(5000) as u32).to_be_bytes());
        ends.sort();
        let [leveldb, siltstone] = dbs.each_ref().map(|db| db.approximate_size(&ends[0], &ends[1]));
        // A table's worth of metadata and a block at either end.
        assert!(siltstone.abs_diff(leveldb) < 64 << 10, "{ends:?}: {siltstone} for {leveldb}");
    }
    for db in dbs {
        db.close();
    }
}

#[test]
fn a_database_keeps_its_order_whoever_made_it() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let engines = [Engine::LevelDb(leveldb), Engine::Siltstone];
    for maker in engines {
        let scratch = Scratch::new("order");
        let of_order = |order| Settings { order, ..Settings::default() };
        maker.open(scratch.path(), &of_order(Order::Backwards)).unwrap().close();
        for other in engines {
            let error = other.open(scratch.path(), &of_order(Order::Bytewise)).err().unwrap();
            // Programs match on these words.
            let words = "siltstone.interop.Backwards does not match existing comparator ";
            assert!(error.text.contains(words), "{}: {error}", other.name());
            assert!(error.text.starts_with("Invalid argument: "), "{}: {error}", other.name());
            other.open(scratch.path(), &of_order(Order::Backwards)).unwrap().close();
        }
    }
}
