//! `libcedrat`: heaps and graphs of objects, and their transactions, for C programs. `include/cedrat.h` is its documentation, and
//! `include/cedrat_stm.h` turns it into the macros of a word-based STM.
//!
//! 1. `status`, `options`: values that cross the interface;
//! 2. `opened`: an open store, its heaps, and blocks filled before the threads start;
//! 3. `thread`: a thread's descriptor, and the conversion of addresses to offsets in heaps;
//! 4. `exit`: the end of a thread that has a descriptor;
//! 5. `alone`: an open log without a store;
//! 6. `border`, `copies`, `words`, `prepared`, `graphs`, `changes`, `logs`: the C functions. Nothing unwinds through them.

#![deny(unsafe_code)]

mod alone;
#[allow(unsafe_code)] // its reasons are numbered there
mod border;
#[allow(unsafe_code)]
mod changes;
#[allow(unsafe_code)]
mod copies;
#[allow(unsafe_code)]
mod exit;
#[allow(unsafe_code)]
mod faces;
mod freed;
#[allow(unsafe_code)]
mod graphs;
#[allow(unsafe_code)]
mod logs;
mod opened;
#[allow(unsafe_code)]
mod options;
#[allow(unsafe_code)]
mod prepared;
mod status;
mod thread;
#[allow(unsafe_code)]
mod words;
