//! Opening of a store with these structures.

use std::path::Path;

use cedrat::prelude::*;

use crate::counters::{Count, Shift};
use crate::leaf::Change;
use crate::meter::RollUp;
use crate::set::Withdraw;

pub fn open(directory: &Path) -> Result<Store, OpenError> {
    let registry = cedrat::registry().operation::<Change>().logical::<Withdraw>();
    let registry = registry.operation::<Count>().operation::<Shift>().finish::<RollUp>();
    cedrat::open_with(directory, Options::default(), registry)
}
