/// Log of the status oracle: the format of its entries, which hold decisions, and the interface of its store.
module cedrat.oracle.log {
    requires transitive cedrat.oracle.state;

    exports cedrat.oracle.log;
}
