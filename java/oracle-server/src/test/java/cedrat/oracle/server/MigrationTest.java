package cedrat.oracle.server;

import static cedrat.oracle.server.FilledLogs.entries;
import static cedrat.oracle.server.FilledLogs.isServed;
import static cedrat.oracle.server.FilledLogs.move;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.LogExistsException;
import cedrat.oracle.log.OpenMode;
import cedrat.oracle.log.OracleReplay;
import cedrat.oracle.state.NoDecisions;
import cedrat.oracle.state.StatusOracle;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// O5h and O5i: commands that fill logs and are stopped at any step.
@Timeout(300)
class MigrationTest {
    private static final int ENTRIES = 6;
    private static final int OUTCOMES = 9000;

    @TempDir
    Path folder;

    private LogPlace place(String name) {
        return LogPlace.of("embedded:" + folder.resolve(name), new LogSettings());
    }

    @Test
    void migrationKilledAtAnyStepIsRepeated() throws Exception {
        int all = ENTRIES + 3;
        for (int appends = 0; appends <= all; appends++) {
            LogPlace from = place("from" + appends);
            LogPlace to = place("to" + appends);
            FilledLogs.initialise(from, 7, ENTRIES);
            List<String> entries = entries(from);
            assertEquals(appends == all, move(from, to, appends));
            assertEquals(appends < all - 1, isServed(from), appends + " appends");
            assertEquals(appends == all, isServed(to), appends + " appends");
            assertTrue(move(from, to, all));
            assertFalse(isServed(from));
            assertTrue(isServed(to));
            assertEquals(entries, entries(to));
            assertTrue(move(from, to, 0), "it has moved");
        }
    }

    @Test
    void migrationKilledRepeatedlyEnds() throws Exception {
        LogPlace from = place("from");
        LogPlace to = place("to");
        FilledLogs.initialise(from, 7, ENTRIES);
        int runs = 1;
        while (!move(from, to, 1)) {
            runs++;
            assertFalse(isServed(to));
        }
        assertEquals(ENTRIES + 3, runs);
        assertTrue(isServed(to));
        assertTrue(move(to, place("third"), Integer.MAX_VALUE), "on from there");
        assertEquals(entries(from), entries(place("third")));
        assertFalse(isServed(to));
    }

    @Test
    void changedSourceOrExistingTargetIsRefused() throws Exception {
        FilledLogs.initialise(place("from"), 7, ENTRIES);
        FilledLogs.initialise(place("other"), 8, ENTRIES);
        assertThrows(LogExistsException.class, () -> move(place("from"), place("other"), Integer.MAX_VALUE));
        assertFalse(move(place("from"), place("to"), ENTRIES));
        String why = assertThrows(IOException.class, () -> move(place("other"), place("to"), Integer.MAX_VALUE))
                .getMessage();
        assertTrue(why.contains("is not of the log"), why);
        assertTrue(isServed(place("from")) && isServed(place("other")));
        assertTrue(move(place("from"), place("to"), Integer.MAX_VALUE));
        why = assertThrows(IOException.class, () -> move(place("from"), place("elsewhere"), Integer.MAX_VALUE))
                .getMessage();
        assertTrue(why.contains("has moved already: it is in " + folder.resolve("to")), why);
    }

    /// O5i: a target that is lost may have been served.
    @Test
    void lostTargetIsNotCopiedAgain() throws Exception {
        FilledLogs.initialise(place("from"), 7, ENTRIES);
        assertFalse(move(place("from"), place("to"), ENTRIES + 2), "it is not complete");
        Files.move(folder.resolve("to"), folder.resolve("lost"));
        String why = assertThrows(IOException.class, () -> move(place("from"), place("to"), Integer.MAX_VALUE))
                .getMessage();
        assertTrue(why.contains("It is not copied again"), why);
        assertFalse(isServed(place("from")) || isServed(place("to")));
        // A backup of it may be restored, since that begins far above.
        String file = folder.resolve("backup").toString();
        assertEquals(
                0,
                BackupTest.run("log", "backup", file, "--log", "embedded", "--data", "" + folder.resolve("from"))
                        .code());
    }

    @Test
    void serverRefusesMovedLogAndIncompleteCopy() throws Exception {
        FilledLogs.initialise(place("from"), 7, ENTRIES);
        assertFalse(move(place("from"), place("to"), 3));
        String incomplete = refusal("to");
        assertTrue(incomplete.contains("incomplete copy: repeat `cedrat-oracle migrate`"), incomplete);
        assertTrue(move(place("from"), place("to"), Integer.MAX_VALUE));
        String moved = refusal("from");
        assertTrue(moved.contains("has moved: start its servers with the log in " + folder.resolve("to")), moved);
    }

    private String refusal(String name) {
        return assertThrows(
                        DamagedEntryException.class,
                        () -> OracleServer.start(
                                ServerOptions.DEFAULTS, place(name).make(OpenMode.EXISTING, "test")))
                .getMessage();
    }

    /// O5h.
    @Test
    void restoreKilledAtAnyStepIsRepeated() throws Exception {
        StatusOracle continued = FilledLogs.restored(7, OUTCOMES);
        int parts = 1 + OUTCOMES / 4096;
        for (int appends = 0; appends < parts; appends++) {
            LogPlace place = place("restored" + appends);
            int[] left = {appends};
            assertThrows(
                    FilledLogs.Killed.class, () -> RestoreCommand.fill(new FilledLogs.Dying(place, left), continued));
            assertFalse(isServed(place), appends + " parts");
            RestoreCommand.fill(place, continued);
            assertTrue(isServed(place));
            assertThrows(LogExistsException.class, () -> RestoreCommand.fill(place, continued));
            StatusOracle served = new StatusOracle(8, new NoDecisions());
            place.read(new OracleReplay(served));
            assertEquals(
                    List.of(7L, OUTCOMES + 10L, (long) OUTCOMES),
                    List.of(served.identity(), served.newest(), served.halfAborted()));
        }
        assertEquals(3, parts);
    }
}
