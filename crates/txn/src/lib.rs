//! Operations, transactions, nested top actions, locks, recovery.
