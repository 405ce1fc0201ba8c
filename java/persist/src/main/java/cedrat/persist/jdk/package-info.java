/// Effects of the JDK's classes on objects: which of their methods change something, and how that is rolled back.
package cedrat.persist.jdk;
