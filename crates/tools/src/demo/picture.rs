//! The levels of a database as a few lines of text: a bar for the bytes, and the span of keys.

use siltstone::LevelInfo;

use crate::bytes::ByteFormat;
use crate::sizes::show_size;

const BAR_CHARS: u64 = 30;

/// One line for each level that holds tables.
pub(super) fn lines(levels: &[LevelInfo], format: ByteFormat) -> Vec<String> {
    let widest = levels.iter().map(LevelInfo::bytes).max().unwrap_or(0).max(1);
    let mut lines = Vec::new();
    for level in levels {
        let smallest = level.tables.iter().map(|table| &table.smallest).min();
        let largest = level.tables.iter().map(|table| &table.largest).max();
        let (Some(smallest), Some(largest)) = (smallest, largest) else { continue };
        let size = level.bytes();
        // Whatever is there shows at least one mark.
        let marks = (size * BAR_CHARS).div_ceil(widest) as usize;
        lines.push(format!(
            "level {}  {:30}  {:>9}  {:>3} tables   {} .. {}",
            level.level.number(),
            "#".repeat(marks),
            show_size(size),
            level.tables.len(),
            format.show(smallest),
            format.show(largest)
        ));
    }
    lines
}
