//! CRC-32C by the instruction that x86 processors have for it, in three streams at once: a step takes three cycles, and
//! another may begin in each. What the streams come to is put together by a multiplication without carries.
//!
//! **Source.** V. Gopal and others, "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction" (Intel, 2011).
#![expect(unsafe_code, reason = "instructions that a processor may lack")]

use std::arch::x86_64::{
    _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64,
};
use std::is_x86_feature_detected;

/// x^32 is this much, as the instruction has it: the highest power in the lowest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;
const WORD_BYTES: usize = size_of::<u64>();
/// Below this, three streams take no less time than one.
const STREAM_WORDS_MIN: usize = 8;
const STREAM_WORDS_MAX: usize = 256;

/// What a register is multiplied by to move it past so many words: x^(64 words - 33), for the multiplication brings x, and
/// to take its result modulo the polynomial brings x^32.
static PAST_WORDS: [u32; 2 * STREAM_WORDS_MAX + 1] = past_words();

const fn past_words() -> [u32; 2 * STREAM_WORDS_MAX + 1] {
    let mut all = [0; 2 * STREAM_WORDS_MAX + 1];
    let mut power = 1; // x^31
    let mut words = 1;
    while words < all.len() {
        all[words] = power;
        let mut bits = 0;
        while bits < u64::BITS {
            power = if power & 1 == 0 { power >> 1 } else { power >> 1 ^ POLYNOMIAL };
            bits += 1;
        }
        words += 1;
    }
    all
}

/// CRC-32C of what `crc` covers followed by `bytes`; `None` where the processor cannot.
#[inline]
pub(super) fn extend(crc: u32, bytes: &[u8]) -> Option<u32> {
    if !is_x86_feature_detected!("sse4.2") || !is_x86_feature_detected!("pclmulqdq") {
        return None;
    }
    // SAFETY: it has the instructions.
    Some(unsafe { in_streams(crc, bytes) })
}

#[target_feature(enable = "sse4.2,pclmulqdq")]
fn in_streams(crc: u32, mut bytes: &[u8]) -> u32 {
    let mut register = u64::from(!crc);
    while bytes.len() >= 3 * WORD_BYTES * STREAM_WORDS_MIN {
        let words = (bytes.len() / (3 * WORD_BYTES)).min(STREAM_WORDS_MAX);
        let (three, rest) = bytes.split_at(3 * words * WORD_BYTES);
        register = three_streams(register, three, words);
        bytes = rest;
    }
    let (words, rest) = bytes.as_chunks();
    for word in words {
        register = _mm_crc32_u64(register, u64::from_le_bytes(*word));
    }
    let last = rest.iter().fold(register as u32, |register, byte| _mm_crc32_u8(register, *byte));
    !last
}

/// Of three times so many words.
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn three_streams(register: u64, bytes: &[u8], words: usize) -> u64 {
    let (all, _) = bytes.as_chunks();
    let (first, others) = all.split_at(words);
    let (second, third) = others.split_at(words);
    let (mut a, mut b, mut c) = (register, 0, 0);
    for ((of_first, of_second), of_third) in first.iter().zip(second).zip(third) {
        a = _mm_crc32_u64(a, u64::from_le_bytes(*of_first));
        b = _mm_crc32_u64(b, u64::from_le_bytes(*of_second));
        c = _mm_crc32_u64(c, u64::from_le_bytes(*of_third));
    }
    _mm_crc32_u64(0, times(a, PAST_WORDS[2 * words]) ^ times(b, PAST_WORDS[words])) ^ c
}

#[target_feature(enable = "sse4.2,pclmulqdq")]
fn times(register: u64, power: u32) -> u64 {
    let (left, right) = (_mm_cvtsi64_si128(register as i64), _mm_cvtsi64_si128(i64::from(power)));
    _mm_cvtsi128_si64(_mm_clmulepi64_si128::<0>(left, right)) as u64
}
