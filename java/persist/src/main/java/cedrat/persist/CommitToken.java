package cedrat.persist;

/// A commit that may not be durable yet: what it has changed is seen by others, and a crash may lose it, as a
/// whole, and only together with all that was committed after it.
///
/// ```java
/// CommitToken token = transaction.commit(Durability.ASYNC);
/// // … other work
/// token.await();
/// ```
///
/// It stands for what the transaction has read, too, as far as it has locked that.
///
/// **Threads:** any. **Again:** yes. **Failure:** [PersistenceException] if a sync has failed: whether the commit
/// is there is known when the store is opened again; [IllegalStateException] if the store was closed without it
/// being known.
public interface CommitToken {
    /// Waits until it is durable.
    void await();

    /// Whether it is durable, without waiting.
    boolean isDurable();
}
