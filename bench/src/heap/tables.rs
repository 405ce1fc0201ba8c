//! A travel agency in words of a heap: what clients of STAMP's *vacation* do, after its published description (Minh,
//! Chung, Kozyrakis, Olukotun: STAMP, IISWC 2008).
//!
//! There are cars, flights and rooms to reserve, and customers who reserve. Each has a number, and its record lies where
//! its number says: looking one up is one address instead of a walk through a tree, so transactions are shorter here than
//! where the tables are trees.
//!
//! ```text
//! item       total   reserved   price   -
//! customer   0, or 1 + how many reservations   reservation …   (127 of them have room)
//! reservation = price << 48 | kind << 40 | number of the item
//! ```

use cedrat::heap::{Commit, Heap, Interrupt, Memory, Tx};

use crate::random::Random;
use crate::systems::Result;

type Step<T> = std::result::Result<T, Interrupt>;

/// Cars, flights, rooms.
const KINDS: u64 = 3;

const ITEM_WORDS: u64 = 4;
const CUSTOMER_WORDS: u64 = 128;
const RESERVATIONS_MAX: u64 = CUSTOMER_WORDS - 1;

/// Capacity comes and goes in such steps.
const CAPACITY_STEP: u64 = 100;

/// The most items that one transaction looks at.
const QUERIES_MAX: usize = 4;

/// Records that one transaction fills or checks, where all of them are.
const AT_ONCE: u64 = 256;

/// How clients behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behaviour {
    /// A client looks at 1 to so many items (`-n`).
    pub(super) queries: u64,
    /// Of a hundred items of a kind only so many are ever asked for (`-q`).
    pub(super) asked_for: u64,
    /// Of a hundred clients so many reserve; the others remove customers and change the tables, half of each (`-u`).
    pub(super) reserve: u64,
}

/// An item: its kind, and its number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Item {
    kind: u64,
    number: u64,
}

/// What a client is going to do; drawn before its transaction, which may run more than once.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Reserve {
        customer: u64,
        asked: [Item; QUERIES_MAX],
        count: usize,
    },
    RemoveCustomer {
        customer: u64,
    },
    /// A price of 0 takes capacity away.
    UpdateTables {
        items: [Item; QUERIES_MAX],
        prices: [u64; QUERIES_MAX],
        count: usize,
    },
}

/// The tables.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    heap: Heap,
    /// Of each kind of items, and of customers.
    relations: u64,
}

impl Tables {
    /// How large a heap they need.
    pub(super) fn bytes(relations: u64) -> u64 {
        relations * (KINDS * ITEM_WORDS + CUSTOMER_WORDS) * 8
    }

    /// Makes items, with some capacity each, and no customers.
    pub(super) fn fill(memory: &Memory, heap: &Heap, relations: u64) -> Result<Tables> {
        let tables = Tables { heap: heap.clone(), relations };
        let mut random = Random::new(0);
        let mut session = memory.session()?;
        for kind in 0..KINDS {
            for first in (0..relations).step_by(AT_ONCE as usize) {
                let numbers = first..relations.min(first + AT_ONCE);
                let drawn: Vec<(u64, u64)> =
                    numbers.clone().map(|_| (1 + random.below(5), price(&mut random))).collect();
                session.run(Commit::Async, |tx| {
                    for (number, &(steps, price)) in numbers.clone().zip(&drawn) {
                        tables.set_item(tx, Item { kind, number }, steps * CAPACITY_STEP, 0, price)?;
                    }
                    Ok(())
                })?;
            }
        }
        // Whatever the heap held before: there are no customers.
        for customer in 0..relations {
            session.run(Commit::Async, |tx| tx.write(&tables.heap, tables.customer(customer), 0))?;
        }
        Ok(tables)
    }

    fn item(&self, item: Item) -> u64 {
        (item.kind * self.relations + item.number) * ITEM_WORDS * 8
    }

    fn customer(&self, number: u64) -> u64 {
        (KINDS * self.relations * ITEM_WORDS + number * CUSTOMER_WORDS) * 8
    }

