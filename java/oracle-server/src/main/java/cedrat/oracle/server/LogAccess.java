package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.OpenMode;
import java.io.IOException;

/// Access to the log in a place.
interface LogAccess {
    /// Returns a log that is to be opened by a command or server, which other servers that share it see as `user`.
    Log make(OpenMode mode, String user);

    /// Replays what a log keeps that is there already; none is made. One in BookKeeper stays with the server that has
    /// it.
    void read(Log.Replay replay) throws IOException, DamagedEntryException;

    /// The place of the log, for people.
    String where();
}
