//! What stands above the lines: the machine on standard error, the sizes on standard output.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::flags::Flags;

/// Between the header and the lines.
pub(crate) const RULE: &str = "------------------------------------------------\n";
const MIB: f64 = 1_048_576.0;
const KEY_DIGITS: i64 = 16;

/// The sizes of keys, values and all, and warnings about how the program was built.
///
/// LevelDB also warns of a build without optimisation, which a Rust program cannot see, and of a
/// missing Snappy, which is always there.
pub(crate) fn sizes(flags: &Flags) -> String {
    let key = KEY_DIGITS + flags.key_prefix as i64;
    let (value, num) = (i64::from(flags.value_size), i64::from(flags.num));
    let compressed = flags.value_size as f64 * flags.compression_ratio;
    let raw = ((key + value) * num) as f64 / MIB;
    let file = (key as f64 + compressed) * num as f64 / MIB;
    let mut text = format!(
        "Keys:       {key} bytes each\n\
         Values:     {value} bytes each ({} bytes after compression)\n\
         Entries:    {num}\n\
         RawSize:    {raw:.1} MB (estimated)\n\
         FileSize:   {file:.1} MB (estimated)\n",
        (compressed + 0.5) as i32,
    );
    if cfg!(debug_assertions) {
        text.push_str("WARNING: Assertions are enabled; benchmarks unnecessarily slow\n");
    }
    text.push_str(RULE);
    text
}

/// The engine, the time, and the processors as Linux tells them.
pub(crate) fn environment(engine: &str, version: &str) -> String {
    let engine = format!("{engine}:");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut text = format!("{engine:<12}version {version}\nDate:       {}\n", date(now));
    if let Ok(processors) = std::fs::read_to_string("/proc/cpuinfo") {
        let values = |name: &'static str| {
            let fields = processors.lines().filter_map(|line| line.split_once(':'));
            fields.filter(move |(key, _)| key.trim() == name).map(|(_, value)| value.trim())
        };
        let model = values("model name").next_back().unwrap_or_default();
        let _ = writeln!(text, "CPU:        {} * {model}", values("model name").count());
        let _ =
            writeln!(text, "CPUCache:   {}", values("cache size").next_back().unwrap_or_default());
    }
    text
}

/// `seconds` since 1970 as C's `ctime` writes it, in UTC: time zones would cost a dependency.
fn date(seconds: u64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [(&str, u64); 12] = [
        ("Jan", 31),
        ("Feb", 28),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
        ("Dec", 31),
    ];
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let weekday = WEEKDAYS[(days % 7) as usize];
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut months =
        MONTHS.iter().map(|&(name, len)| (name, len + u64::from(name == "Feb" && is_leap(year))));
    let month = months.find(|&(_, len)| {
        let within = days < len;
        days -= if within { 0 } else { len };
        within
    });
    let month = month.map_or("Dec", |(name, _)| name);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday} {month} {:2} {hour:02}:{minute:02}:{second:02} {year}", days + 1)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn sizes_are_told_as_leveldb_tells_them() {
        let flags = Flags::parse(&[]).unwrap();
        let text = sizes(&flags);
        let expected = "Keys:       16 bytes each\n\
                        Values:     100 bytes each (50 bytes after compression)\n\
                        Entries:    1000000\n\
                        RawSize:    110.6 MB (estimated)\n\
                        FileSize:   62.9 MB (estimated)\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("\n------------------------------------------------\n"));

        let wide = ["--key_prefix=4", "--value_size=1001", "--num=7"].map(OsString::from);
        let text = sizes(&Flags::parse(&wide).unwrap());
        assert!(text.starts_with("Keys:       20 bytes each\nValues:     1001 bytes each (501 "));
    }

    #[test]
    fn dates_are_those_of_ctime() {
        assert_eq!(date(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(date(951_827_696), "Tue Feb 29 12:34:56 2000");
        assert_eq!(date(1_735_689_599), "Tue Dec 31 23:59:59 2024");
        assert_eq!(date(1_763_782_102), "Sat Nov 22 03:28:22 2025");
        assert_eq!(date(4_107_542_400), "Mon Mar  1 00:00:00 2100");
    }

    #[test]
    fn the_machine_is_told() {
        let text = environment("siltstone", "1.2");
        assert!(text.starts_with("siltstone:  version 1.2\nDate:       "), "{text}");
        assert!(!cfg!(target_os = "linux") || text.contains("\nCPUCache:   "), "{text}");
    }
}
