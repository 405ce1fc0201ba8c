package cedrat.persist;

import java.util.List;

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
public final class CommitToken {
    private record Place(Persistent store, long place) {}

    private final List<Place> places;

    CommitToken(List<Persistent> stores) {
        places =
                stores.stream().map(store -> new Place(store, store.appended())).toList();
    }

    /// Waits until it is durable.
    public void await() {
        Recorder.get().unrecorded(() -> {
            places.forEach(place -> place.store.awaitDurable(place.place));
            return null;
        });
    }

    /// Whether it is durable, without waiting.
    public boolean isDurable() {
        return Recorder.get()
                .<Boolean>unrecorded(() -> places.stream().allMatch(place -> place.store.isDurable(place.place)));
    }
}
