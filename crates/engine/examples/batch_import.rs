//! Loads lines of the form `key<TAB>value` from standard input, a batch at a time:
//!
//! ```sh
//! printf 'apple\tred\nbanana\tyellow\n' | cargo run -p siltstone --example batch_import -- FOLDER
//! ```
//!
//! Batches are not synced one by one: closing syncs the log once, and a crash before that leaves
//! whole batches, in order.

use std::error::Error;
use std::io;

use siltstone::{Db, Options, WriteBatch, WriteOptions};

/// Large enough that the cost of a write is shared by many keys, small beside the write buffer.
const BATCH_BYTES: usize = 256 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: batch_import FOLDER < LINES")?;
    let db = Db::open(folder, Options { create_if_missing: true, ..Default::default() })?;
    let mut batch = WriteBatch::new();
    let mut pairs = 0;
    for line in io::stdin().lines() {
        let line = line?;
        let (key, value) = line.split_once('\t').ok_or("a line without a tab")?;
        batch.put(key, value);
        pairs += 1;
        if batch.approximate_size() >= BATCH_BYTES {
            db.write(&batch, WriteOptions::default())?;
            batch.clear();
        }
    }
    db.write(&batch, WriteOptions::default())?;
    db.close()?;
    println!("{pairs} pairs");
    Ok(())
}
