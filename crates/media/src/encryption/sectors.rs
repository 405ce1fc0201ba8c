//! AES-256-XTS of whole sectors, with keys of one file.

use aes::Aes256;
use aes::cipher::KeyInit;
use xts_mode::{Xts128, get_tweak_default};

use super::key::{KEY_LEN, Key};
use crate::SECTOR_LEN;

const PURPOSE: &[u8] = b"cedrat file v1";

/// The cipher of a file.
pub(super) struct SectorCipher(Xts128<Aes256>);

impl SectorCipher {
    /// Returns the cipher of the file with a name: equal sectors of two files, or of two places, have different bytes.
    pub(super) fn of_file(data_key: &Key, name: &str) -> SectorCipher {
        SectorCipher::new(&data_key.derive(PURPOSE, name.as_bytes()))
    }

    fn new(keys: &[u8; 2 * KEY_LEN]) -> SectorCipher {
        let cipher = |key: &[u8]| Aes256::new(key.try_into().expect("32 bytes"));
        SectorCipher(Xts128::new(cipher(&keys[..KEY_LEN]), cipher(&keys[KEY_LEN..])))
    }

    /// Encrypts whole sectors from the one with this number on.
    pub(super) fn encrypt(&self, sectors: &mut [u8], first: u64) {
        debug_assert!(sectors.len().is_multiple_of(SECTOR_LEN));
        self.0.encrypt_area(sectors, SECTOR_LEN, first.into(), get_tweak_default);
    }

    /// Decrypts whole sectors from the one with this number on. Sectors that were never written are zero, and stay zero.
    pub(super) fn decrypt(&self, sectors: &mut [u8], first: u64) {
        debug_assert!(sectors.len().is_multiple_of(SECTOR_LEN));
        for (number, sector) in (u128::from(first)..).zip(sectors.chunks_exact_mut(SECTOR_LEN)) {
            if sector.iter().any(|&byte| byte != 0) {
                self.0.decrypt_sector(sector, get_tweak_default(number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(digits: &str) -> Vec<u8> {
        let digits: Vec<u32> = digits.chars().map(|digit| digit.to_digit(16).expect("a digit")).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    /// IEEE 1619-2007, annex B, vector 10: AES-256, sector 0xff.
    #[test]
    fn ciphertext_is_that_of_standard() {
        let keys = "2718281828459045235360287471352662497757247093699959574966967627\
                    3141592653589793238462643383279502884197169399375105820974944592";
        let cipher = SectorCipher::new(&bytes(keys).try_into().expect("64 bytes"));
        let plain: Vec<u8> = (0..SECTOR_LEN).map(|at| at as u8).collect();
        let mut sector = plain.clone();
        cipher.encrypt(&mut sector, 0xff);
        assert_eq!(sector[..32], bytes("1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b"));
        assert_eq!(sector[480..], bytes("773dad38014bd2092fa755c824bb5e54c4f36ffda9fcea70b9c6e693e148c151"));
        cipher.decrypt(&mut sector, 0xff);
        assert_eq!(sector, plain);
    }

    #[test]
    fn files_and_places_differ() {
        let key = Key::new([1; KEY_LEN]);
        let encrypted = |name, first| {
            let mut sector = vec![0; SECTOR_LEN];
            SectorCipher::of_file(&key, name).encrypt(&mut sector, first);
            sector
        };
        assert_ne!(encrypted("a", 0), encrypted("a", 1));
        assert_ne!(encrypted("a", 0), encrypted("b", 0));
        assert_ne!(encrypted("a", 0), vec![0; SECTOR_LEN]);
    }
}
