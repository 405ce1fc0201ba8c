//! The bytes of a page's body behind one interface, through which in-page algorithms read and write.
//!
//! A slice in a test, a latched page, a page being changed, and a page that is read without a latch (E12) all have the
//! same interface. Every access is checked against the bounds, so invalid bytes cause no more than [`Garbled`] (E12.3).

use std::ops::Range;

use cedrat_pages::{BODY_LEN, OptimisticPage, PageMut, PageRef};

/// The bytes read are invalid: torn by a concurrent writer, or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbled;

/// Read access.
pub(crate) trait Bytes {
    fn byte(&self, at: usize) -> Result<u8, Garbled>;
    /// Reads two bytes.
    fn half(&self, at: usize) -> Result<u16, Garbled>;
    /// Reads eight bytes.
    fn word(&self, at: usize) -> Result<u64, Garbled>;
    /// Whether the bytes at `at` equal `bytes`.
    fn same(&self, at: usize, bytes: &[u8]) -> Result<bool, Garbled>;
}

/// Write access, for the page's only writer.
pub(crate) trait BytesMut: Bytes {
    fn put(&mut self, at: usize, bytes: &[u8]) -> Result<(), Garbled>;
    fn copy_within(&mut self, from: Range<usize>, to: usize) -> Result<(), Garbled>;
    /// Lends all bytes at once; costs a copy each way, so it is for rare cases.
    fn edit<R>(&mut self, edit: impl FnOnce(&mut [u8]) -> Result<R, Garbled>) -> Result<R, Garbled>;
}

impl Bytes for [u8] {
    #[inline]
    fn byte(&self, at: usize) -> Result<u8, Garbled> {
        self.get(at).copied().ok_or(Garbled)
    }

    #[inline]
    fn half(&self, at: usize) -> Result<u16, Garbled> {
        let bytes = self.get(at..at + 2).ok_or(Garbled)?;
        Ok(u16::from_le_bytes(bytes.try_into().expect("two bytes")))
    }

    #[inline]
    fn word(&self, at: usize) -> Result<u64, Garbled> {
        let bytes = self.get(at..at + 8).ok_or(Garbled)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    #[inline]
    fn same(&self, at: usize, bytes: &[u8]) -> Result<bool, Garbled> {
        Ok(self.get(at..at + bytes.len()).ok_or(Garbled)? == bytes)
    }
}

impl BytesMut for [u8] {
    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) -> Result<(), Garbled> {
        self.get_mut(at..at + bytes.len()).ok_or(Garbled)?.copy_from_slice(bytes);
        Ok(())
    }

    fn copy_within(&mut self, from: Range<usize>, to: usize) -> Result<(), Garbled> {
        if from.start > from.end || from.end > self.len() || to + from.len() > self.len() {
            return Err(Garbled);
        }
        <[u8]>::copy_within(self, from, to);
        Ok(())
    }

    fn edit<R>(&mut self, edit: impl FnOnce(&mut [u8]) -> Result<R, Garbled>) -> Result<R, Garbled> {
        edit(self)
    }
}

impl Bytes for OptimisticPage<'_> {
    #[inline(always)]
    fn byte(&self, at: usize) -> Result<u8, Garbled> {
        self.u8_at(at).ok_or(Garbled)
    }

    #[inline(always)]
    fn half(&self, at: usize) -> Result<u16, Garbled> {
        self.u16_at(at).ok_or(Garbled)
    }

    #[inline(always)]
    fn word(&self, at: usize) -> Result<u64, Garbled> {
        self.u64_at(at).ok_or(Garbled)
    }

    #[inline(always)]
    fn same(&self, at: usize, bytes: &[u8]) -> Result<bool, Garbled> {
        self.equals(at, bytes).ok_or(Garbled)
    }
}

impl Bytes for PageRef<'_> {
    #[inline]
    fn byte(&self, at: usize) -> Result<u8, Garbled> {
        self.body()[..].byte(at)
    }

    #[inline]
    fn half(&self, at: usize) -> Result<u16, Garbled> {
        self.body()[..].half(at)
    }

    #[inline]
    fn word(&self, at: usize) -> Result<u64, Garbled> {
        self.body()[..].word(at)
    }

    #[inline]
    fn same(&self, at: usize, bytes: &[u8]) -> Result<bool, Garbled> {
        self.body()[..].same(at, bytes)
    }
}

impl Bytes for PageMut<'_> {
    #[inline]
    fn byte(&self, at: usize) -> Result<u8, Garbled> {
        self.page_ref().byte(at)
    }

    #[inline]
    fn half(&self, at: usize) -> Result<u16, Garbled> {
        self.page_ref().half(at)
    }

    #[inline]
    fn word(&self, at: usize) -> Result<u64, Garbled> {
        self.page_ref().word(at)
    }

    #[inline]
    fn same(&self, at: usize, bytes: &[u8]) -> Result<bool, Garbled> {
        self.page_ref().same(at, bytes)
    }
}

impl BytesMut for PageMut<'_> {
    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) -> Result<(), Garbled> {
        PageMut::put(self, at, bytes).map_err(|_| Garbled)
    }

    fn copy_within(&mut self, from: Range<usize>, to: usize) -> Result<(), Garbled> {
        PageMut::copy_within(self, from, to).map_err(|_| Garbled)
    }

    fn edit<R>(&mut self, edit: impl FnOnce(&mut [u8]) -> Result<R, Garbled>) -> Result<R, Garbled> {
        PageMut::edit(self, 0..BODY_LEN, edit).map_err(|_| Garbled)?
    }
}
