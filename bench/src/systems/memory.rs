//! A plain hash map in memory, without guarantees: the ceiling of `load`.

use std::sync::{PoisonError, RwLock};

use hashbrown::HashMap;

use super::{Result, Session, System, wrong_answer};
use crate::keys::{Keys, Picks, value};

#[derive(Default)]
pub(super) struct Memory {
    map: RwLock<HashMap<u64, u64>>,
}

impl System for Memory {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn log_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

impl Session for &Memory {
    fn insert_durably(&mut self, _: u64) -> Result<()> {
        Err("a map in memory has nothing durable".into())
    }

    fn load(&mut self, keys: Keys) -> Result<()> {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.extend(keys.map(|key| (key, value(key))));
        Ok(())
    }

    fn get_all(&mut self, keys: Picks) -> Result<()> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            let found = map.get(&key).copied();
            if found != Some(value(key)) {
                return Err(wrong_answer(key, found));
            }
        }
        Ok(())
    }
}
