//! State of structures that is kept in memory while the store is open, by their root pages.

use std::any::Any;
use std::collections::HashMap;

use cedrat_pages::PageId;
use cedrat_sync::{Arc, Mutex, planted};

use crate::error::Result;
use crate::space::Extent;
use crate::upkeep::Upkeep;

/// The state of a structure: one value of each type.
struct State {
    value: Arc<dyn Any + Send + Sync>,
    /// The same value, if it has work for checkpoints.
    upkeep: Option<Arc<dyn Upkeep>>,
}

/// The resident state of all structures.
#[derive(Default)]
pub(crate) struct Residents(Mutex<ByRoot>);

#[derive(Default)]
struct ByRoot {
    states: HashMap<PageId, Vec<State>>,
    /// Number of root pages that were compared or looked up for freed pages.
    #[cfg(test)]
    looks: u64,
}

impl ByRoot {
    fn known<T: Send + Sync + 'static>(&self, root: PageId, is_meant: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let known = self.states.get(&root)?.iter().find(|state| state.value.is::<T>())?;
        let known = Arc::clone(&known.value).downcast().expect("it was found by its type");
        is_meant(&known).then_some(known)
    }

    /// Removes the states of these pages.
    fn remove(&mut self, freed: Extent) -> Vec<Vec<State>> {
        let each_page = freed.pages <= self.states.len() as u64 && !planted!("all_residents_compared");
        #[cfg(test)]
        {
            self.looks += if each_page { freed.pages } else { self.states.len() as u64 };
        }
        if each_page {
            return (freed.first..freed.end()).filter_map(|page| self.states.remove(&PageId::new(page))).collect();
        }
        let is_freed = |root: PageId| (freed.first..freed.end()).contains(&root.get());
        self.states.extract_if(|root, _| is_freed(*root)).map(|(_, states)| states).collect()
    }
}

impl Residents {
    /// Returns the state of this type for a root page. `init` makes it if there is none, or none that `is_meant`.
    pub(crate) fn of<T: Send + Sync + 'static>(
        &self,
        root: PageId,
        is_meant: impl Fn(&T) -> bool,
        init: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        self.made_as(root, is_meant, init, |_| None)
    }

    /// As [`of`](Residents::of), for a state that has work for checkpoints.
    pub(crate) fn of_kept<T: Upkeep>(&self, root: PageId, init: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        self.made_as(root, |_| true, init, |made| Some(Arc::<T>::clone(made)))
    }

    /// Returns the states that have work for checkpoints, with their root pages.
    pub(crate) fn kept(&self) -> Vec<(PageId, Arc<dyn Upkeep>)> {
        let residents = self.0.lock();
        let states = residents.states.iter().flat_map(|(root, states)| states.iter().map(|state| (*root, state)));
        states.filter_map(|(root, state)| Some((root, Arc::clone(state.upkeep.as_ref()?)))).collect()
    }

    fn made_as<T: Send + Sync + 'static>(
        &self,
        root: PageId,
        is_meant: impl Fn(&T) -> bool,
        init: impl FnOnce() -> Result<T>,
        upkeep: impl FnOnce(&Arc<T>) -> Option<Arc<dyn Upkeep>>,
    ) -> Result<Arc<T>> {
        let found = self.0.lock().known(root, &is_meant);
        if let Some(resident) = found {
            return Ok(resident);
        }
        // Outside of the mutex, because it may read pages.
        let made = Arc::new(init()?);
        let mut residents = self.0.lock();
        if let Some(resident) = residents.known(root, &is_meant) {
            return Ok(resident);
        }
        let states = residents.states.entry(root).or_default();
        let replaced = states.iter().position(|state| state.value.is::<T>()).map(|at| states.swap_remove(at));
        states.push(State { value: Arc::<T>::clone(&made), upkeep: upkeep(&made) });
        drop(residents);
        drop(replaced); // foreign code, without the mutex
        Ok(made)
    }

    /// Drops the states of pages that were freed. The cost depends on the freed pages, not on the structures in memory.
    pub(crate) fn forget(&self, freed: Extent) {
        let gone = self.0.lock().remove(freed);
        drop(gone); // foreign code, without the mutex
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;

    fn extent(first: u64, pages: u64) -> Extent {
        Extent { first, pages }
    }

    #[test]
    fn freed_pages_are_looked_up_alone() {
        let residents = Residents::default();
        for page in 0..4000 {
            residents.of(PageId::new(page), |_| true, || Ok(page)).unwrap();
        }
        (1000..4000).for_each(|page| residents.forget(extent(page, 1)));
        residents.forget(extent(10_000, 1 << 40));
        let residents = residents.0.lock();
        assert_eq!(residents.states.len(), 1000);
        assert!(residents.looks <= 3000 + 1000, "E7.6: {} looks", residents.looks);
    }

    #[test]
    fn states_have_types_and_are_replaced() {
        let residents = Residents::default();
        let of =
            |root: u64, wanted: u64| *residents.of(PageId::new(root), |known| *known == wanted, || Ok(wanted)).unwrap();
        let name = residents.of(PageId::new(7), |_| true, || Ok("a name")).unwrap();
        assert_eq!((*name, of(7, 1), of(8, 1), of(7, 2)), ("a name", 1, 1, 2));
        let other = residents.of(PageId::new(7), |_| true, || Ok("another one")).unwrap();
        assert_eq!(*other, "a name", "the first one is kept");
        residents.forget(extent(7, 1));
        let other = residents.of(PageId::new(7), |_| true, || Ok("another one")).unwrap();
        assert_eq!((*other, residents.0.lock().states.len()), ("another one", 2));
    }

    /// The state of a structure may have others, and look at them when it is dropped.
    #[test]
    fn states_are_dropped_without_mutex() {
        struct Looks(Arc<Residents>, Arc<Mutex<Vec<bool>>>);
        impl Drop for Looks {
            fn drop(&mut self) {
                self.1.lock().push(self.0.0.try_lock().is_some());
            }
        }
        let (residents, seen) = (Arc::new(Residents::default()), Arc::new(Mutex::new(Vec::new())));
        let looks = || Ok(Looks(Arc::clone(&residents), Arc::clone(&seen)));
        drop(residents.of(PageId::new(7), |_| true, looks).unwrap());
        drop(residents.of(PageId::new(7), |_| false, looks).unwrap());
        residents.forget(extent(7, 1));
        assert_eq!(*seen.lock(), [true, true]);
    }
}
