//! A travel agency in a heap: the operations of the clients of STAMP's *vacation*, after its published description (Minh,
//! Chung, Kozyrakis, Olukotun: STAMP, IISWC 2008).
//!
//! Four ordered maps map numbers to cars, flights, rooms and customers, each in a block of its own. A customer has a list
//! of reservations.

use cedrat::heap::{Commit, Handle, Heap, HeapOrderedMap, HeapTx, Interrupt, Memory, Plain};

use crate::random::Random;
use crate::systems::Result;

type Step<T> = std::result::Result<T, Interrupt>;

/// Cars, flights, rooms.
const KINDS: usize = 3;

/// Unit of capacity changes.
const CAPACITY_STEP: u64 = 100;

/// Maximum number of items that one transaction queries.
const QUERIES_MAX: usize = 4;

/// Number of records that one transaction creates or checks, when all are processed.
const AT_ONCE: u64 = 64;

/// Behaviour of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behaviour {
    /// A client queries 1 to this many items (`-n`).
    pub(super) queries: u64,
    /// Percentage of the items of a kind that are ever queried (`-q`).
    pub(super) asked_for: u64,
    /// Percentage of clients that reserve; the others remove customers or change the tables, half of them each (`-u`).
    pub(super) reserve: u64,
}

/// An item that can be reserved.
#[derive(Clone, Copy, Debug, Plain)]
struct Item {
    total: u64,
    reserved: u64,
    price: u64,
}

#[derive(Clone, Copy, Debug, Plain)]
struct Customer {
    reservations: Option<Handle<Reservation>>,
}

#[derive(Clone, Copy, Debug, Plain)]
struct Reservation {
    kind: u64,
    number: u64,
    /// Price at the time of the reservation.
    price: u64,
    next: Option<Handle<Reservation>>,
}

/// An item's kind and its number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wish {
    kind: usize,
    number: u64,
}

/// Operation of a client; drawn before its transaction, which may run more than once.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Reserve {
        customer: u64,
        asked: [Wish; QUERIES_MAX],
        count: usize,
    },
    RemoveCustomer {
        customer: u64,
    },
    /// A price of 0 removes capacity.
    UpdateTables {
        items: [Wish; QUERIES_MAX],
        prices: [u64; QUERIES_MAX],
        count: usize,
    },
}

/// The tables.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    heap: Heap,
    items: [HeapOrderedMap<u64, Handle<Item>>; KINDS],
    customers: HeapOrderedMap<u64, Handle<Customer>>,
    /// Number of items of each kind, and of customers.
    relations: u64,
}

impl Tables {
    /// Returns the size of a heap for them, with the reservations of some minutes.
    pub(super) fn bytes(relations: u64) -> u64 {
        const OF_EACH: u64 = 4 << 10;
        relations * OF_EACH
    }

    /// Creates items, with some capacity each, and customers without reservations, in random order.
    pub(super) fn fill(memory: &Memory, heap: &Heap, relations: u64) -> Result<Tables> {
        let items = ["cars", "flights", "rooms"].map(|name| HeapOrderedMap::open(heap, name));
        let [cars, flights, rooms] = items;
        let tables = Tables {
            heap: heap.clone(),
            items: [cars?, flights?, rooms?],
            customers: HeapOrderedMap::open(heap, "customers")?,
            relations,
        };
        let mut random = Random::new(0);
        let mut session = memory.session()?;
        for kind in 0..KINDS {
            for numbers in shuffled(relations, &mut random).chunks(AT_ONCE as usize) {
                let drawn: Vec<Item> = numbers.iter().map(|_| new_item(&mut random)).collect();
                session.run(Commit::Async, |tx| {
                    for (&number, &item) in numbers.iter().zip(&drawn) {
                        tables.add_item(&mut tx.on(heap), Wish { kind, number }, item)?;
                    }
                    Ok(())
                })?;
            }
        }
        for numbers in shuffled(relations, &mut random).chunks(AT_ONCE as usize) {
            session.run(Commit::Async, |tx| {
                numbers.iter().try_for_each(|&number| tables.add_customer(&mut tx.on(heap), number).map(drop))
            })?;
        }
        Ok(tables)
    }

