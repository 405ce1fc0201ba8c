//! Roots: names for blocks, from which all other data in a heap is found.
//!
//! ```text
//! account   words 64 to 95   the first root of each of 32 lists, by the hash of the name; 0 for none
//! root      word 0           the next root of the list
//!           word 1           the block that it names
//!           word 2           length of the name | length of the type << 32, in bytes
//!           word 3 …         the name, the type
//! ```

use cedrat_sync::Arc;

use crate::error::{Error, Interrupt, Result};
use crate::heap::{Core, Heap};
use crate::options::Commit;
use crate::region::WORD_LEN;
use crate::tx::Tx;

const LISTS_AT: u64 = 64;
const LISTS: u64 = 32;
const NAME_AT: u64 = 24;
const NAME_LEN_MAX: u64 = 1024;
const TYPE_LEN_MAX: u64 = 60 << 10;

/// A name for a block of a heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Name of the root.
    pub name: String,
    /// Offset of the block.
    pub offset: u64,
    /// Type of the block, in the program's terms.
    pub type_name: String,
}

/// Position of a root.
struct Found {
    /// Word that links to it.
    link: u64,
    /// First word of its block.
    at: u64,
    root: Root,
}

impl Heap {
    /// Returns all roots, by name.
    ///
    /// # Errors
    /// A heap without blocks; no free session.
    pub fn roots(&self) -> Result<Vec<Root>> {
        let done = self.memory.run(Commit::Async, |tx| {
            self.core.blocks()?;
            let mut roots = Vec::new();
            for list in LISTS_AT..LISTS_AT + LISTS {
                tx.find_root(&self.core, list, |root| {
                    roots.push(root.clone());
                    false
                })?;
            }
            Ok(roots)
        })?;
        let mut roots = done.value;
        roots.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(roots)
    }
}

impl Tx<'_> {
    /// Names a block, so that it is found when the heap is opened again; `type_name` records its type. An existing root of
    /// this name is replaced; the block that it named stays.
    ///
    /// # Errors
    /// [`Error::NotAllocated`] if no block begins there; [`Error::HeapFull`]; a name of more than 1,024 bytes; a conflict.
    pub fn set_root(&mut self, heap: &Heap, name: &str, offset: u64, type_name: &str) -> Result<(), Interrupt> {
        limit("the length of a root's name, in bytes", name.len() as u64, NAME_LEN_MAX)?;
        limit("the length of the name of a type, in bytes", type_name.len() as u64, TYPE_LEN_MAX)?;
        self.whole(|tx| tx.set_root_whole(heap, name, offset, type_name))
    }

    fn set_root_whole(&mut self, heap: &Heap, name: &str, offset: u64, type_name: &str) -> Result<(), Interrupt> {
        self.block_len(heap, offset)?;
        let core = &heap.core;
        let list = list_of(name);
        let replaced = self.find_root(core, list, |root| root.name == name)?;
        if let Some(found) = &replaced
            && found.root.type_name == type_name
        {
            return self.write_word(core, found.at / WORD_LEN + 1, offset);
        }
        let at = self.allocate(heap, NAME_AT + name.len() as u64 + type_name.len() as u64)?;
        if let Some(found) = &replaced {
            self.unlink(heap, found)?;
        }
        let next = self.read_word(core, list)?;
        let lengths = name.len() as u64 | (type_name.len() as u64) << 32;
        for (index, value) in [next, offset, lengths].into_iter().enumerate() {
            self.write_word(core, at / WORD_LEN + index as u64, value)?;
        }
        self.write_bytes(heap, at + NAME_AT, name.as_bytes())?;
        self.write_bytes(heap, at + NAME_AT + name.len() as u64, type_name.as_bytes())?;
        self.write_word(core, list, at)
    }

    /// Returns the root of this name.
    ///
    /// # Errors
    /// A heap without blocks; a conflict.
    pub fn root(&mut self, heap: &Heap, name: &str) -> Result<Option<Root>, Interrupt> {
        self.shared.check_same(heap)?;
        heap.core.blocks()?;
        let found = self.find_root(&heap.core, list_of(name), |root| root.name == name)?;
        Ok(found.map(|found| found.root))
    }

    /// Removes the root of this name and returns it; the block that it named stays.
    ///
    /// # Errors
    /// [`Error::Unknown`]; a heap without blocks; a conflict.
    pub fn remove_root(&mut self, heap: &Heap, name: &str) -> Result<Root, Interrupt> {
        self.shared.check_same(heap)?;
        heap.core.blocks()?;
        let found = self.find_root(&heap.core, list_of(name), |root| root.name == name)?;
        let unknown = || Interrupt::failed(Error::Unknown { what: "root", name: name.to_owned() });
        let found = found.ok_or_else(unknown)?;
        self.whole(|tx| tx.unlink(heap, &found))?;
        Ok(found.root)
    }

    fn unlink(&mut self, heap: &Heap, found: &Found) -> Result<(), Interrupt> {
        let next = self.read_word(&heap.core, found.at / WORD_LEN)?;
        self.write_word(&heap.core, found.link, next)?;
        self.free(heap, found.at)
    }

    fn find_root(
        &mut self,
        core: &Arc<Core>,
        list: u64,
        mut is: impl FnMut(&Root) -> bool,
    ) -> Result<Option<Found>, Interrupt> {
        let mut link = list;
        // No two roots share a byte.
        let mut left = core.words() * WORD_LEN;
        loop {
            let at = self.read_word(core, link)?;
            if at == 0 {
                return Ok(None);
            }
            let first = self.block_at(core, at, NAME_AT)?;
            let offset = self.read_word(core, first + 1)?;
            let lengths = self.read_word(core, first + 2)?;
            let (name_len, type_len) = (lengths & 0xffff_ffff, lengths >> 32);
            let len = NAME_AT + name_len + type_len;
            self.block_at(core, at, len)?;
            let Some(fewer) = left.checked_sub(len) else {
                let what = "a list of named roots leads back to itself";
                return Err(Interrupt::failed(Error::damaged(format!("heap {}", core.name), at, what)));
            };
            left = fewer;
            let name = self.read_text(core, first + 3, 0, name_len)?;
            let type_name = self.read_text(core, first + 3, name_len, type_len)?;
            let root = Root { name, offset, type_name };
            if is(&root) {
                return Ok(Some(Found { link, at, root }));
            }
            link = first;
        }
    }

    /// Reads `len` bytes, starting `skip` bytes after the beginning of a word.
    fn read_text(&mut self, core: &Arc<Core>, word: u64, skip: u64, len: u64) -> Result<String, Interrupt> {
        let mut bytes = Vec::with_capacity((skip + len + WORD_LEN) as usize);
        for index in 0..(skip + len).div_ceil(WORD_LEN) {
            bytes.extend_from_slice(&self.read_word(core, word + index)?.to_le_bytes());
        }
        Ok(String::from_utf8_lossy(&bytes[skip as usize..(skip + len) as usize]).into_owned())
    }
}

