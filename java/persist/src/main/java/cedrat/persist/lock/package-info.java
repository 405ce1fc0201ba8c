/// Locks of objects, and the detection of deadlocks through them and through monitors.
package cedrat.persist.lock;
