//! A thread's descriptor: its transaction, and the conversion of addresses to offsets in heaps.

use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use front::heap::{Commit, Heap, Held};
use front::txn::Vote;

use crate::freed::Freed;
use crate::opened::{Opened, ROOT_TYPE, offset_in, out_of_range};
use crate::status::{Failure, Result, Status};

/// Target of a `cedrat_thread *`.
pub(crate) struct Thread {
    held: Held,
    /// Addresses of the heaps; the one used last comes first.
    places: Vec<Place>,
    freed: Freed,
    checks_blocks: bool,
    opened: Arc<Opened>,
    failure: Option<Failure>,
    /// Text that C received last.
    text: CString,
}

struct Place {
    from: usize,
    len: usize,
    /// Its size when its words were exposed.
    shown: u64,
    heap: Heap,
}

impl Thread {
    pub(crate) fn new(opened: &Arc<Opened>) -> Result<Thread> {
        let held = Held::new(opened.memory())?;
        opened.threads.fetch_add(1, Ordering::AcqRel);
        let opened = Arc::clone(opened);
        let checks_blocks = opened.checks_blocks;
        let (places, freed, text) = (Vec::new(), Freed::default(), CString::default());
        Ok(Thread { held, places, freed, checks_blocks, opened, failure: None, text })
    }

    // ---- failures ---------------------------------------------------------------------------------------------

    #[cold]
    pub(crate) fn failed(&mut self, failure: Failure) -> Status {
        let status = failure.status;
        self.failure = Some(failure);
        status
    }

    /// Returns the text of the last failure.
    pub(crate) fn text(&mut self) -> &CStr {
        if let Some(failure) = self.failure.take() {
            self.text = CString::new(failure.text.replace('\0', " ")).expect("it has no zero any more");
        }
        &self.text
    }

    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    // ---- addresses --------------------------------------------------------------------------------------------

    /// Moves the heap that contains an address to the front of the places; returns the offset.
    #[inline(always)]
    fn find(&mut self, address: usize) -> Result<u64> {
        if let Some(place) = self.places.first() {
            let offset = address.wrapping_sub(place.from);
            if offset < place.len {
                return Ok(offset as u64);
            }
        }
        self.find_slowly(address)
    }

    #[cold]
    fn find_slowly(&mut self, address: usize) -> Result<u64> {
        self.held.hide(); // the exposed heap may be one that is not kept mapped any more
        let found = self.find_place(address);
        self.show_words();
        found
    }

    /// Exposes the words of the first place to inline loads and stores, unless each access must be checked.
    fn show_words(&mut self) {
        if let Some(place) = self.places.first_mut()
            && !self.checks_blocks
        {
            self.held.show(&place.heap);
            place.shown = place.heap.size();
        }
    }

    /// Returns the address of the data for inline loads and stores.
    pub(crate) fn view(&self) -> NonNull<()> {
        self.held.view()
    }

    fn find_place(&mut self, address: usize) -> Result<u64> {
        let lies_in = |place: &Place| address.wrapping_sub(place.from) < place.len;
        let mut at = self.places.iter().position(lies_in);
        if at.is_none() {
            let heaps = self.opened.memory().heaps();
            let place = |heap: Heap| Place { from: heap.address(), len: heap.size_max() as usize, shown: 0, heap };
            self.places = heaps.into_iter().map(place).collect();
            at = self.places.iter().position(lies_in);
        }
        let at = at.ok_or_else(|| out_of_range(address))?;
        self.places.swap(0, at);
        Ok((address - self.places[0].from) as u64)
    }

    /// Refuses bytes within a block that this transaction has freed and, if the program requested the check, all bytes
    /// outside of a block. The heap is the first of the places.
    #[inline(always)]
    fn check_freed(&mut self, address: usize, offset: u64, len: usize) -> Result<()> {
        if self.freed.is_empty() && !self.checks_blocks { Ok(()) } else { self.check_slowly(address, offset, len) }
    }

    #[cold]
    fn check_slowly(&mut self, address: usize, offset: u64, len: usize) -> Result<()> {
        self.freed.check(address, len)?;
        let heap = &self.places[0].heap;
        // A heap without blocks has no account before its first offset.
        if self.checks_blocks && heap.first_offset() > 0 {
            self.held.run(|tx| tx.check_allocated(heap, offset, len as u64))?;
        }
        Ok(())
    }

    // ---- transactions -----------------------------------------------------------------------------------------

    #[inline(always)]
    pub(crate) fn begin(&mut self) -> Result<()> {
        self.opened.check_running()?;
        self.held.begin()?;
        self.freed.clear();
        if self.places.first().is_some_and(|place| place.shown != place.heap.size()) {
            self.show_words(); // the heap has grown
        }
        Ok(())
    }

