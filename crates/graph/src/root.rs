//! The page that stands for a graph: where its parts begin (docs/formats/graph.md).

use cedrat_pages::layout::OpaqueLayout;
use cedrat_pages::{Damaged, LayoutKind, PageId, PageRef};
use cedrat_sync::Arc;
use cedrat_txn::{FormatFresh, RecordId, Registry, Result, SetRange, SmallBytes, Store, Txn};

/// Root of a graph.
const ROOT: LayoutKind = LayoutKind(24);

/// The parts of a graph, by their own roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) objects: PageId,
    pub(crate) roots: PageId,
    pub(crate) classes: PageId,
}

impl Parts {
    /// Makes the page of a graph with these parts.
    pub(crate) fn write(self, txn: &mut Txn) -> Result<PageId> {
        let root = txn.allocate()?;
        txn.update(RecordId::page(root), &FormatFresh::new(ROOT))?;
        let mut bytes = SmallBytes::new();
        for part in [self.objects, self.roots, self.classes] {
            bytes.extend_from_slice(&part.get().to_le_bytes());
        }
        txn.update(RecordId::page(root), &SetRange { offset: 0, bytes })?;
        Ok(root)
    }

    /// What the page of a graph says.
    pub(crate) fn read(store: &Store, root: PageId) -> Result<Parts> {
        let page = store.read(root)?;
        let parts = Parts::of(&page);
        parts.map_err(|damaged| store.pool().damaged(damaged).into())
    }

    fn of(page: &PageRef<'_>) -> Result<Parts, Damaged> {
        if page.kind() != ROOT {
            return Err(Damaged::wrong_kind(page.id()));
        }
        let part = |at| page.u64_at(at).map(PageId::new);
        Ok(Parts { objects: part(0)?, roots: part(8)?, classes: part(16)? })
    }
}

pub(crate) fn register(registry: Registry) -> Registry {
    registry.layout(Arc::new(OpaqueLayout { kind: ROOT, name: "graph of objects, root" }))
}
