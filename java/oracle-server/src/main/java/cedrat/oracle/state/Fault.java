package cedrat.oracle.state;

/// Bugs that tests plant, to see that they are found.
enum Fault {
    NONE,
    SKIP_T_MAX,
    FORGET_ABORTED,
    FORGET_KEYS,
    SWEEP_THE_LIVING,
    RESENT_COMMIT_CONFLICTS,
    END_AFTER_PRUNING,
    SWEEP_ONE_NAMESPACE
}