    fn item(&self, tx: &mut HeapTx<'_, '_>, wish: Wish) -> Step<Option<Handle<Item>>> {
        self.items[wish.kind].get(tx, &wish.number)
    }

    fn add_item(&self, tx: &mut HeapTx<'_, '_>, wish: Wish, item: Item) -> Step<()> {
        let item = tx.create(item)?;
        self.items[wish.kind].insert(tx, wish.number, item).map(drop)
    }

    fn add_customer(&self, tx: &mut HeapTx<'_, '_>, number: u64) -> Step<Handle<Customer>> {
        let customer = tx.create(Customer { reservations: None })?;
        self.customers.insert(tx, number, customer)?;
        Ok(customer)
    }

    /// Draws the operation of the next client.
    pub(super) fn draw(&self, random: &mut Random, behaviour: Behaviour) -> Action {
        let asked_for = (self.relations * behaviour.asked_for / 100).max(1);
        let roll = random.below(200);
        let customer = random.below(asked_for);
        let count = 1 + random.below(behaviour.queries) as usize;
        let mut items = [Wish::default(); QUERIES_MAX];
        let mut prices = [0; QUERIES_MAX];
        for place in 0..count {
            items[place] = Wish { kind: random.below(KINDS as u64) as usize, number: random.below(asked_for) };
            prices[place] = if random.below(2) == 0 { 0 } else { price(random) };
        }
        match roll {
            roll if roll < 2 * behaviour.reserve => Action::Reserve { customer, asked: items, count },
            roll if roll < 100 + behaviour.reserve => Action::RemoveCustomer { customer },
            _ => Action::UpdateTables { items, prices, count },
        }
    }

    /// Runs one client's transaction.
    #[inline]
    pub(super) fn perform(&self, tx: &mut HeapTx<'_, '_>, action: &Action) -> Step<()> {
        match action {
            Action::Reserve { customer, asked, count } => self.reserve(tx, *customer, &asked[..*count]),
            Action::RemoveCustomer { customer } => self.remove_customer(tx, *customer).map(drop),
            Action::UpdateTables { items, prices, count } => {
                items[..*count].iter().zip(prices).try_for_each(|(item, &price)| self.update(tx, *item, price))
            }
        }
    }

    /// Reserves, of each queried kind, the available item with the highest price.
    fn reserve(&self, tx: &mut HeapTx<'_, '_>, customer: u64, asked: &[Wish]) -> Step<()> {
        let mut best: [Option<(u64, u64, Handle<Item>)>; KINDS] = [None; KINDS];
        for &wish in asked {
            let Some(handle) = self.item(tx, wish)? else { continue };
            let item = tx.get(handle)?;
            let of_kind = &mut best[wish.kind];
            if item.reserved < item.total && of_kind.is_none_or(|(dearest, ..)| item.price > dearest) {
                *of_kind = Some((item.price, wish.number, handle));
            }
        }
        if best.iter().all(Option::is_none) {
            return Ok(());
        }
        let customer = match self.customers.get(tx, &customer)? {
            Some(known) => known,
            None => self.add_customer(tx, customer)?,
        };
        for (kind, best) in (0..).zip(best) {
            let Some((price, number, item)) = best else { continue };
            tx.update(item.reserved(), |reserved| *reserved += 1)?;
            let next = tx.get(customer.reservations())?;
            let reservation = tx.create(Reservation { kind, number, price, next })?;
            tx.set(customer.reservations(), Some(reservation))?;
        }
        Ok(())
    }

