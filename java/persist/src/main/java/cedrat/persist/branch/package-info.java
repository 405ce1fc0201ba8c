/// Branches of transactions over several stores (XA), by `javax.transaction.xa`.
package cedrat.persist.branch;
