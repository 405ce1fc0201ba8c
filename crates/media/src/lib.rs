//! Bytes that may be lost: the real disk and a simulated one with faults.