    /// Bills a customer, releases the customer's reservations, and removes the customer. Returns the bill.
    fn remove_customer(&self, tx: &mut HeapTx<'_, '_>, number: u64) -> Step<u64> {
        let Some(customer) = self.customers.remove(tx, &number)? else { return Ok(0) };
        let mut bill = 0;
        let mut next = tx.get(customer.reservations())?;
        while let Some(handle) = next {
            let reservation = tx.get(handle)?;
            bill += reservation.price;
            let wish = Wish { kind: reservation.kind as usize, number: reservation.number };
            if let Some(item) = self.item(tx, wish)? {
                // The check finds a count below zero.
                tx.update(item.reserved(), |reserved| *reserved = reserved.wrapping_sub(1))?;
            }
            next = reservation.next;
            tx.delete(handle)?;
        }
        tx.delete(customer)?;
        Ok(bill)
    }

    /// Adds capacity at a new price; or removes available capacity. An item without capacity is removed.
    fn update(&self, tx: &mut HeapTx<'_, '_>, wish: Wish, price: u64) -> Step<()> {
        let Some(handle) = self.item(tx, wish)? else {
            let item = Item { total: CAPACITY_STEP, reserved: 0, price };
            return if price > 0 { self.add_item(tx, wish, item) } else { Ok(()) };
        };
        let item = tx.get(handle)?;
        if price > 0 {
            return tx.set(handle, Item { total: item.total + CAPACITY_STEP, price, ..item });
        }
        match item.total - item.reserved {
            CAPACITY_STEP if item.reserved == 0 => {
                self.items[wish.kind].remove(tx, &wish.number)?;
                tx.delete(handle)
            }
            free if free >= CAPACITY_STEP => tx.set(handle.total(), item.total - CAPACITY_STEP),
            _ => Ok(()),
        }
    }

    /// Returns an error unless the reservations of customers match those of the items, and no item is overbooked.
    pub(super) fn check(&self, memory: &Memory) -> Result<()> {
        let mut held = vec![0_u64; KINDS * self.relations as usize];
        let mut session = memory.session()?;
        for first in (0..self.relations).step_by(AT_ONCE as usize) {
            let found = session.run(Commit::Async, |tx| {
                let mut tx = tx.on(&self.heap);
                let mut found = Vec::new();
                for (_, customer) in self.customers.range(&mut tx, first..first + AT_ONCE)? {
                    let mut next = tx.get(customer.reservations())?;
                    while let Some(handle) = next {
                        let reservation = tx.get(handle)?;
                        found.push(Wish { kind: reservation.kind as usize, number: reservation.number });
                        next = reservation.next;
                    }
                }
                Ok(found)
            })?;
            found.value.iter().for_each(|wish| held[self.place(*wish)] += 1);
        }
        for kind in 0..KINDS {
            for first in (0..self.relations).step_by(AT_ONCE as usize) {
                let items = session.run(Commit::Async, |tx| {
                    let mut tx = tx.on(&self.heap);
                    let found = self.items[kind].range(&mut tx, first..first + AT_ONCE)?;
                    found.into_iter().map(|(number, item)| Ok((number, tx.get(item)?))).collect::<Step<Vec<_>>>()
                })?;
                for (number, item) in items.value {
                    let held = std::mem::take(&mut held[self.place(Wish { kind, number })]);
                    let Item { total, reserved, .. } = item;
                    if reserved != held || reserved > total {
                        let what = format!("item {number} of kind {kind}");
                        return Err(format!("{what}: {reserved} of {total} reserved, customers hold {held}").into());
                    }
                }
            }
        }
        match held.iter().position(|&held| held > 0) {
            Some(place) => Err(format!("customers hold reservations of place {place}, where nothing is").into()),
            None => Ok(()),
        }
    }

    fn place(&self, wish: Wish) -> usize {
        wish.kind * self.relations as usize + wish.number as usize
    }
}

fn new_item(random: &mut Random) -> Item {
    Item { total: CAPACITY_STEP * (1 + random.below(5)), reserved: 0, price: price(random) }
}

fn price(random: &mut Random) -> u64 {
    50 + 10 * random.below(5)
}