    fn set_item(&self, tx: &mut Tx<'_>, item: Item, total: u64, reserved: u64, price: u64) -> Step<()> {
        let at = self.item(item);
        tx.write(&self.heap, at, total)?;
        tx.write(&self.heap, at + 8, reserved)?;
        tx.write(&self.heap, at + 16, price)
    }

    /// Draws what the next client does.
    pub(super) fn draw(&self, random: &mut Random, behaviour: Behaviour) -> Action {
        let asked_for = (self.relations * behaviour.asked_for / 100).max(1);
        let roll = random.below(200);
        let customer = random.below(asked_for);
        let count = 1 + random.below(behaviour.queries) as usize;
        let mut items = [Item::default(); QUERIES_MAX];
        let mut prices = [0; QUERIES_MAX];
        for place in 0..count {
            items[place] = Item { kind: random.below(KINDS), number: random.below(asked_for) };
            prices[place] = if random.below(2) == 0 { 0 } else { price(random) };
        }
        match roll {
            roll if roll < 2 * behaviour.reserve => Action::Reserve { customer, asked: items, count },
            roll if roll < 100 + behaviour.reserve => Action::RemoveCustomer { customer },
            _ => Action::UpdateTables { items, prices, count },
        }
    }

    /// One client's transaction.
    #[inline]
    pub(super) fn perform(&self, tx: &mut Tx<'_>, action: &Action) -> Step<()> {
        match action {
            Action::Reserve { customer, asked, count } => self.reserve(tx, *customer, &asked[..*count]),
            Action::RemoveCustomer { customer } => self.remove_customer(tx, *customer).map(drop),
            Action::UpdateTables { items, prices, count } => {
                items[..*count].iter().zip(prices).try_for_each(|(item, &price)| self.update(tx, *item, price))
            }
        }
    }

    /// Reserves, of each kind that was asked for, the item with the highest price that is free.
    fn reserve(&self, tx: &mut Tx<'_>, customer: u64, asked: &[Item]) -> Step<()> {
        let mut best: [Option<(u64, Item)>; KINDS as usize] = [None; KINDS as usize];
        for &item in asked {
            let at = self.item(item);
            let free = tx.read(&self.heap, at + 8)? < tx.read(&self.heap, at)?;
            let price = tx.read(&self.heap, at + 16)?;
            let of_kind = &mut best[item.kind as usize];
            if free && of_kind.is_none_or(|(dearest, _)| price > dearest) {
                *of_kind = Some((price, item));
            }
        }
        best.into_iter().flatten().try_for_each(|(price, item)| self.reserve_one(tx, customer, item, price))
    }

    fn reserve_one(&self, tx: &mut Tx<'_>, customer: u64, item: Item, price: u64) -> Step<()> {
        let list = self.customer(customer);
        let count = tx.read(&self.heap, list)?.saturating_sub(1);
        if count == RESERVATIONS_MAX {
            return Ok(()); // no room in the customer's list
        }
        let at = self.item(item);
        let reserved = tx.read(&self.heap, at + 8)?;
        tx.write(&self.heap, at + 8, reserved + 1)?;
        tx.write(&self.heap, list + (1 + count) * 8, price << 48 | item.kind << 40 | item.number)?;
        tx.write(&self.heap, list, 1 + count + 1)
    }

    /// Bills a customer, releases what was reserved, and forgets the customer. Returns the bill.
    fn remove_customer(&self, tx: &mut Tx<'_>, customer: u64) -> Step<u64> {
        let list = self.customer(customer);
        let head = tx.read(&self.heap, list)?;
        let mut bill = 0;
        for place in 1..head.max(1) {
            let (price, item) = unpack(tx.read(&self.heap, list + place * 8)?);
            bill += price;
            let at = self.item(item) + 8;
            let reserved = tx.read(&self.heap, at)?;
            tx.write(&self.heap, at, reserved.wrapping_sub(1))?; // what goes below nothing is found by the check
        }
        if head > 0 {
            tx.write(&self.heap, list, 0)?;
        }
        Ok(bill)
    }

