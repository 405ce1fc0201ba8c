//! The root page of a graph: the roots of its parts (docs/formats/graph.md).

use cedrat_pages::layout::{FixedNumber, OpaqueLayout};
use cedrat_pages::{Damaged, LayoutKind, PageId, PageRef};
use cedrat_structures::StructureError;
use cedrat_sync::Arc;
use cedrat_txn::{FormatFresh, RecordId, Registry, Result, SetRange, SmallBytes, Store, Txn};

/// Layout of the root page.
const ROOT: LayoutKind = LayoutKind(24);

/// Offset of the word that is not zero once the graph was dropped.
const STATE_AT: usize = 32;

/// The numbers of the root page, for tools.
const NUMBERS: &[FixedNumber] = &[
    FixedNumber::new("root of the objects", 0, 8),
    FixedNumber::new("root of the roots", 8, 8),
    FixedNumber::new("root of the classes", 16, 8),
    FixedNumber::new("transaction that has made it", 24, 8),
    FixedNumber::new("dropped", STATE_AT, 8),
];

/// The parts of a graph, each by its own root page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) objects: PageId,
    pub(crate) roots: PageId,
    pub(crate) classes: PageId,
    /// Transaction that has created the graph, and no other graph with this root.
    pub(crate) maker: u64,
}

impl Parts {
    /// Writes the root page of a graph with these parts.
    pub(crate) fn write(self, txn: &mut Txn) -> Result<PageId> {
        let root = txn.allocate()?;
        txn.update(RecordId::page(root), &FormatFresh::new(ROOT))?;
        let mut bytes = SmallBytes::new();
        for word in [self.objects.get(), self.roots.get(), self.classes.get(), self.maker] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        txn.update(RecordId::page(root), &SetRange { offset: 0, bytes })?;
        Ok(root)
    }

    /// Reads the parts from the root page of a graph.
    pub(crate) fn read(store: &Store, root: PageId) -> Result<Parts> {
        let page = store.read(root)?;
        let parts = Parts::of(&page).map_err(|damaged| store.pool().damaged(damaged))?;
        parts.ok_or_else(|| StructureError::Gone { root }.into())
    }

    /// Returns `None` if the graph was dropped.
    pub(crate) fn of(page: &PageRef<'_>) -> Result<Option<Parts>, Damaged> {
        if page.kind() != ROOT {
            return Err(Damaged::wrong_kind(page.id()));
        }
        let part = |at| page.u64_at(at).map(PageId::new);
        let parts = Parts { objects: part(0)?, roots: part(8)?, classes: part(16)?, maker: page.u64_at(24)? };
        Ok((page.u64_at(STATE_AT)? == 0).then_some(parts))
    }

    /// Marks the graph as dropped, and frees its page, which keeps its content.
    pub(crate) fn bury(txn: &mut Txn, root: PageId) -> Result<()> {
        let bytes = SmallBytes::from(&1_u64.to_le_bytes()[..]);
        txn.update(RecordId::page(root), &SetRange { offset: STATE_AT as u16, bytes })?;
        txn.free(root)
    }
}

pub(crate) fn register(registry: Registry) -> Registry {
    registry.layout(Arc::new(OpaqueLayout { kind: ROOT, name: "graph of objects, root", numbers: NUMBERS }))
}
