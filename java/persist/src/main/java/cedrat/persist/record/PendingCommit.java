package cedrat.persist.record;

import cedrat.persist.CommitToken;
import java.util.List;

/// A commit that may not be durable yet, by the stores to wait for.
///
/// **Threads:** any.
final class PendingCommit implements CommitToken {
    private record Place(Persistent store, long place) {}

    private final List<Place> places;

    PendingCommit(List<Persistent> stores) {
        places =
                stores.stream().map(store -> new Place(store, store.appended())).toList();
    }

    @Override
    public void await() {
        Recorder.get().unrecorded(() -> {
            places.forEach(place -> place.store.awaitDurable(place.place));
            return null;
        });
    }

    @Override
    public boolean isDurable() {
        return Recorder.get()
                .<Boolean>unrecorded(() -> places.stream().allMatch(place -> place.store.isDurable(place.place)));
    }
}