    /// Adds capacity at a new price; or takes some away, as far as it is free.
    fn update(&self, tx: &mut Tx<'_>, item: Item, price: u64) -> Step<()> {
        let at = self.item(item);
        let total = tx.read(&self.heap, at)?;
        if price > 0 {
            tx.write(&self.heap, at, total + CAPACITY_STEP)?;
            return tx.write(&self.heap, at + 16, price);
        }
        let free = total - tx.read(&self.heap, at + 8)?;
        if free >= CAPACITY_STEP {
            tx.write(&self.heap, at, total - CAPACITY_STEP)?;
        }
        Ok(())
    }

    /// Complains unless what customers have reserved is what items say is reserved, and none has more than there is.
    pub(super) fn check(&self, memory: &Memory) -> Result<()> {
        let mut held = vec![0_u64; (KINDS * self.relations) as usize];
        let mut session = memory.session()?;
        for customer in 0..self.relations {
            let list = session.run(Commit::Async, |tx| {
                let at = self.customer(customer);
                let head = tx.read(&self.heap, at)?;
                (1..head.max(1)).map(|place| tx.read(&self.heap, at + place * 8)).collect::<Step<Vec<u64>>>()
            })?;
            for reservation in list.value {
                let (_, item) = unpack(reservation);
                held[(item.kind * self.relations + item.number) as usize] += 1;
            }
        }
        for (place, held) in (0..).zip(held) {
            let at = place * ITEM_WORDS * 8;
            let words =
                session.run(Commit::Async, |tx| Ok((tx.read(&self.heap, at)?, tx.read(&self.heap, at + 8)?)))?;
            let (total, reserved) = words.value;
            if reserved != held || reserved > total {
                return Err(format!("item {place}: {reserved} of {total} reserved, customers hold {held}").into());
            }
        }
        Ok(())
    }
}

fn price(random: &mut Random) -> u64 {
    50 + 10 * random.below(50)
}

fn unpack(reservation: u64) -> (u64, Item) {
    (reservation >> 48, Item { kind: reservation >> 40 & 0xff, number: reservation & 0xff_ffff_ffff })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat::heap::{HeapOptions, MemoryOptions};

    const RELATIONS: u64 = 10;
    const BEHAVIOUR: Behaviour = Behaviour { queries: 4, asked_for: 60, reserve: 60 };

    fn tables() -> (Memory, Tables) {
        let memory = Memory::volatile(MemoryOptions::small()).unwrap();
        let heap = memory.create_heap("words", &HeapOptions::raw(Tables::bytes(RELATIONS))).unwrap();
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
                        session.run(Commit::Async, |tx| tables.perform(tx, &action)).unwrap();
                    }
                });
            }
        });
        tables.check(&memory).unwrap();
    }

    #[test]
    fn a_reservation_that_nobody_holds_is_noticed() {
        let (memory, tables) = tables();
        let at = tables.item(Item { kind: 1, number: 3 }) + 8;
        memory.run(Commit::Async, |tx| tx.write(&tables.heap, at, 1)).unwrap();
        assert!(tables.check(&memory).is_err());
    }

    #[test]
    fn capacity_below_what_is_reserved_is_noticed() {
        let (memory, tables) = tables();
        let item = Item { kind: 0, number: 0 };
        memory.run(Commit::Async, |tx| tables.reserve(tx, 5, &[item])).unwrap();
        tables.check(&memory).unwrap();
        memory.run(Commit::Async, |tx| tx.write(&tables.heap, tables.item(item), 0)).unwrap();
        assert!(tables.check(&memory).is_err());
    }

    #[test]
    fn a_bill_is_the_sum_of_what_was_reserved() {
        let (memory, tables) = tables();
        let items = [Item { kind: 0, number: 1 }, Item { kind: 2, number: 9 }];
        let prices = items.map(|item| memory.run(Commit::Async, |tx| tx.read(&tables.heap, tables.item(item) + 16)));
        let wanted: u64 = prices.into_iter().map(|price| price.unwrap().value).sum();
        memory.run(Commit::Async, |tx| tables.reserve(tx, 5, &items)).unwrap();
        let bill = memory.run(Commit::Async, |tx| tables.remove_customer(tx, 5)).unwrap();
        assert_eq!(bill.value, wanted);
        tables.check(&memory).unwrap();
    }
}
