//! Bytes that are read from their beginning to their end.

/// Little-endian bytes, and how far they were read. Errors say where, counted from `base`.
pub(super) struct Bytes<'b> {
    bytes: &'b [u8],
    at: usize,
    base: usize,
}

impl<'b> Bytes<'b> {
    /// The first of them is byte `base` of what errors are about.
    pub(super) fn new(bytes: &'b [u8], base: usize) -> Bytes<'b> {
        Bytes { bytes, at: 0, base }
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'b [u8], String> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..len) else {
            return Err(format!("byte {}: {len} bytes should follow, and there are {}", self.place(), rest.len()));
        };
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N).map(|taken| *taken.first_chunk().expect("as many were taken"))
    }

    pub(super) fn u8(&mut self) -> Result<u8, String> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, String> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, String> {
        self.array().map(i32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, String> {
        self.array().map(i64::from_le_bytes)
    }

    /// UTF-8 of so many bytes.
    pub(super) fn utf8(&mut self, len: usize) -> Result<String, String> {
        let at = self.place();
        let taken = self.take(len)?;
        String::from_utf8(taken.to_vec()).map_err(|error| format!("byte {at}: {error}"))
    }

    /// A text: its length (u32), and UTF-8.
    pub(super) fn text(&mut self) -> Result<String, String> {
        let len = self.u32()?;
        self.utf8(len as usize)
    }

    /// Returns the position of the next byte.
    pub(super) fn place(&self) -> usize {
        self.base + self.at
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }
}
