//! Room in the log (E16).
pub(crate) fn segments_least(partitions: u16) -> u64 {
    2 * u64::from(partitions) + 2
}
