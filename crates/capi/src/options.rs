//! Options, as C passes them. Zero is always the default, so `= {0}` is a good start.
//!
//! This module is `unsafe` only where it reads through pointers of C; the reasons are those of `border`.

use std::ffi::c_char;
use std::ptr::NonNull;
use std::time::{Duration, UNIX_EPOCH};

use front::heap::{HeapOptions, Locking};
use front::media::{Encryption, KEY_LEN, Key};
use front::txn::RestoreTarget;
use front::wal::Lsn;

use crate::status::{Failure, Result, Status};

/// The bytes of a key.
pub(crate) type KeyBytes = [u8; KEY_LEN];

/// `cedrat_options`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct StoreChoices {
    pub(crate) must_exist: i32,
    pub(crate) no_background: i32,
    pub(crate) encounter_locking: i32,
    pub(crate) no_huge_pages: i32,
    pub(crate) check_blocks: i32,
    pub(crate) volatile_memory: i32,
    pub(crate) partitions: u32,
    pub(crate) threads_max: u32,
    pub(crate) log_limit_bytes: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) checkpoint_every_bytes: u64,
    pub(crate) page_pool_bytes: u64,
    pub(crate) page_space_bytes: u64,
    pub(crate) stripes: u64,
    pub(crate) archive: Option<NonNull<c_char>>,
    pub(crate) backup: Option<NonNull<c_char>>,
    pub(crate) key: Option<NonNull<KeyBytes>>,
    pub(crate) older_key: Option<NonNull<KeyBytes>>,
    pub(crate) reserved: [u64; 2],
}

/// `cedrat_heap_options`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct HeapChoices {
    pub(crate) size: u64,
    pub(crate) size_max: u64,
    pub(crate) address: u64,
    pub(crate) chunk_bytes: u64,
    pub(crate) raw: i32,
    pub(crate) reserved_int: i32,
    pub(crate) reserved: [u64; 4],
}

/// `cedrat_backup_options`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct BackupChoices {
    pub(crate) bytes_per_second_max: u64,
    pub(crate) since: Option<NonNull<*const c_char>>,
    pub(crate) since_count: usize,
    pub(crate) reserved: [u64; 5],
}

/// `cedrat_backup_report`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct BackupReport {
    pub(crate) up_to_lsn: u64,
    pub(crate) bytes: u64,
    pub(crate) nanoseconds: u64,
    pub(crate) cannot_continue: u64,
    pub(crate) reserved: [u64; 4],
}

impl BackupReport {
    pub(crate) fn new(up_to: Lsn, bytes: u64, total: Duration) -> BackupReport {
        let nanoseconds = u64::try_from(total.as_nanos()).unwrap_or(u64::MAX);
        BackupReport { up_to_lsn: up_to.get(), bytes, nanoseconds, ..BackupReport::default() }
    }
}

/// `cedrat_scrub_report`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct ScrubReport {
    pub(crate) pages: u64,
    pub(crate) log_records: u64,
    pub(crate) rebuilt: u64,
    pub(crate) damaged: u64,
    pub(crate) reserved: [u64; 4],
}

/// `cedrat_restore_options`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RestoreChoices {
    pub(crate) lsn: u64,
    pub(crate) time_ms: u64,
    pub(crate) increments: Option<NonNull<*const c_char>>,
    pub(crate) increment_count: usize,
    pub(crate) key: Option<NonNull<KeyBytes>>,
    pub(crate) new_key: Option<NonNull<KeyBytes>>,
    pub(crate) reserved: [u64; 2],
}

/// `cedrat_statistics`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Statistics {
    pub(crate) conflicts: u64,
    pub(crate) partition_commits_made_sync: u64,
    pub(crate) newest_lsn: u64,
    pub(crate) stable_lsn: u64,
    pub(crate) recovered_records: u64,
    pub(crate) recovered_words: u64,
    pub(crate) recovery_nanoseconds: u64,
    pub(crate) created: u64,
    pub(crate) checkpoint_failed: u64,
    pub(crate) refused_threads: u64,
    pub(crate) archive_waits_since_ms: u64,
    pub(crate) reserved: [u64; 5],
}

/// `cedrat_usage`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Usage {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
    pub(crate) taken_bytes: u64,
    pub(crate) free_bytes: u64,
    pub(crate) account_bytes: u64,
}

/// `cedrat_log_options`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct LogChoices {
    pub(crate) must_exist: i32,
    pub(crate) reserved_int: i32,
    pub(crate) log_limit_bytes: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) reserved: [u64; 5],
}

/// `cedrat_graph_options`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct GraphChoices {
    pub(crate) must_exist: i32,
    pub(crate) program_locks: i32,
    pub(crate) cache_bytes: u64,
    pub(crate) class_tag: u64,
    pub(crate) reserved: [u64; 5],
}

/// `cedrat_graph_statistics`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct GraphStatistics {
    pub(crate) classes: u64,
    pub(crate) cache_hits: u64,
    pub(crate) cache_misses: u64,
    pub(crate) cache_evictions: u64,
    pub(crate) cache_flushes: u64,
    pub(crate) cache_records: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) newest_lsn: u64,
    pub(crate) stable_lsn: u64,
    pub(crate) reserved: [u64; 7],
}

/// `cedrat_graph_collected`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct CollectedSoFar {
    pub(crate) marked: u64,
    pub(crate) objects: u64,
    pub(crate) pieces: u64,
    pub(crate) mark_bytes: u64,
    pub(crate) reserved: [u64; 4],
}

