//! Tables: blocks that the other release compressed, and equal keys in a row.

use std::path::Path;

use siltstone::{Compression, Db, Options};
use siltstone_interop::candid::{Candid, Choice};
use siltstone_interop::leveldb::LevelDb;
use siltstone_interop::peer::Engine;
use siltstone_interop::scratch::Scratch;

use crate::Row;

const ENTRIES: u32 = 1000;

/// Row 7: Zstandard blocks, which LevelDB's source writes since 2023, and no release of it reads.
pub(crate) fn with_zstd(leveldb: LevelDb) -> Row {
    let scratch = Scratch::new("zstd");
    let (asked, default) = (scratch.join("asked"), scratch.join("default"));
    write(&asked, Compression::ZSTD);
    write(&default, Options::default().compression);

    let read = |engine, folder: &Path| {
        let db = Candid::open(engine, folder, Choice::default()).unwrap();
        let (pairs, end) = db.scan();
        (db.get(&0_u32.to_be_bytes()), pairs.len(), end)
    };
    let (got, shown, end) = read(Engine::LevelDb(leveldb), &asked);
    let error = got.unwrap_err();
    assert_eq!(error, "Corruption: bad block type");
    assert_eq!(shown, 0, "a scan ends at once");
    let end = end.map_or_else(|error| format!("with `{error}`"), |()| "as if at the end".into());

    for (engine, folder) in [
        (Engine::Siltstone, &asked),
        (Engine::Siltstone, &default),
        (Engine::LevelDb(leveldb), &default),
    ] {
        let (got, shown, end) = read(engine, folder);
        let who = format!("{} on {}", engine.name(), folder.display());
        assert!(got.unwrap().is_some() && shown == ENTRIES as usize && end.is_ok(), "{who}");
    }
    Row {
        scenario: "1000 entries lie in tables with Zstandard blocks",
        leveldb: format!("get fails with `{error}`; a scan shows {shown} entries and ends {end}"),
        siltstone: format!(
            "reads all {ENTRIES}; writes such blocks only if asked to, so that LevelDB reads all \
             {ENTRIES} of what it writes by default"
        ),
    }
}

fn write(folder: &Path, compression: Compression) {
    let options = Options { create_if_missing: true, compression, ..Options::default() };
    let db = Db::open(folder, options).unwrap();
    for number in 0..ENTRIES {
        db.put(number.to_be_bytes(), [b'v'; 100]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
}

/// Row 8: only code that uses LevelDB's table builder by itself gets there, and the C API has no
/// table builder. So this row tells what is known, and is not run.
pub(crate) fn with_equal_keys() -> Row {
    Row {
        scenario: "A table builder is given a key twice (not run here: the C API has no table \
                   builder)",
        leveldb: "Debian's build, which has its assertions, ends the process; a release build \
                  keeps both"
            .to_string(),
        siltstone: "keeps both (unit test `equal_keys_in_a_row_are_kept`)".to_string(),
    }
}
