/// Analysis of the instructions of a method: values of its locals and of its stack.
package cedrat.persist.weave.code;
