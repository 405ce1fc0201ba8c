/// An open store: classes and their definitions, loading and unloading of objects, commits and names.
package cedrat.persist.store;
