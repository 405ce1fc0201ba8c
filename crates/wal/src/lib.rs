//! The write-ahead log: one dense clock, partitions, group commit.
