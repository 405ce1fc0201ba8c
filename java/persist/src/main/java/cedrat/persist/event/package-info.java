/// Events for the Flight Recorder of the JVM: how long commits, waits, loads and collections take.
package cedrat.persist.event;
