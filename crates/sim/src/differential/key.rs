//! How a number becomes a key.

use super::random::Random;

/// The key of a number: short and long, with shared beginnings, with bytes at both ends of their
/// range. In orders that fold letters, some numbers share a key.
pub(super) fn key(number: u32, random: &mut Random) -> Vec<u8> {
    match number % 8 {
        _ if number == 0 => Vec::new(),
        0 => extreme_bytes(number / 8),
        1 => number.to_be_bytes().to_vec(),
        2 => [&[b'p'; 130][..], &number.to_be_bytes()].concat(),
        3 => {
            let mut spelled = format!("Folder/Sub/{number:x}").into_bytes();
            if random.one_in(2) {
                // Another key, save where case does not count.
                spelled[0] = b'f';
            }
            spelled
        }
        4 => format!("{}", number.wrapping_mul(2_654_435_761)).into_bytes(),
        _ => format!("user/{:05}/{}", number / 64, number % 64).into_bytes(),
    }
}

/// A number written with 0x00, 0x01 and 0xff as its only digits.
fn extreme_bytes(mut number: u32) -> Vec<u8> {
    let mut key = Vec::new();
    while number > 0 {
        key.push([0x00, 0x01, 0xff][(number % 3) as usize]);
        number /= 3;
    }
    key
}
