//! Opens a database, writes, reads, scans and closes: `cargo run -p siltstone --example quickstart
//! [FOLDER]`. Without a folder it works in memory.

use siltstone::{Db, Env, Options, WriteBatch, WriteOptions};

fn main() -> siltstone::Result<()> {
    let folder = std::env::args().nth(1);
    let env = if folder.is_some() { Env::posix() } else { Env::memory() };
    let options = Options { create_if_missing: true, env, ..Default::default() };
    let db = Db::open(folder.as_deref().unwrap_or("names"), options)?;

    db.put("U+0041", "LATIN CAPITAL LETTER A")?;
    assert_eq!(db.get("U+0041")?.as_deref(), Some("LATIN CAPITAL LETTER A".as_bytes()));

    // Both or neither, and on disk when `write` returns.
    let mut batch = WriteBatch::new();
    batch.put("U+0042", "LATIN CAPITAL LETTER B");
    batch.delete("U+0041");
    db.write(&batch, WriteOptions { sync: true })?;

    for entry in db.iter()?.entries()? {
        let (key, value) = entry?;
        println!("{}  {}", key.escape_ascii(), value.escape_ascii());
    }
    db.close()
}
