//! What goes wrong while a simulated disk is in use.

use std::io::ErrorKind;

/// The calls of [`Media`](crate::Media) that a fault can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Each of the others.
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

/// Something that goes wrong at a certain call.
///
/// ```
/// use cedrat_media::{Call, Fault};
/// use std::io::ErrorKind;
///
/// let dying = Fault::error(Call::Write, ErrorKind::Other).nth(3).of("log/").for_ever();
/// # let _ = dying;
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    call: Call,
    names: String,
    /// Calls of this kind still to pass unharmed.
    harmless: u64,
    for_ever: bool,
    effect: Effect,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    Error(ErrorKind),
    PowerLoss,
    Forget,
    LoseWrite,
    MisdirectWrite { to: u64 },
}

impl Fault {
    /// The next such call fails. A failed write may or may not have reached the medium; a sync that fails thus
    /// may be tried again with success. Any other call has done nothing.
    pub fn error(call: Call, kind: ErrorKind) -> Fault {
        Fault::new(call, Effect::Error(kind))
    }

    /// The power fails in the middle of the next such call: it and every later one is an error, and a crash at the
    /// end of the journal shows what is left.
    pub fn power_loss(call: Call) -> Fault {
        Fault::new(call, Effect::PowerLoss)
    }

    /// The next sync fails, and forgets: what was volatile is never written, though it can still be read from the
    /// cache and though the next sync says that all is well. This is what Linux does.
    pub fn forgetful_sync() -> Fault {
        Fault::new(Call::Sync, Effect::Forget)
    }

    /// The next write says that it was done, and was not: its sectors are stale.
    pub fn lost_write() -> Fault {
        Fault::new(Call::Write, Effect::LoseWrite)
    }

    /// The next write is done at offset `to` instead.
    pub fn misdirected_write(to: u64) -> Fault {
        Fault::new(Call::Write, Effect::MisdirectWrite { to })
    }

    fn new(call: Call, effect: Effect) -> Fault {
        Fault { call, names: String::new(), harmless: 0, for_ever: false, effect }
    }

    /// Waits for the `nth` such call from now on; 1 is the next.
    ///
    /// # Panics
    /// If `nth` is 0.
    pub fn nth(mut self, nth: u64) -> Fault {
        self.harmless = nth.checked_sub(1).expect("calls are counted from 1");
        self
    }

    /// Only calls about files, or directories, whose name begins so.
    pub fn of(mut self, names: &str) -> Fault {
        names.clone_into(&mut self.names);
        self
    }

    /// From then on at every such call.
    pub fn for_ever(mut self) -> Fault {
        self.for_ever = true;
        self
    }
}

/// The faults a disk waits with.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What goes wrong with this call. Every fault counts it; the first that is due has its effect.
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
            fault.for_ever
        });
        effect
    }
}

/// How bytes at rest go bad; see [`SimDisk::corrupt`](super::SimDisk::corrupt).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One bit of the byte changes; 0 is the least.
    Flip {
        /// 0 to 7.
        bit: u8,
    },
    /// The sector holds what it held before it last changed; zeros, if that was before the disk was made.
    Stale,
    /// What was last written to the sector lies in the sector of this offset instead, and this one is stale.
    Misdirected {
        /// An offset into the same file.
        to: u64,
    },
}
