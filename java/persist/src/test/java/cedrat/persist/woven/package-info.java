/// Tests whose own classes are woven. The agent weaves no package of the library, so these lie in packages
/// beside them, which mirror those of the library: `woven.store` tests `store`.
package cedrat.persist.woven;
