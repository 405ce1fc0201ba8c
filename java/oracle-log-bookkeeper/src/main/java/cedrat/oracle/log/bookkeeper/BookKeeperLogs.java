package cedrat.oracle.log.bookkeeper;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.OpenMode;
import cedrat.oracle.log.SharedLogs;
import java.io.IOException;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;

/// Makes logs in BookKeeper.
public final class BookKeeperLogs implements SharedLogs {
    /// Loggers whose routine messages are of no interest to an oracle. Held here, because the JDK drops loggers
    /// without strong references.
    private static final List<Logger> QUIET = List.of(Logger.getLogger("org.apache"), Logger.getLogger("io.netty"));

    /// Of no state.
    public BookKeeperLogs() {}

    @Override
    public Log make(Place place, OpenMode mode) {
        quieten();
        return new BookKeeperLog(place, mode);
    }

    @Override
    public void read(Place place, Log.Replay replay) throws IOException, DamagedEntryException {
        quieten();
        BookKeeperLog.read(place, replay);
    }

    private static void quieten() {
        QUIET.forEach(logger -> logger.setLevel(Level.SEVERE));
    }
}
