/// Tests whose own classes are woven. The agent weaves no package of the library, so these tests are in
/// packages that mirror those of the library: `woven.store` tests `store`.
package cedrat.persist.woven;
