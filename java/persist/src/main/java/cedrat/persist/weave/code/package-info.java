/// What the instructions of a method do to its locals and its stack.
package cedrat.persist.weave.code;
