/// Goals of the Maven plugin.
package cedrat.maven;
