//! What there is in all, whether a root reaches it or not: for tools, one page after the other.

use cedrat_pages::PageId;
use cedrat_txn::Result;

use crate::graph::Graph;
use crate::long::Stored;
use crate::reading::is_about_pieces;
use crate::word::Identity;

impl Graph {
    /// The pages that objects lie in, first to last. Others may follow while this is asked.
    ///
    /// # Errors
    /// Damage, with file and offset.
    pub fn object_pages(&self) -> Result<Vec<PageId>> {
        self.shared.objects.pages(&self.store)
    }

    /// The objects of one of these pages, by slot, as they were committed last. Of those whose bytes make no sense,
    /// [`read`](Graph::read) says why.
    ///
    /// # Errors
    /// Damage, with file and offset.
    pub fn objects_of_page(&self, page: PageId) -> Result<Vec<Identity>> {
        let objects = &self.shared.objects;
        let mut found = Vec::new();
        for id in objects.ids_of_page(&self.store, page)? {
            let is_piece = |bytes: &[u8]| matches!(Stored::of(bytes), Ok(Stored::Node { .. } | Stored::Leaf(_)));
            match objects.read_committed(&self.store, id, is_piece) {
                Ok((true, _)) => {}
                Ok((false, _)) => found.push(Identity::of(id)),
                // Removed, and its page does not know it yet.
                Err(error) if is_about_pieces(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}
