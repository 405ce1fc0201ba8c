//! The bytes of a page's body behind one interface, through which in-page algorithms read and write.
//!
//! A slice in a test, a latched page, a page being changed, and a page that is read without a latch (E12) all have the
//! same interface. Every access is checked against the bounds, so invalid bytes cause no more than [`Corrupt`] (E12.3).

use std::ops::Range;

use cedrat_pages::{BODY_LEN, OptimisticPage, PageMut, PageRef};

/// The bytes read are invalid: torn by a concurrent writer, or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// Read access.
pub(crate) trait Bytes {
    fn byte(&self, at: usize) -> Result<u8, Corrupt>;
    /// Reads two bytes.
    fn half(&self, at: usize) -> Result<u16, Corrupt>;
    /// Reads eight bytes.
    fn word(&self, at: usize) -> Result<u64, Corrupt>;
    /// Whether the bytes at `at` equal `bytes`.
    fn same(&self, at: usize, bytes: &[u8]) -> Result<bool, Corrupt>;
}

/// Write access, for the page's only writer.
pub(crate) trait BytesMut: Bytes {
    fn put(&mut self, at: usize, bytes: &[u8]) -> Result<(), Corrupt>;
    fn copy_within(&mut self, from: Range<usize>, to: usize) -> Result<(), Corrupt>;
    /// Lends all bytes at once; costs a copy each way, so it is for rare cases.
    fn edit<R>(&mut self, edit: impl FnOnce(&mut [u8]) -> Result<R, Corrupt>) -> Result<R, Corrupt>;
}

impl Bytes for [u8] {
    #[inline]
    fn byte(&self, at: usize) -> Result<u8, Corrupt> {
        self.get(at).copied().ok_or(Corrupt)
    }

    #[inline]
    fn half(&self, at: usize) -> Result<u16, Corrupt> {
        let bytes = self.get(at..at + 2).ok_or(Corrupt)?;
        Ok(u16::from_le_bytes(bytes.try_into().expect("two bytes")))
    }

    #[inline]
    fn word(&self, at: usize) -> Result<u64, Corrupt> {
        let bytes = self.get(at..at + 8).ok_or(Corrupt)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    #[inline]
    fn same(&self, at: usize, bytes: &[u8]) -> Result<bool, Corrupt> {
        Ok(self.get(at..at + bytes.len()).ok_or(Corrupt)? == bytes)
    }
}

impl BytesMut for [u8] {
    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) -> Result<(), Corrupt> {
        self.get_mut(at..at + bytes.len()).ok_or(Corrupt)?.copy_from_slice(bytes);
        Ok(())
    }

    fn copy_within(&mut self, from: Range<usize>, to: usize) -> Result<(), Corrupt> {
        if from.start > from.end || from.end > self.len() || to + from.len() > self.len() {
            return Err(Corrupt);
        }
        <[u8]>::copy_within(self, from, to);
        Ok(())
    }

    fn edit<R>(&mut self, edit: impl FnOnce(&mut [u8]) -> Result<R, Corrupt>) -> Result<R, Corrupt> {
        edit(self)
    }
}

impl Bytes for OptimisticPage<'_> {
    #[inline(always)]
    fn byte(&self, at: usize) -> Result<u8, Corrupt> {
        self.u8_at(at).ok_or(Corrupt)
    }

    #[inline(always)]
    fn half(&self, at: usize) -> Result<u16, Corrupt> {
        self.u16_at(at).ok_or(Corrupt)
    }

    #[inline(always)]
    fn word(&self, at: usize) -> Result<u64, Corrupt> {
        self.u64_at(at).ok_or(Corrupt)
    }

    #[inline(always)]
    fn same(&self, at: usize, bytes: &[u8]) -> Result<bool, Corrupt> {
        self.equals(at, bytes).ok_or(Corrupt)
    }
}

impl Bytes for PageRef<'_> {
    #[inline]
    fn byte(&self, at: usize) -> Result<u8, Corrupt> {
        self.body()[..].byte(at)
    }

    #[inline]
    fn half(&self, at: usize) -> Result<u16, Corrupt> {
        self.body()[..].half(at)
    }

    #[inline]
    fn word(&self, at: usize) -> Result<u64, Corrupt> {
        self.body()[..].word(at)
    }

    #[inline]
    fn same(&self, at: usize, bytes: &[u8]) -> Result<bool, Corrupt> {
        self.body()[..].same(at, bytes)
    }
}

impl Bytes for PageMut<'_> {
    #[inline]
    fn byte(&self, at: usize) -> Result<u8, Corrupt> {
        self.page_ref().byte(at)
    }

    #[inline]
    fn half(&self, at: usize) -> Result<u16, Corrupt> {
        self.page_ref().half(at)
    }

    #[inline]
    fn word(&self, at: usize) -> Result<u64, Corrupt> {
        self.page_ref().word(at)
    }

    #[inline]
    fn same(&self, at: usize, bytes: &[u8]) -> Result<bool, Corrupt> {
        self.page_ref().same(at, bytes)
    }
}

impl BytesMut for PageMut<'_> {
    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) -> Result<(), Corrupt> {
        PageMut::put(self, at, bytes).map_err(|_| Corrupt)
    }

    fn copy_within(&mut self, from: Range<usize>, to: usize) -> Result<(), Corrupt> {
        PageMut::copy_within(self, from, to).map_err(|_| Corrupt)
    }

    fn edit<R>(&mut self, edit: impl FnOnce(&mut [u8]) -> Result<R, Corrupt>) -> Result<R, Corrupt> {
        PageMut::edit(self, 0..BODY_LEN, edit).map_err(|_| Corrupt)?
    }
}
