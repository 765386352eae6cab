//! Reads as of one moment while writes go on: `cargo run -p siltstone --example snapshots`.

use siltstone::{Db, Env, Options, ReadOptions};

fn main() -> siltstone::Result<()> {
    let options = Options { create_if_missing: true, env: Env::memory(), ..Default::default() };
    let db = Db::open("accounts", options)?;
    db.put("asha", "100")?;
    db.put("ravi", "20")?;

    let evening = db.snapshot();
    db.put("ravi", "70")?;
    db.delete("asha")?;

    println!("now:");
    show(&db, &ReadOptions::default())?;
    println!("as of the evening:");
    show(&db, &ReadOptions { snapshot: Some(evening.clone()), ..Default::default() })?;

    // Compaction keeps what a snapshot sees, and only that; dropped, it costs nothing more.
    drop(evening);
    db.compact_range(None, None)?;
    db.close()
}

fn show(db: &Db, options: &ReadOptions) -> siltstone::Result<()> {
    for entry in db.iter_with(options)?.entries()? {
        let (key, value) = entry?;
        println!("  {} has {}", key.escape_ascii(), value.escape_ascii());
    }
    Ok(())
}