/// Returns the options that C points to, or the default for null.
///
/// # Safety
/// `choices` is null, or points to such a structure that no other thread changes meanwhile.
pub(crate) unsafe fn given<T: Copy + Default>(choices: *const T) -> T {
    // SAFETY: 1 (of `border`); null gives the default.
    unsafe { choices.as_ref() }.copied().unwrap_or_default()
}

/// Returns the keys that C points to; `None` without `key`. An older key alone is refused: the store would not be encrypted.
///
/// # Safety
/// Both point to 32 bytes that no other thread changes meanwhile, or are null.
pub(crate) unsafe fn keys(
    key: Option<NonNull<KeyBytes>>,
    older: Option<NonNull<KeyBytes>>,
) -> Result<Option<Encryption>> {
    // SAFETY: 1 (of `border`).
    let read = |bytes: NonNull<KeyBytes>| Key::new(unsafe { bytes.read() });
    if key.is_none() && older.is_some() {
        return Err(Failure::new(Status::Options, "older_key without key: set key, too"));
    }
    Ok(key.map(|key| Encryption::with_keys(read(key), older.into_iter().map(read).collect())))
}

fn unless_zero<T: Copy + Default + PartialEq>(field: &mut T, given: T) {
    if given != T::default() {
        *field = given;
    }
}

fn must_be_zero(all: &[u64]) -> Result<()> {
    if all.iter().any(|&word| word != 0) {
        return Err(Failure::new(Status::Options, "reserved fields of options must be zero: begin with `= {0}`"));
    }
    Ok(())
}

impl LogChoices {
    /// Checks that they belong to this version of the header.
    pub(crate) fn check(self) -> Result<()> {
        must_be_zero(&self.reserved)?;
        must_be_zero(&[u64::from(self.reserved_int != 0)])
    }
}

impl GraphChoices {
    /// Returns the options, and whether the graph must exist.
    pub(crate) fn to_options(self) -> Result<(front::graph::Options, bool)> {
        must_be_zero(&self.reserved)?;
        let mut options = front::graph::Options { program_locks: self.program_locks != 0, ..Default::default() };
        unless_zero(&mut options.cache_bytes, self.cache_bytes);
        options.class_tag = match u8::try_from(self.class_tag) {
            Ok(0) => None,
            Ok(tag) if tag != u8::MAX => Some(tag),
            _ => return Err(Failure::new(Status::Options, "class_tag of a graph is 0, or a tag of values: 1 to 254")),
        };
        Ok((options, self.must_exist != 0))
    }
}

impl StoreChoices {
    /// Returns the options of what only reads, which has no archive and no backup of its own; `why_not` names what to leave zero.
    pub(crate) fn to_options_of_reader(
        self,
        encryption: Option<Encryption>,
        why_not: &'static str,
    ) -> Result<front::Options> {
        if self.volatile_memory != 0 || self.archive.is_some() || self.backup.is_some() {
            return Err(Failure::new(Status::Options, why_not));
        }
        Ok(front::Options { encryption, ..self.to_options()? })
    }

    pub(crate) fn to_options(self) -> Result<front::Options> {
        must_be_zero(&self.reserved)?;
        let mut options = front::Options {
            create: self.must_exist == 0,
            background: self.no_background == 0,
            ..front::Options::default()
        };
        if self.encounter_locking != 0 {
            options.memory.locking = Locking::EncounterTime;
        }
        options.memory.huge_pages = self.no_huge_pages == 0;
        unless_zero(&mut options.memory.sessions_max, self.threads_max);
        let partitions = u16::try_from(self.partitions);
        let partitions = partitions.map_err(|_| Failure::new(Status::Options, "partitions: choose at most 65,535"))?;
        unless_zero(&mut options.partitions, partitions);
        unless_zero(&mut options.log_limit_bytes, self.log_limit_bytes);
        unless_zero(&mut options.segment_len, self.segment_bytes);
        unless_zero(&mut options.checkpoint_every_bytes, self.checkpoint_every_bytes);
        unless_zero(&mut options.pool_bytes, self.page_pool_bytes);
        unless_zero(&mut options.pool.pages_max, self.page_space_bytes.div_ceil(front::pages::PAGE_LEN as u64));
        if self.stripes != 0 {
            if !self.stripes.is_power_of_two() {
                let text = format!("stripes: {} given; choose a power of two", self.stripes);
                return Err(Failure::new(Status::Options, text));
            }
            options.memory.stripes_log2 = self.stripes.ilog2();
        }
        Ok(options)
    }
}

impl BackupChoices {
    /// Checks that they belong to this version of the header.
    pub(crate) fn check(self) -> Result<()> {
        must_be_zero(&self.reserved)
    }
}

impl RestoreChoices {
    pub(crate) fn to_target(self) -> Result<RestoreTarget> {
        must_be_zero(&self.reserved)?;
        match (self.lsn, self.time_ms) {
            (0, 0) => Ok(RestoreTarget::Newest),
            (lsn, 0) => Ok(RestoreTarget::Lsn(Lsn::new(lsn))),
            (0, millis) => Ok(RestoreTarget::Time(UNIX_EPOCH + Duration::from_millis(millis))),
            _ => Err(Failure::new(Status::Options, "lsn and time_ms: choose one of them")),
        }
    }
}

impl HeapChoices {
    pub(crate) fn to_options(self) -> Result<HeapOptions> {
        must_be_zero(&self.reserved)?;
        must_be_zero(&[u64::from(self.reserved_int != 0)])?;
        let mut options = if self.raw != 0 { HeapOptions::raw(self.size) } else { HeapOptions::new(self.size) };
        unless_zero(&mut options.size_max, self.size_max);
        unless_zero(&mut options.chunk_len, self.chunk_bytes);
        options.address = (self.address != 0).then_some(self.address as usize);
        Ok(options)
    }
}
