//! Serialised arguments: `postcard` into existing buffers.

use serde::Serialize;

use postcard::ser_flavors::Flavor;

use crate::body::CHANGE_HEAD_LEN_MAX;
use crate::operation::RecordId;

/// Appends the serialised form of `value`.
#[inline]
pub(crate) fn into_vec<T: Serialize + ?Sized>(value: &T, bytes: &mut Vec<u8>) -> postcard::Result<()> {
    postcard::serialize_with_flavor(value, IntoVec(bytes))
}

struct IntoVec<'a>(&'a mut Vec<u8>);

impl Flavor for IntoVec<'_> {
    type Output = ();

    #[inline]
    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        // Mostly numbers and short strings: for a constant length no function is called to copy them.
        match *data {
            [a] => self.0.push(a),
            [a, b] => self.0.extend_from_slice(&[a, b]),
            [a, b, c] => self.0.extend_from_slice(&[a, b, c]),
            [a, b, c, d] => self.0.extend_from_slice(&[a, b, c, d]),
            _ => self.0.extend_from_slice(data),
        }
        Ok(())
    }

    #[inline]
    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.0.push(data);
        Ok(())
    }

    #[inline]
    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Variable-length numbers, as everywhere in the log: seven bits a byte, least significant first.
pub(crate) mod varint {
    /// Appends `value`.
    #[inline]
    pub(crate) fn put(bytes: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    }

    /// Takes a number off the front of `bytes`.
    #[inline]
    pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
        let mut value = 0u64;
        for at in 0..10 {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            if at == 9 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

/// Appends one change of a commit record as [`put_change`](crate::body::put_change) does, with arguments that are serialised
/// as these numbers and then these bytes. Returns their length.
#[inline]
pub(crate) fn put_serialised_change<const N: usize>(
    changes: &mut Vec<u8>,
    operation: u32,
    at: RecordId,
    numbers: [u16; N],
    bytes: &[u8],
) -> usize {
    const HEAD_LEN: usize = 32;
    const { assert!(CHANGE_HEAD_LEN_MAX + 3 * N <= HEAD_LEN) };
    let longer = |number: u16| usize::from(number >= 1 << 7) + usize::from(number >= 1 << 14);
    let arguments_len = N + numbers.map(longer).iter().sum::<usize>() + bytes.len();
    let (mut head, mut len) = ([0; HEAD_LEN], 0);
    let mut put = |mut number: u64| {
        while number >= 0x80 {
            head[len] = number as u8 | 0x80;
            (number, len) = (number >> 7, len + 1);
        }
        head[len] = number as u8;
        len += 1;
    };
    put(operation.into());
    put(at.page.get());
    put(at.slot.0.into());
    put(arguments_len as u64);
    numbers.into_iter().for_each(|number| put(number.into()));
    let begin = changes.len();
    changes.reserve(HEAD_LEN + bytes.len());
    changes.extend_from_slice(&head); // for a constant length no function is called
    changes.truncate(begin + len);
    changes.extend_from_slice(bytes);
    arguments_len
}

#[cfg(test)]
mod tests {
    use cedrat_pages::{PageId, Slot};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(values: Vec<u64>) {
            let mut bytes = Vec::new();
            for &value in &values {
                varint::put(&mut bytes, value);
            }
            let mut rest = bytes.as_slice();
            for &value in &values {
                prop_assert_eq!(varint::take(&mut rest), Some(value));
            }
            prop_assert_eq!(varint::take(&mut rest), None);
        }

        /// A change is the same bytes, however it was serialised.
        #[test]
        fn serialised_changes_are_alike(
            operation: u32, page: u64, slot: u16, at: u16, bytes in proptest::collection::vec(0u8.., 0..300),
        ) {
            let record = RecordId::new(PageId::new(page), Slot(slot));
            let (mut alike, mut changes) = (vec![1], vec![1]);
            crate::body::put_change(&mut alike, operation, record, |alike| into_vec(&(at, &bytes), alike)).unwrap();
            let len = put_serialised_change(&mut changes, operation, record, [at, bytes.len() as u16], &bytes);
            prop_assert_eq!(&changes, &alike);
            prop_assert_eq!(&changes[changes.len() - len..], postcard::to_allocvec(&(at, &bytes)).unwrap());
        }

        #[test]
        fn garbage_is_no_number_or_a_number(bytes: Vec<u8>) {
            let mut rest = bytes.as_slice();
            while varint::take(&mut rest).is_some() {}
        }
    }
}
