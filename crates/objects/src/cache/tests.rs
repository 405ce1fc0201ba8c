//! Guarantees of the cache of one collection, over simulated pages that count.

use cedrat_pages::Slot;
use cedrat_txn::object_cache::Delta;
use cedrat_txn::{Error, Refused};

use super::*;
use crate::delta::{Alive, Dead, PutBytes};
use crate::kept::OVERHEAD_BYTES;
use crate::record::new_record;

/// Pages that accept all records except those of one page, and count; and that no longer have versions older than the third
/// field.
#[derive(Default)]
struct Taking(Mutex<Vec<Lsn>>, Option<PageId>, Lsn);

impl Pages for Taking {
    fn read(&self, _: PageId) -> Result<LatchedPage<'_>> {
        Err(Error::Misuse("no page is requested here"))
    }

    fn has(&self, _: RecordId, version: Lsn) -> Result<bool> {
        Ok(version >= self.2)
    }

    fn flush_record(&self, kept: &KeptRecord<'_>) -> Result<()> {
        if self.1 == Some(kept.at.page) {
            return Err(Error::Misuse("the page is damaged"));
        }
        self.0.lock().push(kept.version);
        Ok(())
    }
}

const AT: RecordId = RecordId::new(PageId::new(9), Slot(1));

fn image(bytes: Vec<u8>, version: u64) -> Image {
    Image { bytes: bytes.into(), version: Lsn::new(version) }
}

/// E19.9: for a record that was evicted with pending changes, a page image from before the flush is not used.
#[test]
fn page_read_too_early_is_not_trusted() {
    let (cache, pages) = (Cache::new(10_000), Taking::default());
    let alive = new_record(b"object", 16, false);
    let mut dead = alive.clone();
    Dead {}.apply(&mut dead).unwrap();
    let before = image(alive.clone(), 1);
    let back = Back::Inverse { inverse: Arc::new(Alive {}), bytes: 0, to: before.version };
    let dying = cache.change(TxnId(7), AT, Some(before.clone()), |_, _| true, &Dead {}, back, &pages).unwrap();
    dying.unwrap().logged(Lsn::new(5));
    cache.evict(AT, &pages).unwrap();
    assert_eq!(*pages.0.lock(), [Lsn::new(5)]);
    assert!(cache.peek(AT).is_none());
    assert!(cache.bring(AT, before, &pages).unwrap().is_none());
    // Loading the record applies the owed undo.
    let inverse = Some(Lsn::new(6));
    cache.taken_back(TakenBack { txn: TxnId(7), at: AT, change: Lsn::new(5), inverse });
    let brought = cache.bring(AT, image(dead, 5), &pages).unwrap().unwrap();
    assert_eq!((&*brought.bytes, brought.version), (&*alive, Lsn::new(6)));
    cache.ended(TxnId(7), None);
    assert_eq!(cache.oldest(), inverse);
    cache.flush_one(AT, &pages).unwrap();
    assert_eq!((pages.0.lock().len(), cache.oldest()), (2, None));
}

/// E19.17: a record that has left its page, or was changed and evicted, since the page was read is not cached again.
#[test]
fn outdated_page_image_is_not_cached() {
    let (cache, pages) = (Cache::new(10_000), Taking(Mutex::default(), None, Lsn::new(2)));
    let once = image(new_record(b"object", 16, false), 1);
    assert!(cache.bring(AT, once.clone(), &pages).unwrap().is_none());
    let change = |found| cache.change(TxnId(7), AT, Some(found), |_, _| true, &Dead {}, Back::CommittedOnly, &pages);
    assert!(change(once.clone()).unwrap().is_none());
    assert_eq!(cache.statistics().records, 0);
    let now = Image { version: Lsn::new(2), ..once };
    assert!(cache.bring(AT, now, &pages).unwrap().is_some());
    assert_eq!(cache.statistics().records, 1);
}

