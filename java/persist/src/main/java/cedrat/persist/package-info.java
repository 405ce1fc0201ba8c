/// Transactions over ordinary Java objects, which are persistent once something with a name leads to them.
///
/// A program that was started with this library as its agent opens a store ([Store]), names a root in it, and
/// changes objects in transactions ([Transaction]), in which it may lock them ([RwLock]). After a
/// [DeadlockException] the transaction is run again; a [StoreException] says what cannot be stored, and which
/// references lead there. All else is called by woven code, or by the libraries that keep the objects
/// ([GraphStore]).
///
/// Programs use this package only; the others are the implementation, and may change.
///
/// The design is that of "Transactions for Java", with other means.
package cedrat.persist;
