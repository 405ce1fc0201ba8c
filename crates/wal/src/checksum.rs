//! Seeds of checksums: the store, the partition, the epoch, the segment's life and the offset, covered besides the
//! bytes.
//!
//! A seed is itself a checksum of these numbers. Two equal byte strings under different seeds never have the same
//! CRC, because a CRC of a given length is a one-to-one function of its start value. So bytes left over from an
//! earlier use of an offset never verify (E1.4).

use cedrat_sync::planted;

use crate::{LogOffset, PartitionId, crc};

/// The random identifier of a store: blocks of another store never verify in this one.
pub type StoreId = [u8; 16];

/// Returns the seed of a block header; the header itself names epoch, life and offset.
pub(crate) fn block_seed(store: &StoreId, partition: PartitionId) -> u32 {
    let crc = crc32c::crc32c(store);
    crc32c::crc32c_append(crc, &partition.0.to_le_bytes())
}

/// Returns the seed of the records of one epoch in one life of a segment.
pub(crate) fn record_seed(block_seed: u32, epoch: u32, life: u32) -> u32 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&epoch.to_le_bytes());
    if !planted!("life_not_in_checksum") {
        bytes[4..].copy_from_slice(&life.to_le_bytes());
    }
    crc32c::crc32c_append(block_seed, &bytes)
}

/// Returns the CRC of a record at `offset`: of its body, which is checksummed before its offset is known, then of
/// seed and offset, then of its head.
///
/// It is one-to-one in each of the three, so the argument above holds for it as well.
#[inline]
pub(crate) fn record_crc(record_seed: u32, offset: LogOffset, body_crc: u32, head: &[u8]) -> u32 {
    crc::append_after(body_crc, placed(record_seed, offset), head)
}

/// Returns the CRC of a record, as [`record_crc`] does, whose head is the first `len` bytes of `head`, fewer than
/// sixteen.
#[inline]
pub(crate) fn record_crc_of_few(record_seed: u32, offset: LogOffset, body_crc: u32, head: u128, len: usize) -> u32 {
    crc::append_few_after(body_crc, placed(record_seed, offset), head, len)
}

/// Returns the seed of a record at this offset.
#[inline]
fn placed(record_seed: u32, offset: LogOffset) -> u32 {
    // One-to-one in the low 32 bits of the offset, so records swapped within 4 GiB never verify.
    record_seed ^ offset.get() as u32 ^ ((offset.get() >> 32) as u32).rotate_left(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_seed_counts() {
        let bytes = b"the same bytes everywhere";
        let crc = |store: u8, partition, epoch, life, offset| {
            let block = block_seed(&[store; 16], PartitionId(partition));
            let (head, body) = bytes.split_at(7);
            record_crc(record_seed(block, epoch, life), LogOffset::new(offset), crc::append(0, body), head)
        };
        let all = [
            crc(1, 0, 1, 1, 64),
            crc(2, 0, 1, 1, 64),
            crc(1, 1, 1, 1, 64),
            crc(1, 0, 2, 1, 64),
            crc(1, 0, 1, 2, 64),
            crc(1, 0, 1, 1, 65),
            crc(1, 0, 1, 1, 64 + (1 << 32)),
        ];
        for (i, one) in all.iter().enumerate() {
            for other in &all[..i] {
                assert_ne!(one, other, "E1.4");
            }
        }
    }
}
