package cedrat.oracle.bench;

/// Where a measurement is: ahead only.
enum Phase {
    /// Many transactions at a time, so that what runs is compiled.
    WARM_UP,
    /// As many as are wanted, and nothing counts yet.
    SETTLING,
    /// Answers are counted.
    MEASURING,
    /// No transaction begins any more.
    ENDING
}
