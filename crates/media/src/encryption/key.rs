//! Keys, and the sources that they come from.

use std::fmt;
use std::io;

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

/// The length of a key, in bytes.
pub const KEY_LEN: usize = 32;

/// The maximum length of the identifier of a key, in bytes.
pub const KEY_ID_LEN_MAX: usize = 255;

/// A secret of 32 random bytes. Its memory is cleared when it is dropped, and `Debug` does not show it.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; KEY_LEN]>);

impl Key {
    /// Returns a key with these bytes, which have to be random: a password is no key.
    pub fn new(bytes: [u8; KEY_LEN]) -> Key {
        Key(Zeroizing::new(bytes))
    }

    /// Returns a key from the random numbers of the operating system.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn random() -> io::Result<Key> {
        let mut key = Key::new([0; KEY_LEN]);
        getrandom::fill(&mut *key.0).map_err(|error| io::Error::other(format!("cannot draw a random key: {error}")))?;
        Ok(key)
    }

    /// Reads a key as key files have it: 32 random bytes, or 64 hexadecimal digits, after which white space may follow. `None`: it is
    /// neither. 32 hexadecimal digits are a key of half the length.
    pub fn parse(text: &[u8]) -> Option<Key> {
        if let Ok(bytes) = text.try_into() {
            return (!text.iter().all(u8::is_ascii_hexdigit)).then(|| Key::new(bytes));
        }
        let digits = text.trim_ascii_end();
        if digits.len() != 2 * KEY_LEN {
            return None;
        }
        let mut key = Key::new([0; KEY_LEN]);
        for (byte, pair) in key.0.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Some(key)
    }

    /// Returns the fingerprint of the key: 16 hexadecimal digits, from which the key cannot be computed.
    pub fn fingerprint(&self) -> String {
        let digest = self.derive::<8>(b"cedrat fingerprint v1", b"");
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Derives bytes for a purpose and a name.
    pub(super) fn derive<const LEN: usize>(&self, purpose: &[u8], name: &[u8]) -> Zeroizing<[u8; LEN]> {
        let mut derived = Zeroizing::new([0; LEN]);
        let separated = [purpose, b"\0", name];
        let hkdf = Hkdf::<Sha256>::new(None, &*self.0);
        hkdf.expand_multi_info(&separated, &mut *derived).expect("HKDF derives up to 8,160 bytes");
        derived
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// A source of the keys that wrap the keys of the data: a file, a service of keys, an environment.
///
/// The identifier of a key is stored beside the wrapped key, and is not secret. It has at most [`KEY_ID_LEN_MAX`] bytes.
///
/// **Threads:** any. A change of keys and the beginning of a backup wait for a call to return, so no call may use the store.
pub trait KeySource: Send + Sync {
    /// Returns the identifier of the key that wraps new keys of data.
    ///
    /// # Errors
    /// Any; the opening fails with it.
    fn newest(&self) -> io::Result<String>;

    /// Returns the key with an identifier.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: there is none. Any other; the opening fails with it.
    fn key(&self, id: &str) -> io::Result<Key>;
}

/// Keys that are known to the program. Their identifiers are their fingerprints.
pub(super) struct KnownKeys {
    pub(super) newest: Key,
    pub(super) older: Vec<Key>,
}

impl KeySource for KnownKeys {
    fn newest(&self) -> io::Result<String> {
        Ok(self.newest.fingerprint())
    }

    fn key(&self, id: &str) -> io::Result<Key> {
        let mut keys = [&self.newest].into_iter().chain(&self.older);
        keys.find(|key| key.fingerprint() == id).cloned().ok_or_else(|| {
            let given = [&self.newest].into_iter().chain(&self.older).map(Key::fingerprint);
            let given = given.collect::<Vec<_>>().join(", ");
            io::Error::new(io::ErrorKind::NotFound, format!("the keys that were given are {given}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_bytes_or_digits() {
        let bytes: [u8; KEY_LEN] = std::array::from_fn(|at| at as u8 * 7);
        let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        for text in [bytes.to_vec(), digits.clone().into_bytes(), format!("{digits}\r\n").into_bytes()] {
            assert_eq!(Key::parse(&text).expect("a key").bytes(), &bytes);
        }
        for text in [b"".to_vec(), vec![1; 31], vec![b'x'; 64], vec![b'a'; 32], format!("{digits}00").into_bytes()] {
            assert!(Key::parse(&text).is_none());
        }
    }

    #[test]
    fn debug_output_has_no_key() {
        let key = Key::new([0xab; KEY_LEN]);
        assert_eq!(format!("{key:?}"), "Key(..)");
        assert_ne!(key.fingerprint(), Key::new([0xac; KEY_LEN]).fingerprint());
        assert!(!key.fingerprint().contains("abab"));
    }
}
