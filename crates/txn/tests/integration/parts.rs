//! Several media on one simulated disk.

use cedrat_media::{ForwardMedia, Media, SimDisk};
use std::borrow::Cow;

/// A medium in a part of a disk: one journal has the calls of all of its parts.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    disk: SimDisk,
    name: &'static str,
}

impl Part {
    pub(crate) fn of(disk: &SimDisk, name: &'static str) -> Part {
        Part { disk: disk.clone(), name }
    }
}

impl ForwardMedia for Part {
    fn target(&self) -> &dyn Media {
        &self.disk
    }

    fn target_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match name.split_once('/') {
            Some((directory, name)) => format!("{}-{directory}/{name}", self.name).into(),
            None => format!("{}/{name}", self.name).into(),
        }
    }

    fn target_directory<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if name.is_empty() { self.name.into() } else { format!("{}-{name}", self.name).into() }
    }
}
