/// Transactions in memory: the handler of the barriers, the undo log, and how transactions begin and end.
package cedrat.persist.record;
