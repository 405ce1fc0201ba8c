/// Bytes of objects in the store: references, shapes of classes, layouts of fields, and patches of what has changed.
package cedrat.persist.codec;
