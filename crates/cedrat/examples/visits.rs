//! Counts its runs in a durable store: the first example of the README.

use cedrat::prelude::*;

fn main() -> Result<()> {
    let store = cedrat::open("shop.db")?; // runs recovery
    let visits = store.transact(|txn| {
        let counters = HashTable::<String, u64>::open_or_create(txn, "counters")?;
        let visits = counters.get(txn, "visits")?.unwrap_or(0) + 1;
        counters.insert(txn, "visits", &visits)?;
        Ok(visits)
    })?; // the new count is durable
    println!("visit {visits}");
    Ok(())
}
