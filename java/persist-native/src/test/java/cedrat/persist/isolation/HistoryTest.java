package cedrat.persist.isolation;

import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.StoreOptions.Isolation;
import cedrat.persist.isolation.Threads.Lists;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Isolation of the transactions of several threads, judged by Elle's method (`./x test`): serialisable, and in the
/// order of time, if reads acquire the lock; not so if one does not.
class HistoryTest {
    @TempDir
    Path folder;

    /// J3.
    @Test
    void ordinaryObjectsAreStrictlySerialisable() throws Throwable {
        Lists lists = new Lists();
        ListHistory history = Threads.run(lists, true);
        Threads.seeAll(lists, history);
        history.write("ordinary", "strict-serializable");
    }

    /// J3: while objects are unloaded, loaded, and collected.
    @Test
    void persistentObjectsAreStrictlySerialisable() throws Throwable {
        StoreOptions options = new StoreOptions().loadedBytesMax(4_000).isolation(Isolation.READ_UNCOMMITTED);
        ListHistory history;
        try (Store persistence = Store.open(folder, options)) {
            persistence.setRoot("lists", new Lists());
            history = Threads.run(persistence.root("lists", Object.class), true);
        }
        try (Store persistence = Store.open(folder, options)) {
            // What has committed is what is there after a restart.
            Threads.seeAll(persistence.root("lists", Object.class), history);
        }
        history.write("persistent", "strict-serializable");
    }

    @Test
    void unlockedReadOfOrdinaryObjectsIsFound() throws Exception {
        Threads.readWithoutLock(new Lists(), "ordinary-without-lock");
    }

    /// J3.
    @Test
    void unlockedReadOfPersistentObjectsIsFound() throws Exception {
        StoreOptions options = new StoreOptions().isolation(Isolation.READ_UNCOMMITTED);
        try (Store persistence = Store.open(folder, options)) {
            Lists lists = new Lists();
            persistence.setRoot("lists", lists);
            Threads.readWithoutLock(lists, "persistent-without-lock");
        }
    }
}
