//! A log for the tests of scans.

use cedrat_media::{Media, SimDisk};
use cedrat_sync::Arc;

use crate::{ByteLen, Kind, Log, LogOptions, PartitionId, RecordHead, TxnId, record_len_bound};

/// Returns a log with so many records in three partitions, the last of which has none, and its disk.
pub(crate) fn filled(records: u64) -> (Log, Arc<SimDisk>) {
    let disk = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::<SimDisk>::clone(&disk);
    let log = Log::create(&media, &LogOptions { partitions: 3, ..LogOptions::small() }, &[]).expect("a log");
    let mut reservation = log.reserve(ByteLen(0), ByteLen(0)).expect("there is room");
    for number in 0..records {
        let body = vec![number as u8; (number % 97) as usize];
        let partition = PartitionId((number * number % 3) as u16);
        log.throttle(partition).expect("it works");
        log.reserve_more(&mut reservation, record_len_bound(ByteLen(97)), ByteLen(0)).expect("there is room");
        log.append(partition, RecordHead::new(Kind::UPDATE, TxnId(number), None), &[&body], &mut reservation);
        if number.is_multiple_of(500) {
            log.force(log.current_lsn()).expect("it works");
        }
    }
    log.force(log.current_lsn()).expect("it works");
    (log, disk)
}
