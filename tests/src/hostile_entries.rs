//! Hostile bytes of a log without a store, with repaired checksums: see [`hostile`](crate::hostile).

use std::sync::Arc;

use cedrat_media::{Image, Media, SimDisk};
use cedrat_wal::{EntryLog, EntryLogOptions, LogError, LogOptions, Lsn};

use crate::repair::{self, Target};

/// Targets in a log without a store.
pub const TARGETS: [Target; 3] = [Target::Control, Target::LogHeaders, Target::Records];

fn open(disk: SimDisk, create: bool) -> Result<EntryLog, LogError> {
    let media: Arc<dyn Media> = Arc::new(disk);
    let options = EntryLogOptions { create, log: LogOptions::small(), background: false };
    EntryLog::open(&media, &options)
}

/// Makes a log of short entries and of long ones, which have several parts, as a kill leaves it. Its first entries are given
/// up.
pub fn entries_sample() -> Image {
    let disk = SimDisk::new();
    let log = open(disk.clone(), true).expect("a new log");
    let append =
        |number: u64| log.append(&vec![number as u8; if number % 9 == 5 { 60_000 } else { 30 }]).expect("room");
    let lsns: Vec<Lsn> = (0..30).map(append).collect();
    log.force(lsns[29]).expect("an honest disk");
    log.truncate(lsns[3]).expect("an honest disk");
    let image = disk.image();
    drop(log);
    image
}

/// Opens, reads, appends to and truncates a log, changed behind its checksums. Returns the number of entries, or the first
/// error.
pub fn repaired_entries(sample: &Image, target: Target, input: &[u8]) -> Result<u64, String> {
    let disk = repair::changed(sample, Some(target), input);
    let use_all = || -> Result<u64, LogError> {
        let log = open(disk, false)?;
        let (mut entries, mut newest) = (0, Lsn::ZERO);
        let mut cursor = log.cursor(Lsn::ZERO)?;
        while let Some(entry) = cursor.next()? {
            assert!(entry.lsn > newest, "entries are in the order of their appends");
            newest = entry.lsn;
            entries += 1;
        }
        let lsn = log.append(b"one more")?;
        log.force(lsn)?;
        assert!(lsn > newest, "an appended entry is the newest");
        log.truncate(newest)?;
        log.close()?;
        Ok(entries)
    };
    use_all().map_err(|error| error.to_string())
}