/// Returns the word that links to the first root with the hash of this name (FNV-1a).
fn list_of(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    LISTS_AT + (hash ^ hash >> 32) % LISTS
}

fn limit(what: &'static str, given: u64, limit: u64) -> Result<(), Interrupt> {
    if given > limit { Err(Interrupt::failed(Error::Limit { what, given, limit })) } else { Ok(()) }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;
    use crate::{HeapOptions, Memory, MemoryOptions};

    /// A root that is its own successor makes no walk endless, nor one that keeps as many copies as the heap has room for the
    /// shortest roots: the address is reported.
    #[test]
    fn root_that_leads_to_itself_is_damage() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("heap", &HeapOptions::new(256 << 10)).expect("a heap");
        let core = &heap.core;
        let named = |tx: &mut Tx<'_>| {
            let block = tx.allocate(&heap, 8)?;
            tx.set_root(&heap, "name", block, &"type".repeat(5_000))?;
            let found = tx.find_root(core, list_of("name"), |_| true)?.expect("it is there");
            tx.write_word(core, found.at / WORD_LEN, found.at)?;
            Ok((block, found.at))
        };
        let (block, at) = heap.atomically(named).expect("room");
        let mut read = 0;
        let counted = heap.atomically(|tx| {
            let count = |root: &Root| {
                read += root.type_name.len() as u64;
                false
            };
            tx.find_root(core, list_of("name"), count).map(drop)
        });
        let absent = (0..).map(|number| format!("{number}")).find(|name| list_of(name) == list_of("name"));
        let absent = absent.expect("one of the numbers");
        let walks = [
            counted,
            heap.roots().map(drop),
            heap.atomically(|tx| tx.root(&heap, &absent).map(drop)),
            heap.atomically(|tx| tx.set_root(&heap, &absent, block, "")),
            heap.atomically(|tx| tx.remove_root(&heap, &absent).map(drop)),
        ];
        for walk in walks {
            assert!(matches!(walk, Err(Error::Damaged { offset, .. }) if offset == at), "{walk:?}");
        }
        assert!(read <= heap.size(), "{read} bytes of names were read");
    }
}
