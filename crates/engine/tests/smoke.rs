//! The first look at a whole database: put, get, scan, flush, compact, reopen.
use siltstone::{Db, Env, Options, ReadOptions, WriteBatch, WriteOptions};

fn options(env: &Env) -> Options {
    Options {
        create_if_missing: true,
        env: env.clone(),
        write_buffer_size: 64 << 10,
        ..Default::default()
    }
}

#[test]
fn put_get_scan_reopen() {
    let env = Env::memory();
    let db = Db::open("db", options(&env)).unwrap();
    let n = 20_000u32;
    for i in 0..n {
        let key = format!("{:08}", i.wrapping_mul(7919) % n);
        db.put(&key, format!("value-{i}")).unwrap();
    }
    let snapshot = db.snapshot();
    for i in (0..n).step_by(3) {
        db.delete(format!("{i:08}")).unwrap();
    }
    let mut batch = WriteBatch::new();
    batch.put("zz", "last");
    db.write(&batch, WriteOptions { sync: true }).unwrap();
    let check = |db: &Db| {
        let mut seen = 0;
        let mut iter = db.iter().unwrap();
        iter.seek_to_first().unwrap();
        while iter.valid() {
            seen += 1;
            iter.next().unwrap();
        }
        let mut back = 0;
        iter.seek_to_last().unwrap();
        assert_eq!(iter.key(), b"zz");
        while iter.valid() {
            back += 1;
            iter.prev().unwrap();
        }
        assert_eq!(seen, n - n.div_ceil(3) + 1);
        assert_eq!(seen, back);
        assert_eq!(db.get("00000000").unwrap(), None);
        assert!(db.get("00000001").unwrap().is_some());
    };
    check(&db);
    let old = ReadOptions { snapshot: Some(snapshot.clone()), ..Default::default() };
    assert!(db.get_with("00000000", &old).unwrap().is_some());
    db.flush().unwrap();
    check(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
    assert!(db.get_with("00000000", &old).unwrap().is_some());
    println!("{}", db.property("leveldb.stats").unwrap());
    println!("{}", db.property("siltstone.metrics").unwrap());
    drop((snapshot, old));
    db.close().unwrap();
    let db = Db::open("db", options(&env)).unwrap();
    check(&db);
    let reader = Db::open_read_only("db", options(&env)).unwrap();
    check(&reader);
    db.compact_range(None, None).unwrap();
    db.wait_for_background().unwrap();
    check(&db);
    println!("{}", db.property("leveldb.sstables").unwrap().len());
}
