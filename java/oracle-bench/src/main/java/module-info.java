/// Figures of the status oracle.
module cedrat.oracle.bench {
    requires cedrat.oracle.state;
    requires info.picocli;

    opens cedrat.oracle.bench to
            info.picocli;
}
