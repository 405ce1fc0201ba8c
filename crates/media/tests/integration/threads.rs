//! Several threads on one disk. Run again with `RUSTFLAGS="--cfg cedrat_shuttle"`, which chooses the interleavings.

use cedrat_media::{Durability, Loss, Media, OpenMode, SECTOR_LEN, SimDisk};
use cedrat_sync::{Arc, explore, thread};

const SECTOR: u64 = SECTOR_LEN as u64;

#[test]
fn acknowledged_write_survives_every_crash() {
    explore(11, 300, || {
        let disk = Arc::new(SimDisk::new());
        let file = disk.open("file", OpenMode::Create).unwrap();
        disk.set_len(file, 3 * SECTOR).unwrap();
        disk.sync(file).unwrap();
        disk.sync_directory("").unwrap();
        let start = disk.journal_len();
        let writers: Vec<_> = (0..3u8)
            .map(|number| {
                let disk = disk.clone();
                thread::spawn(move || {
                    let offset = SECTOR * u64::from(number);
                    let bytes = [number + 1; SECTOR_LEN];
                    if number == 0 {
                        disk.write_at(file, offset, &bytes, Durability::Durable).unwrap();
                    } else {
                        disk.write_at(file, offset, &bytes, Durability::Volatile).unwrap();
                        disk.sync(file).unwrap();
                    }
                    disk.mark(u64::from(number));
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }

        let journal = disk.journal();
        let mut cursor = journal.cursor();
        cursor.advance_to(start);
        loop {
            for loss in [Loss::Everything, Loss::Nothing, Loss::Random(1), Loss::Random(2)] {
                let bytes = cursor.image(loss).file("file").unwrap();
                for mark in cursor.marks() {
                    let at = mark.label as usize * SECTOR_LEN;
                    assert_eq!(bytes[at..at + SECTOR_LEN], [mark.label as u8 + 1; SECTOR_LEN], "{loss:?}");
                }
            }
            if !cursor.advance() {
                break;
            }
        }
        assert_eq!(cursor.marks().len(), 3);
    });
}

/// The sync of one thread does not cover a write of another that ended after it began: some schedule shows it.
#[cfg(cedrat_shuttle)]
#[test]
fn sync_excludes_writes_ending_later() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static UNCOVERED: AtomicUsize = AtomicUsize::new(0);
    explore(12, 300, || {
        let disk = Arc::new(SimDisk::new());
        let file = disk.open("file", OpenMode::Create).unwrap();
        disk.sync_directory("").unwrap();
        let writer = {
            let disk = disk.clone();
            thread::spawn(move || disk.write_at(file, 0, &[1; SECTOR_LEN], Durability::Volatile).unwrap())
        };
        disk.sync(file).unwrap();
        writer.join().unwrap();
        let journal = disk.journal();
        let mut cursor = journal.cursor();
        cursor.advance_to(journal.len());
        if cursor.image(Loss::Everything).file("file").unwrap().is_empty() {
            UNCOVERED.fetch_add(1, Ordering::Relaxed);
        }
    });
    let uncovered = UNCOVERED.load(Ordering::Relaxed);
    assert!(0 < uncovered && uncovered < 300, "{uncovered} of 300 schedules");
}
