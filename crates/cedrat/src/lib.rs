//! Transactions as a library: the front door.