/// E19.17: a record that is about to leave its page is returned, and not cached.
#[test]
fn short_lived_record_is_not_cached() {
    let (cache, pages) = (Cache::new(10_000), Taking::default());
    let alive = image(new_record(b"object", 16, false), 1);
    cache.note_insertion(TxnId(7), AT);
    assert!(cache.bring(AT, alive.clone(), &pages).unwrap().is_some());
    assert_eq!(cache.statistics().records, 0);
    cache.ended(TxnId(7), Some(Lsn::new(2)));
    let mut dead = alive.bytes.to_vec();
    Dead {}.apply(&mut dead).unwrap();
    assert!(cache.bring(AT, image(dead, 3), &pages).unwrap().is_some());
    assert_eq!(cache.statistics().records, 0);
    assert!(cache.bring(AT, alive, &pages).unwrap().is_some());
    assert_eq!(cache.statistics().records, 1);
}

/// A reader finds the record unchanged, also after a change that was abandoned.
#[test]
fn a_change_is_made_in_nobodys_sight() {
    let (cache, pages) = (Cache::new(10_000), Taking::default());
    let alive = new_record(b"object", 16, false);
    cache.bring(AT, image(alive.clone(), 1), &pages).unwrap();
    let before = cache.get(AT).unwrap();
    let change = |back| cache.change(TxnId(7), AT, None, |_, _| true, &Dead {}, back, &pages).unwrap();
    drop(change(Back::Stays).unwrap());
    assert_eq!(&*cache.get(AT).unwrap().bytes, &*alive);
    // An inverse that was made for another version of the record.
    let inverse = Back::Inverse { inverse: Arc::new(Alive {}), bytes: 0, to: Lsn::new(2) };
    assert!(change(inverse).is_none());
    change(Back::CommittedOnly).unwrap().logged(Lsn::new(5));
    assert_eq!((&*before.bytes, before.version), (&*alive, Lsn::new(1)));
    let now = cache.get(AT).unwrap();
    assert!(record::is_dead(&now.bytes) && now.version == Lsn::new(5));
    // Another transaction without a lock.
    assert!(cache.change(TxnId(8), AT, None, |_, _| true, &Dead {}, Back::Stays, &pages).is_err());
    cache.taken_back(TakenBack { txn: TxnId(7), at: AT, change: Lsn::new(5), inverse: None });
    assert_eq!((&*cache.get(AT).unwrap().bytes, cache.oldest()), (&*alive, None));
    assert_eq!(cache.statistics().bytes, OVERHEAD_BYTES + alive.len() as u64);
}

/// A change outside of a delta's declared range could not be undone.
#[test]
#[cfg(debug_assertions)]
#[should_panic = "a delta changes more than it says"]
fn a_delta_that_changes_more_than_it_says_is_caught() {
    /// Changes the last byte, and says that it changes the first ones.
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct Elsewhere {}

    impl Delta for Elsewhere {
        const NAME: &'static str = "test.elsewhere";

        fn apply(&self, record: &mut [u8]) -> Result<(), Refused> {
            *record.last_mut().unwrap() += 1;
            Ok(())
        }
    }

    impl RecordDelta for Elsewhere {
        fn changes(&self) -> Option<std::ops::Range<usize>> {
            Some(0..4)
        }
    }

    let (cache, pages) = (Cache::new(10_000), Taking::default());
    cache.bring(AT, image(new_record(b"object", 16, false), 1), &pages).unwrap();
    let _ = cache.change(TxnId(7), AT, None, |_, _| true, &Elsewhere {}, Back::Stays, &pages);
}

