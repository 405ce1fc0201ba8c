package cedrat.persist.isolation;

import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.StoreOptions.Isolation;
import cedrat.persist.isolation.Threads.Lists;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// As [HistoryTest], without explicit locks: reads acquire them, unless the store has a weaker level of isolation.
class LockedReadsHistoryTest {
    @TempDir
    Path folder;

    /// J3.2: while objects are unloaded, loaded, and collected.
    @Test
    void lockedReadsAreStrictlySerialisable() throws Throwable {
        StoreOptions options = new StoreOptions().loadedBytesMax(4_000);
        ListHistory history;
        try (Store persistence = Store.open(folder, options)) {
            persistence.setRoot("lists", new Lists());
            history = Threads.run(persistence.root("lists", Object.class), false);
        }
        try (Store persistence = Store.open(folder, options)) {
            Threads.seeAll(persistence.root("lists", Object.class), history);
        }
        history.write("persistent-reads-lock", "strict-serializable");
    }

    /// J3.2, the planted fault: a store of a weaker level, with the same barriers.
    @Test
    void uncommittedReadsMayBeUnserialisable() throws Exception {
        StoreOptions options = new StoreOptions().isolation(Isolation.READ_UNCOMMITTED);
        try (Store persistence = Store.open(folder, options)) {
            Lists lists = new Lists();
            persistence.setRoot("lists", lists);
            Threads.readWithoutLock(lists, "persistent-reads-do-not-lock");
        }
    }
}
