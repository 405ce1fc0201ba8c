//! Enumeration of all objects, reachable or not, page by page, for tools.

use cedrat_pages::PageId;
use cedrat_txn::Result;

use crate::graph::handle::Graph;
use crate::graph::long::Stored;
use crate::graph::reading::is_about_pieces;
use crate::graph::word::Identity;

impl Graph {
    /// Returns the pages that contain objects, first to last. More pages may follow while this call runs.
    ///
    /// # Errors
    /// Damage, with file and offset.
    pub fn object_pages(&self) -> Result<Vec<PageId>> {
        self.shared.objects.pages(&self.store)
    }

    /// Returns the objects of one of these pages, by slot, as they were committed last. For those with invalid bytes,
    /// [`read`](Graph::read) returns the reason.
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
                // Removed, but its page does not contain the removal yet.
                Err(error) if is_about_pieces(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}