/// A record that cannot be written does not prevent others from being written.
#[test]
fn all_others_are_written() {
    let (cache, pages) = (Cache::new(10_000), Taking(Mutex::default(), Some(AT.page), Lsn::ZERO));
    for (number, page) in [8, 9, 10].into_iter().enumerate() {
        let at = RecordId::new(PageId::new(page), Slot(1));
        let found = image(new_record(b"object", 16, false), 1);
        let changing = cache.change(TxnId(7), at, Some(found), |_, _| true, &Dead {}, Back::Stays, &pages);
        changing.unwrap().unwrap().logged(Lsn::new(5 + number as u64));
    }
    assert!(cache.flush_older(Lsn::new(100), &pages).is_err());
    assert_eq!(*pages.0.lock(), [Lsn::new(5), Lsn::new(7)]);
    assert_eq!(cache.oldest(), Some(Lsn::new(6)));
}

/// A record whose page cannot be written refuses nothing that concerns other pages, as long as another one can be evicted.
#[test]
fn unwritable_victim_does_not_hinder_others() {
    let damaged = |slot| RecordId::new(PageId::new(4), Slot(slot));
    let found = |version| image(new_record(&[7; 16], 16, false), version);
    let len = Kept::clean_bytes(&found(1));
    let (cache, pages) = (Cache::new(6 * len), Taking(Mutex::default(), Some(PageId::new(4)), Lsn::ZERO));
    let change = |cache: &Cache, at| {
        let changed = cache.change(TxnId(7), at, Some(found(1)), |_, _| true, &put(8), Back::Stays, &pages);
        changed.map(|changing| changing.unwrap().logged(Lsn::new(5)))
    };
    (1..4).for_each(|slot| change(&cache, damaged(slot)).unwrap());
    cache.ended(TxnId(7), Some(Lsn::new(6)));
    for page in 10..40 {
        let at = RecordId::new(PageId::new(page), Slot(1));
        assert!(cache.bring(at, found(1), &pages).unwrap().is_some());
        assert!(cache.get(at).is_some(), "it is read, and kept");
        change(&cache, at).unwrap();
        cache.ended(TxnId(7), Some(Lsn::new(6)));
    }
    assert!((1..4).all(|slot| cache.peek(damaged(slot)).is_some()), "E19.9");
    assert_eq!(cache.oldest(), Some(Lsn::new(5)), "E19.4");
    // No other one can be evicted.
    let cache = Cache::new(len);
    change(&cache, damaged(1)).unwrap();
    cache.ended(TxnId(7), Some(Lsn::new(6)));
    assert!(cache.bring(AT, found(1), &pages).unwrap().is_some());
    assert!(cache.get(AT).is_none(), "it is read, and not kept");
    let refused = change(&cache, AT).unwrap_err();
    assert!(refused.to_string().contains("damaged"), "{refused}");
}

/// The counters agree with the content.
#[test]
fn memory_is_counted_to_the_last_byte() {
    let (cache, pages) = (Cache::new(1_000), Taking::default());
    for slot in 1..20 {
        let at = RecordId::new(PageId::new(9), Slot(slot));
        cache.bring(at, image(new_record(b"object", 16, false), 1), &pages).unwrap();
        assert!(cache.statistics().bytes <= 1_000);
    }
    assert_eq!(cache.statistics().records, 4);
    assert_eq!(cache.statistics().bytes, 4 * (OVERHEAD_BYTES + 20));
    assert!(cache.clear());
    assert_eq!((cache.statistics().records, cache.statistics().bytes), (0, 0));
}

/// Pages that run a closure during the write of a record.
struct Meanwhile<'w>(std::cell::RefCell<Option<Box<dyn FnOnce() + 'w>>>);

impl Pages for Meanwhile<'_> {
    fn read(&self, _: PageId) -> Result<LatchedPage<'_>> {
        Err(Error::Misuse("no page is asked for here"))
    }

    fn has(&self, _: RecordId, _: Lsn) -> Result<bool> {
        Ok(true)
    }

    fn flush_record(&self, kept: &KeptRecord<'_>) -> Result<()> {
        assert!(kept.since <= kept.version && kept.version <= kept.committed);
        if let Some(work) = self.0.take() {
            work();
        }
        Ok(())
    }
}

