//! Sizes, counts and durations in people's writing: `64KiB`, `3M`, `18 us`. Used by the flags and
//! by everything printed for eyes.

use std::time::Duration;

/// Reads a size in bytes: `4096`, `64k`, `64KiB`, `2M`, `1.5GiB`. Units are powers of 1024, as in
/// LevelDB's own options.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let number = lower.strip_suffix("ib").or(lower.strip_suffix('b')).unwrap_or(&lower);
    scaled(number, 1024).ok_or_else(|| format!("{text:?} is no size; write 4096, 64KiB or 2M"))
}

/// Reads a count: `1000`, `250k`, `3M`. Units are powers of 1000.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase().replace('_', "");
    scaled(&lower, 1000).ok_or_else(|| format!("{text:?} is no count; write 1000, 250k or 3M"))
}

fn scaled(text: &str, base: u64) -> Option<u64> {
    let (digits, power) = match text.char_indices().last()? {
        (at, 'k') => (&text[..at], 1),
        (at, 'm') => (&text[..at], 2),
        (at, 'g') => (&text[..at], 3),
        (at, 't') => (&text[..at], 4),
        _ => (text, 0),
    };
    let unit = base.checked_pow(power)?;
    let digits = digits.trim_end();
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(unit);
    }
    let product = digits.parse::<f64>().ok()? * unit as f64;
    (product < u64::MAX as f64).then_some(product.round() as u64)
}

/// `78.2 MiB`; exact below a KiB.
pub(crate) fn show_size(bytes: u64) -> String {
    let mut scaled = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{scaled:.1} {unit}") }
}

/// `1,500,000`.
pub(crate) fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `18.2 us`, `3.1 ms`, `7.40 s`, `3.0 h`.
pub(crate) fn show_duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1e-3 {
        format!("{:.1} us", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 120.0 {
        format!("{seconds:.2} s")
    } else if seconds < 7200.0 {
        format!("{:.1} min", seconds / 60.0)
    } else if seconds < 48.0 * 3600.0 {
        format!("{:.1} h", seconds / 3600.0)
    } else {
        format!("{:.1} d", seconds / 86_400.0)
    }
}

/// A rate per second, `412,000/s`; nothing sensible comes of no time at all.
pub(crate) fn show_rate(count: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64().max(1e-9);
    format!("{}/s", show_count((count as f64 / seconds) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512B", 512),
            ("64k", 65536),
            ("64KiB", 65536),
            ("64 KB", 65536),
            ("1.5M", 1_572_864),
            ("2GiB", 2 << 30),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "-1", "1e9", "nan", "inf", "64x", "1.2.3", "99999999999T", "."] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_are_read_in_powers_of_1000() {
        assert_eq!(parse_count("3M"), Ok(3_000_000));
        assert_eq!(parse_count("250k"), Ok(250_000));
        assert_eq!(parse_count("1_000"), Ok(1000));
        assert!(parse_count("many").is_err());
    }

    #[test]
    fn numbers_are_shown_for_eyes() {
        assert_eq!(show_size(1023), "1023 B");
        assert_eq!(show_size(82_002_000), "78.2 MiB");
        assert_eq!(show_count(0), "0");
        assert_eq!(show_count(999), "999");
        assert_eq!(show_count(1_500_000), "1,500,000");
        assert_eq!(show_duration(Duration::from_nanos(18_200)), "18.2 us");
        assert_eq!(show_duration(Duration::from_millis(7400)), "7.40 s");
        assert_eq!(show_duration(Duration::from_secs(3600)), "60.0 min");
        assert_eq!(show_duration(Duration::from_secs(3 * 86_400)), "3.0 d");
    }
}
