//! Encrypted directories over media that fail, tear writes or were changed by hand (E24).

#![cfg(not(cedrat_shuttle))]

use std::io::{self, ErrorKind};

use cedrat_media::{
    BLOCK_LEN, Durability, Encryption, FileId, ForwardMedia, KEY_FILE, Key, KeyError, KeySource, LockGuard, Media,
    OpenMode, RealDisk, SECTOR_LEN, SimDisk, read_exact_at, refuse_encrypted, write_all_at,
};
use cedrat_sync::{Arc, thread};

const SECTOR: u64 = SECTOR_LEN as u64;

fn key(byte: u8) -> Encryption {
    Encryption::with_key(Key::new([byte; 32]))
}

fn shared(disk: &SimDisk) -> Arc<dyn Media> {
    Arc::new(disk.clone())
}

/// An encrypted directory with the file `a` of two sectors.
fn encrypted() -> SimDisk {
    let disk = SimDisk::new();
    let media = key(1).open_or_create(&shared(&disk)).unwrap();
    let file = media.open("a", OpenMode::Create).unwrap();
    write_all_at(&*media, file, 0, &[9; 2 * SECTOR_LEN], Durability::Durable).unwrap();
    media.sync_directory("").unwrap();
    disk
}

/// A directory whose key file cannot be opened.
#[derive(Debug)]
struct Unreadable(SimDisk, ErrorKind);

impl ForwardMedia for Unreadable {
    fn target(&self) -> &dyn Media {
        &self.0
    }

    fn forward_open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        if name == KEY_FILE { Err(self.1.into()) } else { self.0.open(name, mode) }
    }
}

/// E24.3.
#[test]
fn unreadable_key_file_is_refused() {
    for kind in [ErrorKind::PermissionDenied, ErrorKind::QuotaExceeded, ErrorKind::Other] {
        let disk: Arc<dyn Media> = Arc::new(Unreadable(encrypted(), kind));
        assert!(matches!(refuse_encrypted(&*disk), Err(KeyError::Io { .. })), "E24.3: {kind}");
        for opened in [key(1).open(&disk), key(1).open_or_create(&disk)] {
            assert!(matches!(opened, Err(KeyError::Io { .. })), "E24.3: {kind}");
        }
    }
    refuse_encrypted(&SimDisk::new()).expect("there is none");
}

/// E24.6: a file that was cut within a sector has lost that sector, and grows by zeros.
#[test]
fn cut_file_grows_by_zeros() {
    type Growth = fn(&dyn Media, FileId);
    let growths: [Growth; 4] = [
        |media, file| media.set_len(file, 4 * SECTOR).unwrap(),
        |media, file| media.allocate(file, 2 * SECTOR, 2 * SECTOR).unwrap(),
        |media, file| write_all_at(media, file, 3 * SECTOR, &[0; SECTOR_LEN], Durability::Volatile).unwrap(),
        |media, file| write_all_at(media, file, 3 * SECTOR + 5, &[0; 507], Durability::Volatile).unwrap(),
    ];
    for (number, grow) in growths.into_iter().enumerate() {
        let disk = encrypted();
        disk.set_len(disk.open("a", OpenMode::ReadWrite).unwrap(), SECTOR + 100).unwrap();
        let media = key(1).open_or_create(&shared(&disk)).unwrap();
        let file = media.open("a", OpenMode::ReadWrite).unwrap();
        assert_eq!(media.len(file).unwrap(), SECTOR, "{number}");
        grow(&*media, file);
        let mut bytes = [1; 4 * SECTOR_LEN];
        read_exact_at(&*media, file, 0, &mut bytes).unwrap();
        assert!(bytes[..SECTOR_LEN].iter().all(|&byte| byte == 9), "{number}");
        assert!(bytes[SECTOR_LEN..].iter().all(|&byte| byte == 0), "E24.6: {number}");
    }
}

/// A disk that writes five bytes at a time, as a processor copies them, while other threads run.
#[derive(Debug)]
struct Slow(SimDisk);

impl Media for Slow {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        self.0.open(name, mode)
    }

    fn lock(&self, name: &str) -> io::Result<LockGuard> {
        self.0.lock(name)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.0.list(directory)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.0.sync_directory(directory)
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        self.0.len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(file, offset, buffer);
        thread::yield_now();
        read
    }

    fn write_at(&self, file: FileId, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<usize> {
        for (number, piece) in bytes.chunks(5).enumerate() {
            self.0.write_at(file, offset + 5 * number as u64, piece, durability)?;
            thread::yield_now();
        }
        Ok(bytes.len())
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        self.0.sync(file)
    }

    fn allocate(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.0.allocate(file, offset, len)
    }

    fn punch(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.0.punch(file, offset, len)
    }

    fn set_len(&self, file: FileId, len: u64) -> io::Result<()> {
        self.0.set_len(file, len)
    }

    fn path(&self, file: FileId) -> String {
        self.0.path(file)
    }
}

