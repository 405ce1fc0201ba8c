//! Faults of a simulated disk in use.

use std::io::ErrorKind;

/// The calls of [`Media`](crate::Media) that a fault can strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Any call.
    Any,
    /// `open`.
    Open,
    /// `lock`.
    Lock,
    /// `list`.
    List,
    /// `remove`.
    Remove,
    /// `sync_directory`.
    SyncDirectory,
    /// `len`.
    Len,
    /// `read_at`.
    Read,
    /// `write_at`.
    Write,
    /// `sync`.
    Sync,
    /// `allocate`.
    Allocate,
    /// `punch`.
    Punch,
    /// `set_len`.
    SetLen,
}

/// A fault at a certain call.
///
/// ```
/// use cedrat_media::{Call, Fault};
/// use std::io::ErrorKind;
///
/// let dying = Fault::error(Call::Write, ErrorKind::Other).nth(3).of("log/").permanent();
/// # let _ = dying;
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    call: Call,
    names: String,
    /// The number of calls of this kind that still succeed.
    harmless: u64,
    permanent: bool,
    effect: Effect,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    Error(ErrorKind),
    PowerLoss,
    Forget,
    MisreportWrite,
    LoseWrite,
    MisdirectWrite { to: u64 },
    Panic,
}

impl Fault {
    /// The next such call fails. A failed write may or may not have reached the medium; a sync that fails in this way
    /// may be repeated with success. Any other call has done nothing.
    pub fn error(call: Call, kind: ErrorKind) -> Fault {
        Fault::new(call, Effect::Error(kind))
    }

    /// The power fails in the middle of the next such call: it and every later call returns an error, and a crash at
    /// the end of the journal shows the rest.
    pub fn power_loss(call: Call) -> Fault {
        Fault::new(call, Effect::PowerLoss)
    }

    /// The next sync fails, and forgets: the volatile bytes are never written, though they can still be read from the
    /// cache, and though the next sync reports success. This is the behaviour of Linux.
    pub fn forgetful_sync() -> Fault {
        Fault::new(Call::Sync, Effect::Forget)
    }

    /// The next durable write fails, forgets, and reports success: another durable write of the same file, in flight at the
    /// same time, gets its error. This is the behaviour of Linux for writes through its cache (A9a).
    ///
    /// The struck write waits until another one has got the error. As on a real disk, a durable write on this disk fails
    /// from then on if one that overlapped it has failed.
    pub fn misreported_write() -> Fault {
        Fault::new(Call::Write, Effect::MisreportWrite)
    }

    /// The next write reports success without writing: its sectors are stale.
    pub fn lost_write() -> Fault {
        Fault::new(Call::Write, Effect::LoseWrite)
    }

    /// The next write goes to offset `to` instead.
    pub fn misdirected_write(to: u64) -> Fault {
        Fault::new(Call::Write, Effect::MisdirectWrite { to })
    }

    /// Panics in the next such call, as a medium with a bug does. The call has done nothing.
    pub fn panic(call: Call) -> Fault {
        Fault::new(call, Effect::Panic)
    }

    fn new(call: Call, effect: Effect) -> Fault {
        Fault { call, names: String::new(), harmless: 0, permanent: false, effect }
    }

    /// Strikes at the `nth` such call from now on; 1 is the next.
    ///
    /// # Panics
    /// If `nth` is 0.
    pub fn nth(mut self, nth: u64) -> Fault {
        self.harmless = nth.checked_sub(1).expect("calls are counted from 1");
        self
    }

    /// Strikes only calls on files or directories whose name begins with `names`.
    pub fn of(mut self, names: &str) -> Fault {
        names.clone_into(&mut self.names);
        self
    }

    /// Strikes from then on at every such call.
    pub fn permanent(mut self) -> Fault {
        self.permanent = true;
        self
    }
}

/// The pending faults of a disk.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether a write will get the error of another.
    pub(super) fn misreport(&self) -> bool {
        self.0.iter().any(|fault| matches!(fault.effect, Effect::MisreportWrite))
    }

    /// Returns the effect on this call. Every fault counts the call; the first that is due determines the effect.
    pub(super) fn strike(&mut self, call: Call, name: &str) -> Option<Effect> {
        let mut effect = None;
        self.0.retain_mut(|fault| {
            let concerned = (fault.call == Call::Any || fault.call == call) && name.starts_with(&fault.names);
            if !concerned {
                return true;
            }
            if fault.harmless > 0 {
                fault.harmless -= 1;
                return true;
            }
            effect = effect.or(Some(fault.effect));
            fault.permanent
        });
        effect
    }
}

/// Damage of bytes at rest; see [`SimDisk::corrupt`](super::SimDisk::corrupt).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One bit of the byte changes; 0 is the least significant.
    Flip {
        /// 0 to 7.
        bit: u8,
    },
    /// The sector holds its content before the last change; zeros if it never changed since the disk was created.
    Stale,
    /// The last write to the sector went to the sector of this offset instead, and this one is stale.
    Misdirected {
        /// An offset into the same file.
        to: u64,
    },
}
