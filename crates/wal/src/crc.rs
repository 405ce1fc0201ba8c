//! CRC-32C of short byte strings by the processor's own instruction. This module holds every `unsafe` of the crate.
//!
//! A record has some forty bytes, and its checksum is a large part of the cost of appending and scanning. The
//! `crc32c` crate is built for kilobytes; it still handles long strings and machines without the instruction.
//!
//! Sound because
//! 1. a function that needs SSE 4.2 is called only after the processor was found to have it.

#![allow(unsafe_code)]

/// The length from which the crate's three parallel streams are faster than one.
#[cfg(any(target_arch = "x86_64", test))]
const LONG: usize = 512;

/// Continues a CRC-32C over `bytes`; the same function as `crc32c::crc32c_append`.
#[inline]
pub(crate) fn append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < LONG && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: 1; checked in the line above.
        return unsafe { short(crc, bytes) };
    }
    crc32c::crc32c_append(crc, bytes)
}

/// Continues a CRC-32C over the four bytes of `word`, then over `bytes`.
#[inline]
pub(crate) fn append_after(crc: u32, word: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < LONG && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: 1; checked in the line above.
        return unsafe { short_after(crc, word, bytes) };
    }
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &word.to_le_bytes()), bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short_after(crc: u32, word: u32, bytes: &[u8]) -> u32 {
    short(!std::arch::x86_64::_mm_crc32_u32(!crc, word), bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
#[inline]
fn short(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};
    let (words, mut rest) = bytes.as_chunks::<8>();
    let mut crc = u64::from(!crc);
    for word in words {
        crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
    }
    let mut crc = crc as u32;
    if let Some((four, more)) = rest.split_first_chunk::<4>() {
        crc = _mm_crc32_u32(crc, u32::from_le_bytes(*four));
        rest = more;
    }
    if let Some((two, more)) = rest.split_first_chunk::<2>() {
        crc = _mm_crc32_u16(crc, u16::from_le_bytes(*two));
        rest = more;
    }
    if let [one] = rest {
        crc = _mm_crc32_u8(crc, *one);
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_agrees_at_every_length_and_alignment() {
        let bytes: Vec<u8> = (0..LONG as u32 + 40).map(|at| (at * 31 % 251) as u8).collect();
        for from in 0..9 {
            for len in (0..80).chain(LONG - 3..LONG + 3) {
                let part = &bytes[from..from + len];
                assert_eq!(append(17, part), crc32c::crc32c_append(17, part), "{from} {len}");
                let after = crc32c::crc32c_append(crc32c::crc32c_append(17, &9u32.to_le_bytes()), part);
                assert_eq!(append_after(17, 9, part), after, "{from} {len}");
            }
        }
    }
}