fn put(number: u64) -> PutBytes {
    PutBytes { at: 0, bytes: [number as u8][..].into() }
}

/// E19.18: a change made while a copy is being written is the oldest change that the page lacks; one that is undone meanwhile
/// is not.
#[test]
fn change_can_be_undone_during_flush() {
    for is_taken_back in [false, true] {
        let (cache, pages) = (Cache::new(10_000), Taking::default());
        cache.bring(AT, image(new_record(b"object", 16, false), 1), &pages).unwrap();
        let change = |txn, lsn| {
            let made = cache.change(TxnId(txn), AT, None, |_, _| true, &put(lsn), Back::CommittedOnly, &pages);
            made.unwrap().unwrap().logged(Lsn::new(lsn));
        };
        change(7, 5);
        cache.ended(TxnId(7), Some(Lsn::new(6)));
        change(8, 7);
        let work = || {
            assert_eq!(cache.oldest(), Some(Lsn::new(5)), "E19.4: until the page has it");
            if is_taken_back {
                cache.taken_back(TakenBack { txn: TxnId(8), at: AT, change: Lsn::new(7), inverse: None });
                cache.ended(TxnId(8), None);
            } else {
                change(8, 8);
                cache.ended(TxnId(8), Some(Lsn::new(9)));
            }
        };
        cache.flush_one(AT, &Meanwhile(Some(Box::new(work) as Box<dyn FnOnce()>).into())).unwrap();
        assert_eq!(cache.oldest(), (!is_taken_back).then_some(Lsn::new(7)));
        cache.flush_one(AT, &pages).unwrap();
        assert_eq!((cache.oldest(), pages.0.lock().len()), (None, usize::from(!is_taken_back)));
    }
}

/// E19.9: a record that is changed during its eviction stays; the eviction flushes it again.
#[test]
fn record_changed_while_it_is_evicted_stays() {
    let (cache, pages) = (Cache::new(10_000), Taking::default());
    cache.bring(AT, image(new_record(b"object", 16, false), 1), &pages).unwrap();
    let change = |lsn| {
        let made = cache.change(TxnId(7), AT, None, |_, _| true, &put(lsn), Back::Stays, &pages);
        made.unwrap().unwrap().logged(Lsn::new(lsn));
    };
    change(5);
    let evicting = Meanwhile(Some(Box::new(|| change(6)) as Box<dyn FnOnce()>).into());
    let (room, state) =
        cache.reserve(cache.state.lock(), 9_900, RecordId::new(PageId::new(3), Slot(1)), &evicting).unwrap();
    drop(state);
    assert!(room.is_ok(), "the second time it has gone");
    assert_eq!((cache.statistics().records, cache.statistics().flushes, cache.statistics().evictions), (0, 2, 1));
    assert_eq!(cache.statistics().bytes, 9_900);
    drop(room);
    assert_eq!(cache.statistics().bytes, 0);
}

/// An error of the page ends the phase: the record is unchanged, and the next flush may try again.
#[test]
fn failed_flush_leaves_record_unchanged() {
    let (cache, pages) = (Cache::new(10_000), Taking::default());
    let damaged = Taking(Mutex::default(), Some(AT.page), Lsn::ZERO);
    cache.bring(AT, image(new_record(b"object", 16, false), 1), &pages).unwrap();
    let made = cache.change(TxnId(7), AT, None, |_, _| true, &Dead {}, Back::Stays, &pages);
    made.unwrap().unwrap().logged(Lsn::new(5));
    for _ in 0..2 {
        cache.flush_one(AT, &damaged).unwrap_err();
        cache.evict(AT, &damaged).unwrap_err();
        cache.hand_over(AT, &damaged).unwrap_err();
        assert_eq!((cache.oldest(), cache.state.lock().busy), (Some(Lsn::new(5)), 0));
    }
    cache.evict(AT, &pages).unwrap();
    assert_eq!((cache.oldest(), cache.statistics().records), (None, 0));
}
