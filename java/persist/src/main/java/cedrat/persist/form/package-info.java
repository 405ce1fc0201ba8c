/// The forms of classes of the JDK in the store: values, collections, wrappers and lambdas.
package cedrat.persist.form;