/// Returns all numbers below `count`, shuffled.
fn shuffled(count: u64, random: &mut Random) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, random.below(at as u64 + 1) as usize);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat::heap::{HeapOptions, MemoryOptions};

    const RELATIONS: u64 = 10;
    const BEHAVIOUR: Behaviour = Behaviour { queries: 4, asked_for: 60, reserve: 60 };

    fn tables() -> (Memory, Tables) {
        let memory = Memory::volatile(MemoryOptions::small()).unwrap();
        let heap = memory.create_heap("agency", &HeapOptions::new(4 << 20)).unwrap();
        let tables = Tables::fill(&memory, &heap, RELATIONS).unwrap();
        (memory, tables)
    }

    #[test]
    fn clients_leave_tables_that_add_up() {
        let (memory, tables) = tables();
        tables.check(&memory).unwrap();
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (memory, tables) = (&memory, &tables);
                scope.spawn(move || {
                    let (mut session, mut random) = (memory.session().unwrap(), Random::new(number));
                    for _ in 0..5_000 {
                        let action = tables.draw(&mut random, BEHAVIOUR);
                        session.run(Commit::Async, |tx| tables.perform(&mut tx.on(&tables.heap), &action)).unwrap();
                    }
                });
            }
        });
        tables.check(&memory).unwrap();
    }

    #[test]
    fn reservation_without_holder_is_noticed() {
        let (memory, tables) = tables();
        let work = |tx: &mut HeapTx<'_, '_>| {
            let item = tables.item(tx, Wish { kind: 1, number: 3 })?.expect("it was made");
            tx.set(item.reserved(), 1)
        };
        tables.heap.transaction(work).unwrap();
        assert!(tables.check(&memory).is_err());
    }

    #[test]
    fn capacity_below_what_is_reserved_is_noticed() {
        let (memory, tables) = tables();
        let wish = Wish { kind: 0, number: 0 };
        tables.heap.transaction(|tx| tables.reserve(tx, 5, &[wish])).unwrap();
        tables.check(&memory).unwrap();
        let work = |tx: &mut HeapTx<'_, '_>| {
            let item = tables.item(tx, wish)?.expect("it was made");
            tx.set(item.total(), 0)
        };
        tables.heap.transaction(work).unwrap();
        assert!(tables.check(&memory).is_err());
    }

    #[test]
    fn missing_held_item_is_noticed() {
        let (memory, tables) = tables();
        let wish = Wish { kind: 2, number: 4 };
        tables.heap.transaction(|tx| tables.reserve(tx, 5, &[wish])).unwrap();
        tables.heap.transaction(|tx| tables.items[2].remove(tx, &4)).unwrap();
        assert!(tables.check(&memory).is_err());
    }

    #[test]
    fn bill_is_sum_of_reserved_prices() {
        let (memory, tables) = tables();
        let wishes = [Wish { kind: 0, number: 1 }, Wish { kind: 2, number: 9 }];
        let prices = wishes.map(|wish| {
            let price = |tx: &mut HeapTx<'_, '_>| {
                let item = tables.item(tx, wish)?.expect("it was made");
                tx.get(item.price())
            };
            tables.heap.transaction(price).unwrap()
        });
        tables.heap.transaction(|tx| tables.reserve(tx, 5, &wishes)).unwrap();
        let bill = tables.heap.transaction(|tx| tables.remove_customer(tx, 5)).unwrap();
        assert_eq!(bill, prices.iter().sum::<u64>());
        tables.check(&memory).unwrap();
    }

    /// Capacity drops to zero and is added again.
    #[test]
    fn item_without_capacity_is_removed_and_restored() {
        let (memory, tables) = tables();
        let wish = Wish { kind: 1, number: 7 };
        for _ in 0..6 {
            tables.heap.transaction(|tx| tables.update(tx, wish, 0)).unwrap();
        }
        assert!(tables.heap.transaction(|tx| tables.item(tx, wish)).unwrap().is_none());
        tables.heap.transaction(|tx| tables.update(tx, wish, 60)).unwrap();
        assert!(tables.heap.transaction(|tx| tables.item(tx, wish)).unwrap().is_some());
        tables.check(&memory).unwrap();
    }
}