    /// Returns whether a commit may use the disk.
    #[inline(always)]
    pub(crate) fn uses_disk(&self) -> bool {
        self.held.memory().log().is_some()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.held.is_running()
    }

    #[inline(always)]
    pub(crate) fn commit(&mut self, mode: Commit) -> Result<u64> {
        Ok(self.held.commit(mode)?.lsn.get())
    }

    /// Prepares the transaction; returns `true` if it was read-only, and has ended. A failure rolls it back.
    pub(crate) fn prepare(&mut self, id: &[u8]) -> Result<bool> {
        let prepared = self.try_prepare(id);
        if prepared.is_err() {
            self.abort(); // there was no seat for the larger transaction, or no store
        }
        prepared
    }

    fn try_prepare(&mut self, id: &[u8]) -> Result<bool> {
        let mut txn = self.opened.store()?.begin();
        let taken_over = txn.take_over(&mut self.held);
        // Also after a conflict: the state of the descriptor was exchanged.
        self.show_words();
        taken_over?;
        // Dropped: it is in doubt until the store receives its outcome.
        Ok(matches!(txn.prepare(id)?, Vote::ReadOnly))
    }

    pub(crate) fn abort(&mut self) {
        self.held.abort();
    }

    pub(crate) fn restart(&mut self) {
        self.held.restart();
    }

    // ---- words and bytes --------------------------------------------------------------------------------------

    #[inline(always)]
    pub(crate) fn load_word(&mut self, address: usize) -> Result<u64> {
        let offset = self.find(address)?;
        self.check_freed(address, offset, 8)?;
        let heap = &self.places[0].heap;
        Ok(self.held.read(heap, offset)?)
    }

    #[inline(always)]
    pub(crate) fn store_word(&mut self, address: usize, value: u64) -> Result<()> {
        let offset = self.find(address)?;
        self.check_freed(address, offset, 8)?;
        let heap = &self.places[0].heap;
        self.held.run(|tx| tx.write(heap, offset, value))?;
        self.held.show_for_stores();
        Ok(())
    }

    pub(crate) fn load_bytes(&mut self, address: usize, into: &mut [u8]) -> Result<()> {
        let offset = self.find(address)?;
        self.check_freed(address, offset, into.len())?;
        let heap = &self.places[0].heap;
        Ok(self.held.run(|tx| tx.read_bytes(heap, offset, into))?)
    }

    pub(crate) fn store_bytes(&mut self, address: usize, bytes: &[u8]) -> Result<()> {
        let offset = self.find(address)?;
        self.check_freed(address, offset, bytes.len())?;
        let heap = &self.places[0].heap;
        Ok(self.held.run(|tx| tx.write_bytes(heap, offset, bytes))?)
    }

    // ---- blocks and roots -------------------------------------------------------------------------------------

    #[inline(always)]
    pub(crate) fn malloc(&mut self, heap: &Heap, len: u64) -> Result<usize> {
        // Any earlier writer to this address has lost its reference: the block may be filled with plain stores.
        let offset = self.held.allocate_filled(heap, len)?;
        Ok(heap.address() + offset as usize)
    }

    #[inline(always)]
    pub(crate) fn free(&mut self, address: usize) -> Result<()> {
        let offset = self.find(address)?;
        let heap = &self.places[0].heap;
        let len = self.held.free_block(heap, offset)?;
        self.freed.add(address, len as usize);
        self.held.suspect(offset, len.max(1)); // a block of no bytes has an address as well
        Ok(())
    }

    pub(crate) fn block_size(&mut self, address: usize) -> Result<u64> {
        let offset = self.find(address)?;
        let heap = &self.places[0].heap;
        Ok(self.held.run(|tx| tx.block_len(heap, offset))?)
    }

    /// Returns the address that a root names; 0 if there is none.
    pub(crate) fn root(&mut self, heap: &Heap, name: &str) -> Result<usize> {
        let root = self.held.run(|tx| tx.root(heap, name))?;
        Ok(root.map_or(0, |root| heap.address() + root.offset as usize))
    }

    /// Sets a root, or removes it if the address is 0.
    pub(crate) fn set_root(&mut self, heap: &Heap, name: &str, address: usize) -> Result<()> {
        if address == 0 {
            self.held.run(|tx| tx.remove_root(heap, name))?;
            return Ok(());
        }
        let offset = offset_in(heap, address)?;
        Ok(self.held.run(|tx| tx.set_root(heap, name, offset, ROOT_TYPE))?)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.opened.threads.fetch_sub(1, Ordering::AcqRel);
    }
}
