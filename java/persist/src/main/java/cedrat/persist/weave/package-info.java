/// The agent, and how it weaves barriers into classes.
package cedrat.persist.weave;
