//! Times in people's writing, as flags take them and lists show them: `7d`, and dates.

use std::time::Duration;

/// Reads a time: `90s`, `15m`, `1h`, `7d`, or seconds without a unit.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let lower = text.trim().to_ascii_lowercase();
    let (digits, unit) = match lower.char_indices().last() {
        Some((at, 's')) => (&lower[..at], 1),
        Some((at, 'm')) => (&lower[..at], 60),
        Some((at, 'h')) => (&lower[..at], 3600),
        Some((at, 'd')) => (&lower[..at], 86_400),
        _ => (lower.as_str(), 1),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = digits.parse::<u64>().ok().filter(|_| plain);
    let seconds = seconds.and_then(|count| count.checked_mul(unit));
    // Milliseconds are what is stored, and they must fit.
    let seconds = seconds.filter(|seconds| *seconds <= u64::MAX / 1000);
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| format!("{text:?} is no time; write 90s, 15m, 1h or 7d"))
}

/// `2026-11-25 09:30:00`, in UTC, of milliseconds since 1970.
pub(crate) fn show_moment(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day of a number of days since 1970, by the Gregorian calendar. Years begin in March, so that leap days
/// come last.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leaps = day_of_era / 1460 + day_of_era / 146_096;
    let year_of_era = (day_of_era + day_of_era / 36_524 - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_one_unit() {
        for (text, seconds) in [("0", 0), ("90", 90), ("90s", 90), ("15m", 900), ("7D", 604_800)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "h", "-1h", "1.5h", "+3", "1h30m", "99999999999999999999d", "9e9"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn moments_are_dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_709_251_199, "2024-02-29 23:59:59"),
            (1_767_225_599, "2025-12-31 23:59:59"),
            (1_767_225_600, "2026-01-01 00:00:00"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(show_moment(seconds * 1000 + 999), text);
        }
    }
}
