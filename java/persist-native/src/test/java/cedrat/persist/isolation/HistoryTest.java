package cedrat.persist.isolation;

import cedrat.persist.Persistence;
import cedrat.persist.PersistenceOptions;
import cedrat.persist.PersistenceOptions.Isolation;
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
        PersistenceOptions options =
                new PersistenceOptions().loadedBytesMax(4_000).isolation(Isolation.READ_UNCOMMITTED);
        ListHistory history;
        try (Persistence persistence = Persistence.open(folder, options)) {
            persistence.mark("lists", new Lists());
            history = Threads.run(persistence.lookup("lists"), true);
        }
        try (Persistence persistence = Persistence.open(folder, options)) {
            // What has committed is what is there after a restart.
            Threads.seeAll(persistence.lookup("lists"), history);
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
        PersistenceOptions options = new PersistenceOptions().isolation(Isolation.READ_UNCOMMITTED);
        try (Persistence persistence = Persistence.open(folder, options)) {
            Lists lists = new Lists();
            persistence.mark("lists", lists);
            Threads.readWithoutLock(lists, "persistent-without-lock");
        }
    }
}
