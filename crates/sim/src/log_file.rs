//! Logs, batches and manifests made by hand, by the format's description alone: what the engine
//! would never write, or what other programs might.

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;

/// A log file of these records.
pub fn log_file(records: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for record in records {
        append_record(&mut file, record);
    }
    file
}

/// Appends one record as a log writer would.
pub fn append_record(file: &mut Vec<u8>, record: &[u8]) {
    let mut rest = record;
    let mut first = true;
    loop {
        let room = BLOCK_BYTES - file.len() % BLOCK_BYTES;
        if room < HEADER_BYTES {
            file.resize(file.len() + room, 0);
            continue;
        }
        let (part, behind) = rest.split_at(rest.len().min(room - HEADER_BYTES));
        rest = behind;
        let kind = match (first, rest.is_empty()) {
            (true, true) => 1u8,
            (true, false) => 2,
            (false, false) => 3,
            (false, true) => 4,
        };
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&[kind]), part);
        let masked = checksum.rotate_right(15).wrapping_add(0xa282_ead8);
        file.extend_from_slice(&masked.to_le_bytes());
        file.extend_from_slice(&(part.len() as u16).to_le_bytes());
        file.push(kind);
        file.extend_from_slice(part);
        first = false;
        if rest.is_empty() {
            return;
        }
    }
}

/// A batch of puts that starts at a sequence number. Without puts it is a sync mark.
pub fn batch(seqno: u64, puts: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = seqno.to_le_bytes().to_vec();
    bytes.extend_from_slice(&(puts.len() as u32).to_le_bytes());
    for (key, value) in puts {
        bytes.push(1);
        put_slice(&mut bytes, key.as_bytes());
        put_slice(&mut bytes, value.as_bytes());
    }
    bytes
}

/// A table as a manifest names it.
pub struct Named<'a> {
    pub level: u64,
    pub number: u64,
    pub size: u64,
    /// User key and sequence number.
    pub smallest: (&'a str, u64),
    pub largest: (&'a str, u64),
}

/// A manifest of one edit; it needs no log if `log` is zero.
pub fn manifest(log: u64, next_file: u64, last_seqno: u64, tables: &[Named<'_>]) -> Vec<u8> {
    let mut edit = vec![1];
    put_slice(&mut edit, b"leveldb.BytewiseComparator");
    for (tag, number) in [(2, log), (9, 0), (3, next_file), (4, last_seqno)] {
        edit.push(tag);
        put_varint(&mut edit, number);
    }
    for table in tables {
        edit.push(7);
        for number in [table.level, table.number, table.size] {
            put_varint(&mut edit, number);
        }
        for (user, seqno) in [table.smallest, table.largest] {
            let tag = seqno << 8 | 1;
            put_slice(&mut edit, &[user.as_bytes(), &tag.to_le_bytes()].concat());
        }
    }
    log_file(&[edit])
}

fn put_slice(bytes: &mut Vec<u8>, slice: &[u8]) {
    put_varint(bytes, slice.len() as u64);
    bytes.extend_from_slice(slice);
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
