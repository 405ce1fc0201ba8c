/// What the status oracle's log keeps: decisions in entries, byte by byte; and where it keeps them.
module cedrat.oracle.log {
    requires transitive cedrat.oracle.state;

    exports cedrat.oracle.log;
}
