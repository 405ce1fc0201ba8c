//! Planted faults: deliberate bugs, which show that a test catches them.
//!
//! A fault point is one line, `planted!("name")`, at the code that upholds an invariant. It is `false`, and compiles
//! to nothing, unless this crate is built with the feature `planted`, which no crate enables. `./x test` builds the
//! tests with the feature and runs them without a fault; then it plants the fault of each row of `tests/planted.txt`
//! in turn.

/// Whether the fault of this name is planted: the branch that it guards breaks an invariant on purpose.
#[macro_export]
macro_rules! planted {
    ($fault:literal) => {
        $crate::is_planted($fault)
    };
}

/// Whether this fault is planted; see [`planted!`](crate::planted).
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is_planted(_fault: &str) -> bool {
    false
}

/// Whether this fault is planted: the environment variable `CEDRAT_PLANTED` names it.
#[cfg(feature = "planted")]
pub fn is_planted(fault: &str) -> bool {
    // One for the process, which runs one test with one fault and ends.
    static SELECTED: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("CEDRAT_PLANTED").ok());
    SELECTED.as_deref() == Some(fault)
}
