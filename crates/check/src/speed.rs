//! Advice to let the compiler optimise.

/// Prints a warning on the standard error stream if a check runs without optimisation.
pub(crate) fn advise(check: &str) {
    if let Some(advice) = advice(env!("CEDRAT_CHECK_OPT_LEVEL")) {
        eprintln!("{check}: {advice}");
    }
}

/// Prints advice on the standard error stream if the operating system schedules the threads of a workload.
pub(crate) fn advise_scheduler(check: &str) {
    eprintln!(
        "{check}: the operating system has scheduled the threads of the workload, once; the feature `scheduler` of the crate \
         cedrat tries several schedules, each of which its seed repeats (see docs/use/checking.md)"
    );
}

/// Returns the advice for a build at this level of optimisation.
fn advice(level: &str) -> Option<&'static str> {
    (level == "0").then_some(
        "this check runs without optimisation and takes about ten times as long; put into Cargo.toml: \
         [profile.dev.package.\"*\"] opt-level = 2 (see docs/use/checking.md)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unoptimised_build_is_advised() {
        assert!(advice("0").is_some_and(|advice| advice.contains("opt-level = 2")));
        assert_eq!(advice("2"), None);
    }
}
