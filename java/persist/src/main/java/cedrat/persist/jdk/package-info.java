/// What the classes of the JDK do to objects: which of their methods change something, and how that is rolled back.
package cedrat.persist.jdk;
