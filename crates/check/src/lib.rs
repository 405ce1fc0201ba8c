//! Crash-state checking for operations and structures.
