/// Transactions over ordinary Java objects.
///
/// Programs use the package `cedrat.persist`; the others are the implementation. The agent works on the class
/// path, where it belongs to no module, and on the module path.
module cedrat.persist {
    // On the boot class path when a program runs: the agent makes this module read it.
    requires static cedrat.persist.boot;
    requires java.instrument;
    requires java.management;
    requires jdk.jfr;
    requires transitive java.transaction.xa;

    exports cedrat.persist;
    // The virtual machine starts the agent.
    exports cedrat.persist.weave to
            java.instrument;

    uses cedrat.persist.Store.Provider;
}
