//! The units of a file, pages or chunks for example, in an incremental copy.

use xxhash_rust::xxh3::xxh3_64;

/// The units of a file of which a copy has only those that changed since an earlier copy.
///
/// A unit that is neither in this copy nor as in the earlier one is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedUnits {
    /// The length of each unit, in bytes.
    pub unit_len: u64,
    /// One bit for each unit, the lowest of each byte first. It is set if the copy has the unit.
    pub here: Vec<u8>,
    /// One bit for each unit. It is set if the unit is as in the earlier copy.
    pub older: Vec<u8>,
    /// The checksums of the units that the copy has, in their order.
    pub checksums: Vec<u64>,
}

impl CopiedUnits {
    /// Returns a set without units.
    pub fn new(unit_len: u64) -> CopiedUnits {
        CopiedUnits { unit_len, ..CopiedUnits::default() }
    }

    /// Adds a unit that the copy has. Units are added in ascending order.
    pub fn push_here(&mut self, unit: u64, bytes: &[u8]) {
        set(&mut self.here, unit);
        self.checksums.push(CopiedUnits::checksum(bytes));
    }

    /// Adds a unit that is as in the earlier copy.
    pub fn push_older(&mut self, unit: u64) {
        set(&mut self.older, unit);
    }

    /// Whether the copy has a unit.
    pub fn is_here(&self, unit: u64) -> bool {
        has(&self.here, unit)
    }

    /// Whether a unit is as in the earlier copy.
    pub fn is_older(&self, unit: u64) -> bool {
        has(&self.older, unit)
    }

    /// Returns the numbers of the units that the copy has, in their order.
    pub fn units_here(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.here.len() as u64 * 8).filter(|&unit| self.is_here(unit))
    }

    /// Returns the checksum of a unit.
    pub fn checksum(bytes: &[u8]) -> u64 {
        xxh3_64(bytes)
    }
}

fn set(bits: &mut Vec<u8>, unit: u64) {
    let byte = (unit / 8) as usize;
    if bits.len() <= byte {
        bits.resize(byte + 1, 0);
    }
    bits[byte] |= 1 << (unit % 8);
}

fn has(bits: &[u8], unit: u64) -> bool {
    bits.get((unit / 8) as usize).is_some_and(|byte| byte & 1 << (unit % 8) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_kept_by_number() {
        let mut units = CopiedUnits::new(4096);
        units.push_here(3, b"three");
        units.push_older(8);
        units.push_here(17, b"seventeen");
        assert_eq!(units.units_here().collect::<Vec<_>>(), [3, 17]);
        assert!(units.is_older(8) && !units.is_older(3) && !units.is_here(8) && !units.is_here(1000));
        assert_eq!(units.checksums, [CopiedUnits::checksum(b"three"), CopiedUnits::checksum(b"seventeen")]);
    }
}
