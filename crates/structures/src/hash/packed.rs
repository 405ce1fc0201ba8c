//! Concatenated entries, as the log contains them when a split moves many at once.

use super::bucket::{self, KeyHash, space_taken};
use crate::bytes::{BytesMut, Corrupt};

/// Entries for one page, in the form `key length, value length, key, value`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed {
    count: usize,
    bytes: Vec<u8>,
}

impl Packed {
    /// Returns a single packed entry.
    pub(crate) fn one(key: &[u8], value: &[u8]) -> Packed {
        let mut packed = Packed::default();
        packed.push(key, value);
        packed
    }

    /// Whether all entries with one more would still fit on a page.
    pub(crate) fn has_space(&self, key: &[u8], value: &[u8]) -> bool {
        space_taken(self.count + 1, self.bytes.len() + bucket::entry_len(key.len(), value.len())) <= bucket::SPACE
    }

    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        let len = bucket::entry_len(key.len(), value.len());
        self.bytes.resize(start + len - key.len() - value.len(), 0);
        let after = bucket::write_len(&mut self.bytes, start, key.len());
        bucket::write_len(&mut self.bytes, after, value.len());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.count += 1;
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the bytes for a log record.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Calls `each` with every entry of `packed`.
pub(crate) fn unpack(packed: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> Result<(), Corrupt>) -> Result<(), Corrupt> {
    let mut at = 0;
    while at < packed.len() {
        let (key_len, after) = bucket::read_len(packed, at)?;
        let (value_len, key_at) = bucket::read_len(packed, after)?;
        let value_at = key_at + key_len;
        let key = packed.get(key_at..value_at).ok_or(Corrupt)?;
        let value = packed.get(value_at..value_at + value_len).ok_or(Corrupt)?;
        each(key, value)?;
        at = value_at + value_len;
    }
    Ok(())
}

/// Adds every entry of `packed` to a bucket page.
pub(crate) fn insert_all<B: BytesMut + ?Sized>(body: &mut B, packed: &[u8], seed: u64) -> Result<(), Corrupt> {
    unpack(packed, |key, value| bucket::insert(body, KeyHash::of(key, seed), key, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_pages::BODY_LEN;

    #[test]
    fn packed_entries_fit_a_page() {
        for len in [0, 1, 7, 8, 100, 127, 128, 900] {
            let mut packed = Packed::default();
            let mut number = 0_u64;
            while packed.has_space(&number.to_le_bytes(), &vec![3; len]) {
                packed.push(&number.to_le_bytes(), &vec![3; len]);
                number += 1;
            }
            assert_eq!(packed.count() as u64, number);
            let mut body = vec![0; BODY_LEN];
            bucket::format(&mut body[..], 1, 5, 0).unwrap();
            insert_all(&mut body[..], &packed.into_bytes(), 5).unwrap();
            assert_eq!(bucket::count(&body[..]).unwrap() as u64, number);
            bucket::check(&body, 5).unwrap();
        }
    }

    #[test]
    fn a_cut_record_is_refused() {
        let mut packed = Packed::default();
        packed.push(b"key", b"value");
        let bytes = packed.into_bytes();
        for cut in 1..bytes.len() {
            assert_eq!(unpack(&bytes[..cut], |_, _| Ok(())), Err(Corrupt));
        }
    }
}
