/// Transactions over tables that keep versions (ReTSO, §2.2). Where the tables live is behind one interface.
module cedrat.oracle.tables {
    requires transitive cedrat.oracle.client;

    exports cedrat.oracle.tables;
}
