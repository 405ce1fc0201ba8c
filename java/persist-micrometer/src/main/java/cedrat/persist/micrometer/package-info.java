/// Metrics of persistent Java objects and their transactions, for Micrometer.
package cedrat.persist.micrometer;
