//! `derive(Plain)` in a program that depends on `cedrat` alone.

use cedrat::heap::{HeapOptions, Memory, MemoryOptions, Plain};

#[derive(Clone, Debug, PartialEq, Plain)]
struct Account {
    owner: u64,
    balance: i64,
}

#[test]
fn derived_values_need_no_attribute() {
    let memory = Memory::volatile(MemoryOptions::small()).unwrap();
    let heap = memory.create_heap("bank", &HeapOptions::new(1 << 20)).unwrap();
    let account = heap.transaction(|tx| tx.create(Account { owner: 7, balance: 100 })).unwrap();
    heap.transaction(|tx| tx.update(account.balance(), |balance| *balance -= 30)).unwrap();
    assert_eq!(heap.transaction(|tx| tx.get(account)).unwrap(), Account { owner: 7, balance: 70 });
}
