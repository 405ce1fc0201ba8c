//! Transactional data structures built only with what any user has.
