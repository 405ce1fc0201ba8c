//! AES-256-XTS (IEEE 1619) of whole sectors, with keys of one file.
//!
//! The cipher gets the blocks of several sectors in one call: processors encrypt many blocks at once, and a call costs as much as
//! several blocks.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes256, Block};

use super::key::{KEY_LEN, Key};
use crate::SECTOR_LEN;

const PURPOSE: &[u8] = b"cedrat file v1";

/// The number of sectors that the cipher gets in one call.
const GROUP: usize = 8;

/// The number of blocks of a sector.
const BLOCKS: usize = SECTOR_LEN / size_of::<Block>();

/// The cipher of a file.
pub(super) struct SectorCipher {
    data: Aes256,
    /// Encrypts the numbers of sectors.
    tweak: Aes256,
}

impl SectorCipher {
    /// Returns the cipher of the file with a name: equal sectors of two files, or of two places, have different bytes.
    pub(super) fn of_file(data_key: &Key, name: &str) -> SectorCipher {
        SectorCipher::new(&data_key.derive(PURPOSE, name.as_bytes()))
    }

    fn new(keys: &[u8; 2 * KEY_LEN]) -> SectorCipher {
        let cipher = |key: &[u8]| Aes256::new(key.try_into().expect("32 bytes"));
        SectorCipher { data: cipher(&keys[..KEY_LEN]), tweak: cipher(&keys[KEY_LEN..]) }
    }

    /// Encrypts whole sectors from the one with this number on.
    pub(super) fn encrypt(&self, sectors: &mut [u8], first: u64) {
        self.each_group(sectors, first, |blocks| self.data.encrypt_blocks(blocks));
    }

    /// Decrypts whole sectors from the one with this number on. Sectors that were never written are zero, and stay zero.
    pub(super) fn decrypt(&self, sectors: &mut [u8], first: u64) {
        let mut rest = sectors;
        let mut number = first;
        while !rest.is_empty() {
            let is_zero = |sector: &[u8]| sector.iter().all(|&byte| byte == 0);
            let begins_with_zeros = is_zero(&rest[..SECTOR_LEN]);
            let alike = rest.chunks_exact(SECTOR_LEN).take_while(|sector| is_zero(sector) == begins_with_zeros).count();
            let (run, others) = rest.split_at_mut(alike * SECTOR_LEN);
            if !begins_with_zeros {
                self.each_group(run, number, |blocks| self.data.decrypt_blocks(blocks));
            }
            (rest, number) = (others, number + alike as u64);
        }
    }

    /// Passes the blocks of each group of sectors, with their tweaks, to the cipher, and applies the tweaks again.
    fn each_group(&self, sectors: &mut [u8], first: u64, cipher: impl Fn(&mut [Block])) {
        debug_assert!(sectors.len().is_multiple_of(SECTOR_LEN));
        let mut number = first;
        let mut tweaks = [0; GROUP * BLOCKS];
        for group in sectors.chunks_mut(GROUP * SECTOR_LEN) {
            self.write_tweaks(&mut tweaks[..group.len() / size_of::<Block>()], number);
            let (blocks, _) = Block::slice_as_chunks_mut(group);
            apply(&tweaks, blocks);
            cipher(blocks);
            apply(&tweaks, blocks);
            number += GROUP as u64;
        }
    }

    /// Writes the tweaks of the blocks of sectors from the one with this number on.
    fn write_tweaks(&self, tweaks: &mut [u128], first: u64) {
        let mut begins: [Block; GROUP] = std::array::from_fn(|at| u128::from(first + at as u64).to_le_bytes().into());
        self.tweak.encrypt_blocks(&mut begins);
        for (begin, tweaks) in begins.into_iter().zip(tweaks.chunks_exact_mut(BLOCKS)) {
            let mut tweak = u128::from_le_bytes(begin.into());
            for place in tweaks {
                *place = tweak;
                tweak = doubled(tweak);
            }
        }
    }
}

/// Returns the product with x in the field of 2^128 elements, modulo x^128 + x^7 + x^2 + x + 1.
fn doubled(tweak: u128) -> u128 {
    const POLYNOMIAL: u128 = 0x87;
    tweak << 1 ^ if tweak >> 127 == 1 { POLYNOMIAL } else { 0 }
}

fn apply(tweaks: &[u128], blocks: &mut [Block]) {
    for (tweak, block) in tweaks.iter().zip(blocks) {
        *block = (u128::from_le_bytes((*block).into()) ^ tweak).to_le_bytes().into();
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
    fn sectors_alone_are_encrypted_as_together() {
        let cipher = SectorCipher::of_file(&Key::new([3; KEY_LEN]), "pages");
        let plain: Vec<u8> = (0..21 * SECTOR_LEN).map(|at| (at % 251) as u8).collect();
        let (mut together, mut alone) = (plain.clone(), plain.clone());
        cipher.encrypt(&mut together, 5);
        for (number, sector) in (5..).zip(alone.chunks_exact_mut(SECTOR_LEN)) {
            cipher.encrypt(sector, number);
        }
        assert_eq!(together, alone);
        // Punched sectors among the others.
        for punched in [0, 3, 4, 20] {
            together[punched * SECTOR_LEN..][..SECTOR_LEN].fill(0);
        }
        cipher.decrypt(&mut together, 5);
        for (number, (found, wanted)) in together.chunks(SECTOR_LEN).zip(plain.chunks(SECTOR_LEN)).enumerate() {
            let is_punched = [0, 3, 4, 20].contains(&number);
            assert!(if is_punched { found.iter().all(|&byte| byte == 0) } else { found == wanted }, "{number}");
        }
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
