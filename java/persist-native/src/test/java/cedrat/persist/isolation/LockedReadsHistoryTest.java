package cedrat.persist.isolation;

import cedrat.persist.Persistence;
import cedrat.persist.PersistenceOptions;
import cedrat.persist.isolation.Threads.Lists;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/// As [HistoryTest], without explicit locks: reads acquire them, if the store asks for it.
///
/// The agent has the argument `reads=lock` here; where the test is asked for by its name, it is run without, too.
@EnabledIfSystemProperty(named = "cedrat.reads", matches = "lock")
class LockedReadsHistoryTest {
    @TempDir
    Path folder;

    /// J3.2: while objects are unloaded, loaded, and collected.
    @Test
    void lockedReadsAreStrictlySerialisable() throws Throwable {
        PersistenceOptions options =
                new PersistenceOptions().loadedBytesMax(4_000).readLocks(true);
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

    /// J3.2: the planted fault: a store that does not ask for it, with the same barriers.
    @Test
    void storeWithoutLockedReadsMayBeUnserialisable() throws Exception {
        try (Persistence persistence = Persistence.open(folder, new PersistenceOptions())) {
            Lists lists = new Lists();
            persistence.mark("lists", lists);
            Threads.readWithoutLock(lists, "persistent-reads-do-not-lock");
        }
    }
}