/// E24.6: a reader sees the bytes beside a write, which only share a sector with it.
#[test]
fn read_beside_partial_write_is_whole() {
    let media = key(1).open_or_create(&(Arc::new(Slow(encrypted())) as Arc<dyn Media>)).unwrap();
    let file = media.open("a", OpenMode::ReadWrite).unwrap();
    let writer = Arc::clone(&media);
    let writing = thread::spawn(move || {
        for byte in 0..60 {
            write_all_at(&*writer, file, 8, &[byte; 8], Durability::Volatile).unwrap();
        }
    });
    while !writing.is_finished() {
        let (mut part, mut sector) = ([0; 8], [0; SECTOR_LEN]);
        read_exact_at(&*media, file, 0, &mut part).unwrap();
        assert_eq!(part, [9; 8], "E24.6");
        read_exact_at(&*media, file, 0, &mut sector).unwrap();
        assert_eq!(sector[..8], [9; 8], "E24.6");
    }
    writing.join().unwrap();
}

/// E24.6: a write of some bytes of a sector does not bring the others back.
#[test]
fn punched_sector_stays_punched_beside_write() {
    let media = key(1).open_or_create(&(Arc::new(Slow(encrypted())) as Arc<dyn Media>)).unwrap();
    let file = media.open("a", OpenMode::ReadWrite).unwrap();
    for is_cut in (0..40).map(|round| round % 2 == 0) {
        write_all_at(&*media, file, 0, &[9; 2 * SECTOR_LEN], Durability::Volatile).unwrap();
        let writer = Arc::clone(&media);
        let writing =
            thread::spawn(move || write_all_at(&*writer, file, SECTOR + 500, &[3; 5], Durability::Volatile).unwrap());
        thread::yield_now();
        match is_cut {
            true => media.set_len(file, SECTOR).unwrap(),
            false => media.punch(file, SECTOR, SECTOR).unwrap(),
        }
        writing.join().unwrap();
        let mut rest = vec![0; (media.len(file).unwrap() - SECTOR) as usize];
        read_exact_at(&*media, file, SECTOR, &mut rest).unwrap();
        assert!(rest.iter().take(500).all(|&byte| byte == 0), "E24.6");
    }
}

/// E24.6: several threads write parts of the same sectors.
#[test]
fn threads_share_sectors() {
    let media = key(1).open_or_create(&(Arc::new(Slow(encrypted())) as Arc<dyn Media>)).unwrap();
    let file = media.open("a", OpenMode::ReadWrite).unwrap();
    let writers = (0..4u64).map(|number| {
        let media = Arc::clone(&media);
        thread::spawn(move || {
            for at in (number * 7..2 * SECTOR).step_by(28) {
                let len = 7.min(2 * SECTOR - at) as usize;
                write_all_at(&*media, file, at, &vec![number as u8 + 1; len], Durability::Volatile).unwrap();
            }
        })
    });
    writers.collect::<Vec<_>>().into_iter().for_each(|writer| writer.join().unwrap());
    let mut bytes = [0; 2 * SECTOR_LEN];
    read_exact_at(&*media, file, 0, &mut bytes).unwrap();
    for (at, byte) in bytes.into_iter().enumerate() {
        assert_eq!(usize::from(byte), at / 7 % 4 + 1, "E24.6: {at}");
    }
}

/// E24.3: a key file that was cut, emptied, or exchanged is refused or opens, and is never replaced.
#[test]
fn changed_key_file_is_never_replaced() {
    let whole = encrypted();
    let before = whole.image().file(KEY_FILE).unwrap();
    let with = |bytes: &[u8]| {
        let disk = SimDisk::from_image(whole.image());
        let file = disk.open(KEY_FILE, OpenMode::ReadWrite).unwrap();
        disk.set_len(file, 0).unwrap();
        write_all_at(&disk, file, 0, bytes, Durability::Durable).unwrap();
        disk
    };
    for len in (0..=before.len()).step_by(37).chain([SECTOR_LEN, BLOCK_LEN, BLOCK_LEN + SECTOR_LEN]) {
        let disk = with(&before[..len]);
        let opened = key(1).open_or_create(&shared(&disk));
        // The header of a key without a source has 124 bytes; zeros follow.
        assert_eq!(opened.is_ok(), len >= 124, "E24.3: {len}");
        let found = disk.image().file(KEY_FILE).unwrap();
        assert!(found == before[..len] || opened.is_ok() && found == before, "E24.3: {len}");
    }
    let removed = SimDisk::from_image(whole.image());
    removed.remove(KEY_FILE).unwrap();
    let hash = removed.image().hash();
    assert!(matches!(key(1).open_or_create(&shared(&removed)), Err(KeyError::NotEncrypted { .. })), "E24.3");
    assert!(key(1).rotate(&removed, &key(2)).is_err());
    assert_eq!(removed.image().hash(), hash, "E24.3: nothing was changed");
    let zeros = with(&[0; 2 * BLOCK_LEN]);
    let hash = zeros.image().hash();
    assert!(key(1).open_or_create(&shared(&zeros)).is_err() && key(1).rotate(&zeros, &key(2)).is_err(), "E24.3");
    assert_eq!(zeros.image().hash(), hash, "E24.3: nothing was changed");
    let error = key(1).rotate(&zeros, &key(2)).unwrap_err();
    assert!(matches!(error, KeyError::NotEncrypted { .. }), "E24.3: its files are named: {error}");
    // Of an older key, or of another directory with the same key.
    let disk = SimDisk::from_image(whole.image());
    key(1).rotate(&disk, &key(2)).unwrap();
    let mixed = with(&[&disk.image().file(KEY_FILE).unwrap()[..BLOCK_LEN], &before[BLOCK_LEN..]].concat());
    assert!(key(1).open(&shared(&mixed)).is_err() && key(2).open(&shared(&mixed)).is_ok(), "E24.4");
    let other = with(&encrypted().image().file(KEY_FILE).unwrap());
    let media = key(1).open_or_create(&shared(&other)).unwrap();
    let (file, mut bytes) = (media.open("a", OpenMode::Read).unwrap(), [0; 9]);
    read_exact_at(&*media, file, 0, &mut bytes).unwrap();
    assert_ne!(bytes, [9; 9], "E24.5: each directory has a data key of its own");
}

