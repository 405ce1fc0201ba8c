/// Metrics of persistent Java objects and their transactions, for Micrometer.
@SuppressWarnings({"requires-automatic", "requires-transitive-automatic"}) // Micrometer has no descriptor
module cedrat.persist.micrometer {
    requires transitive cedrat.persist;
    requires transitive micrometer.core;

    exports cedrat.persist.micrometer;
}
