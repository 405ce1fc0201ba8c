//! The files between cache and medium: their durable state, and the changes that a power loss may lose.

use super::image::{Contents, Image};
use super::journal::FileNumber;
use super::loss::Fate;
use super::volatile::Cached;
use cedrat_sync::Arc;
use std::collections::BTreeMap;

/// The durable state of a medium, and the volatile changes on top of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Medium {
    /// Files in the order of their creation, removed ones included.
    pub(super) files: Vec<Cached>,
    /// The durable names.
    pub(super) names: BTreeMap<Arc<str>, FileNumber>,
    pub(super) name_changes: Vec<NameChange>,
}

/// The creation or removal of a name, which may be lost.
#[derive(Clone, Debug)]
pub(super) struct NameChange {
    pub(super) name: Arc<str>,
    /// The file that now has the name; `None` if it was removed.
    pub(super) file: Option<FileNumber>,
    pub(super) position: usize,
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<Arc<str>, FileNumber>) {
        match self.file {
            Some(file) => names.insert(self.name.clone(), file),
            None => names.remove(&self.name),
        };
    }
}

impl From<Image> for Medium {
    /// Creates a medium on which the whole image is durable.
    fn from(image: Image) -> Medium {
        Medium {
            names: image.files.keys().cloned().zip(0..).collect(),
            files: image.files.into_values().map(Cached::new).collect(),
            name_changes: Vec::new(),
        }
    }
}

impl Medium {
    /// Returns the number of changes that a power loss may undo.
    pub(super) fn volatile_changes(&self) -> usize {
        self.name_changes.len() + self.files.iter().map(|file| file.volatile.len()).sum::<usize>()
    }

    /// Returns the names as callers see them.
    pub(super) fn names_seen(&self) -> BTreeMap<Arc<str>, FileNumber> {
        let mut names = self.names.clone();
        self.name_changes.iter().for_each(|change| change.apply(&mut names));
        names
    }

    /// Returns a file as callers see it; empty if it was never created.
    pub(super) fn seen(&self, number: FileNumber) -> Contents {
        let Some(file) = self.files.get(number) else {
            return Contents::default();
        };
        let mut contents = file.durable.clone();
        file.volatile.iter().for_each(|change| change.what.apply(&mut contents, Fate::Kept));
        contents
    }

    /// Dates all changes back: they precede the journal that begins with this medium.
    pub(super) fn date_back(&mut self) {
        self.files.iter_mut().flat_map(|file| &mut file.volatile).for_each(|change| change.position = 0);
        self.name_changes.iter_mut().for_each(|change| change.position = 0);
    }
}
