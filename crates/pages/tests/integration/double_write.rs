//! Opening a store with a double-write area of any bytes.

use cedrat_media::{Durability, Media, OpenMode, SimDisk};
use cedrat_pages::{DOUBLE_WRITE_FILE, PAGE_FILE, PAGE_LEN, Pool, PoolError, WriteBack};
use cedrat_sync::Arc;
use cedrat_wal::{Log, LogOptions, Lsn};

use crate::fixture::{Fixture, options, page};

/// Returns a disk on which the newest batch wrote page 3 home.
fn disk() -> Arc<SimDisk> {
    let (disk, fixture) = Fixture::simulated(options(8), 16);
    fixture.set(page(3), 0, 7).unwrap();
    fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap();
    disk
}

fn put(disk: &SimDisk, file: &str, offset: u64, bytes: &[u8]) {
    let file = disk.open(file, OpenMode::ReadWrite).unwrap();
    disk.write_at(file, offset, bytes, Durability::Durable).unwrap();
}

/// Opens the pages in their present state, without redo.
fn open(disk: &Arc<SimDisk>) -> Result<Pool, PoolError> {
    let media: Arc<dyn Media> = disk.clone();
    let log = Log::look(&media).unwrap().begin(&[], &LogOptions::small()).unwrap();
    Pool::open(media, log, options(8))
}

fn tear_home(disk: &SimDisk) {
    put(disk, PAGE_FILE, 3 * PAGE_LEN as u64 + 1024, &[0xEE; 512]);
}

#[test]
fn a_torn_home_is_restored() {
    let disk = disk();
    tear_home(&disk);
    let pool = open(&disk).unwrap();
    assert_eq!((pool.stats().pages_restored, pool.restored_pages()), (1, &[page(3)][..]));
    assert_eq!(pool.read(page(3)).unwrap().body()[0], 7);
    drop(pool);
    assert_eq!(open(&disk).unwrap().stats().pages_restored, 0, "restored for good");
}

#[test]
fn sound_older_home_is_left_alone() {
    let disk = disk();
    put(&disk, PAGE_FILE, 3 * PAGE_LEN as u64, &[0; PAGE_LEN]);
    let pool = open(&disk).unwrap();
    assert_eq!(pool.stats().pages_restored, 0, "redo makes it new, or it was punched");
    assert_eq!(pool.read(page(3)).unwrap().lsn(), Lsn::ZERO);
}

#[test]
fn damaged_area_spares_sound_homes() {
    let whole = disk();
    let area = whole.image().file(DOUBLE_WRITE_FILE).unwrap();
    for byte in (8..48).chain([4096, 5000, 8191]) {
        for bit in [0, 7] {
            let disk = Arc::new(SimDisk::from_image(whole.image()));
            put(&disk, DOUBLE_WRITE_FILE, byte, &[area[byte as usize] ^ 1 << bit]);
            let pool = open(&disk).unwrap();
            assert_eq!(pool.read(page(3)).unwrap().body()[0], 7, "byte {byte}");
        }
    }
}

#[test]
fn torn_page_without_image_is_damage() {
    for byte in [30, 40, 4100, 8000] {
        let disk = disk();
        tear_home(&disk);
        let now = disk.image().file(DOUBLE_WRITE_FILE).unwrap()[byte as usize];
        put(&disk, DOUBLE_WRITE_FILE, byte, &[!now]);
        let pool = open(&disk).unwrap();
        let message = pool.read(page(3)).unwrap_err().to_string();
        assert!(message.starts_with("pages, byte 12288: page 3 is damaged"), "{message}");
    }
}

#[test]
fn foreign_or_newer_area_is_refused() {
    let whole = disk();
    let disk = Arc::new(SimDisk::from_image(whole.image()));
    put(&disk, DOUBLE_WRITE_FILE, 0, b"PK");
    let message = open(&disk).unwrap_err().to_string();
    assert!(message.starts_with("double-write, byte 0: this is not a double-write area"), "{message}");

    for (at, value, said) in
        [(8, 2, "byte 8: the area was written by a newer"), (12, 255, "byte 12: the area names more")]
    {
        let disk = Arc::new(SimDisk::from_image(whole.image()));
        let mut header = disk.image().file(DOUBLE_WRITE_FILE).unwrap()[..PAGE_LEN].to_vec();
        header[at] = value;
        header[24..28].fill(0);
        let checksum = crc32c::crc32c(&header);
        header[24..28].copy_from_slice(&checksum.to_le_bytes());
        put(&disk, DOUBLE_WRITE_FILE, 0, &header);
        let message = open(&disk).unwrap_err().to_string();
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn truncated_area_is_restored() {
    for len in [0, 100, 4096, 5000] {
        let disk = disk();
        let file = disk.open(DOUBLE_WRITE_FILE, OpenMode::ReadWrite).unwrap();
        disk.set_len(file, len).unwrap();
        let pool = open(&disk).unwrap();
        assert_eq!(pool.read(page(3)).unwrap().body()[0], 7);
        assert_eq!(disk.image().file(DOUBLE_WRITE_FILE).unwrap().len(), 32 * PAGE_LEN);
    }
}
