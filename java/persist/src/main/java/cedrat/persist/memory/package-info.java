/// Access to fields and elements by their places: what the language does not let a program read or write.
package cedrat.persist.memory;
