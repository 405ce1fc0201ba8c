package cedrat.persist.isolation;

import cedrat.persist.Persistence;
import cedrat.persist.PersistenceOptions;
import cedrat.persist.PersistenceOptions.Isolation;
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
        PersistenceOptions options = new PersistenceOptions().loadedBytesMax(4_000);
        ListHistory history;
        try (Persistence persistence = Persistence.open(folder, options)) {
            persistence.mark("lists", new Lists());
            history = Threads.run(persistence.lookup("lists"), false);
        }
        try (Persistence persistence = Persistence.open(folder, options)) {
            Threads.seeAll(persistence.lookup("lists"), history);
        }
        history.write("persistent-reads-lock", "strict-serializable");
    }

    /// J3.2, the planted fault: a store of a weaker level, with the same barriers.
    @Test
    void uncommittedReadsMayBeUnserialisable() throws Exception {
        PersistenceOptions options = new PersistenceOptions().isolation(Isolation.READ_UNCOMMITTED);
        try (Persistence persistence = Persistence.open(folder, options)) {
            Lists lists = new Lists();
            persistence.mark("lists", lists);
            Threads.readWithoutLock(lists, "persistent-reads-do-not-lock");
        }
    }
}