/// A source that panics, or has an identifier that is too long.
struct Moody {
    panics: bool,
}

impl KeySource for Moody {
    fn newest(&self) -> io::Result<String> {
        assert!(!self.panics, "the source panics");
        Ok("x".repeat(300))
    }

    fn key(&self, _id: &str) -> io::Result<Key> {
        Ok(Key::new([1; 32]))
    }
}

/// E24.4: a source that panics, or has an identifier that is too long, leaves the old key, and no lock.
#[test]
fn failed_source_leaves_old_key() {
    let disk = encrypted();
    let before = disk.image().hash();
    let panicking = Encryption::with_source(Moody { panics: true });
    let rotated = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| key(1).rotate(&disk, &panicking)));
    assert!(rotated.is_err(), "it panics");
    let long = Encryption::with_source(Moody { panics: false });
    assert!(matches!(key(1).rotate(&disk, &long), Err(KeyError::LongId { len: 300 })));
    assert_eq!(disk.image().hash(), before, "E24.4");
    key(1).rotate(&disk, &key(2)).expect("the key file is not locked");
    // A creation that failed is repeated, or the directory is used without a key.
    let empty = SimDisk::new();
    assert!(long.open_or_create(&shared(&empty)).is_err());
    key(1).open_or_create(&shared(&empty)).expect("E24.2");
}

/// Files on a real disk, by every way, and with buffers that are aligned and not.
#[test]
fn real_disk_has_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    for direct in [true, false] {
        let place = folder.path().join(if direct { "direct" } else { "buffered" });
        let disk: Arc<dyn Media> =
            if direct { Arc::new(RealDisk::new(&place)) } else { Arc::new(RealDisk::buffered(&place)) };
        let media = key(1).open_or_create(&disk).unwrap();
        let file = media.open("log/a", OpenMode::Create).unwrap();
        let mut model: Vec<u8> = Vec::new();
        let mut seed = 7u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for round in 0..300u64 {
            let unit = [1, 512, 4096][next(3) as usize];
            let (offset, len) = (next(60_000) / unit * unit, (next(20_000) / unit * unit) as usize);
            match next(8) {
                0 => {
                    media.punch(file, offset, len as u64).unwrap();
                    let end = model.len();
                    model[(offset as usize).min(end)..(offset as usize + len).min(end)].fill(0);
                }
                1 => {
                    media.set_len(file, offset).unwrap();
                    model.resize(offset as usize, 0);
                }
                _ => {
                    let durability = if next(5) == 0 { Durability::Durable } else { Durability::Volatile };
                    let bytes = vec![round as u8 | 1; len];
                    write_all_at(&*media, file, offset, &bytes, durability).unwrap();
                    if len > 0 {
                        model.resize(model.len().max(offset as usize + len), 0);
                        model[offset as usize..offset as usize + len].copy_from_slice(&bytes);
                    }
                }
            }
            model.resize(model.len().next_multiple_of(SECTOR_LEN), 0);
            let (at, mut bytes) = (next(model.len() as u64 + 1), vec![0; next(9000) as usize]);
            bytes.truncate(model.len() - at as usize);
            read_exact_at(&*media, file, at, &mut bytes).unwrap();
            assert_eq!(bytes, model[at as usize..at as usize + bytes.len()], "round {round}, direct: {direct}");
        }
        drop(media);
        let media = key(1).open(&disk).unwrap();
        let mut bytes = vec![0; model.len()];
        read_exact_at(&*media, media.open("log/a", OpenMode::Read).unwrap(), 0, &mut bytes).unwrap();
        assert_eq!(bytes, model);
        let stored = std::fs::read(place.join("log/a")).unwrap();
        for (sector, plain) in stored.chunks(SECTOR_LEN).zip(model.chunks(SECTOR_LEN)) {
            assert!(sector.iter().all(|&byte| byte == 0) || sector != plain, "E24.1");
        }
    }
}
