/// The status oracle's decisions (ReTSO): a deterministic state machine without I/O, threads or a clock.
module cedrat.oracle.state {
    exports cedrat.oracle.state;
}
