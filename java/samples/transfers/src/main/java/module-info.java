/// Sample: transfers between accounts in two tables.
module cedrat.samples.transfers {
    requires cedrat.oracle.server;
    requires cedrat.oracle.tables;
    requires info.picocli;

    opens cedrat.samples.transfers to
            info.picocli;
}
