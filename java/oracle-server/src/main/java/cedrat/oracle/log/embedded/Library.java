package cedrat.oracle.log.embedded;

import cedrat.library.Libcedrat;
import java.io.IOException;
import java.lang.foreign.MemorySegment;

/// Addresses of the functions of libcedrat that a log needs.
final class Library {
    final MemorySegment open;
    final MemorySegment close;
    final MemorySegment message;
    final MemorySegment append;
    final MemorySegment force;
    final MemorySegment truncate;
    final MemorySegment cursorCreate;
    final MemorySegment cursorNext;
    final MemorySegment cursorFree;
    final MemorySegment statusName;

    private Library(Libcedrat library) throws IOException {
        open = library.function("cedrat_log_open");
        close = library.function("cedrat_log_close");
        message = library.function("cedrat_log_message");
        append = library.function("cedrat_log_append");
        force = library.function("cedrat_log_force");
        truncate = library.function("cedrat_log_truncate");
        cursorCreate = library.function("cedrat_log_cursor_create");
        cursorNext = library.function("cedrat_log_cursor_next");
        cursorFree = library.function("cedrat_log_cursor_free");
        statusName = library.function("cedrat_status_name");
    }

    /// Loads the library.
    ///
    /// @throws IOException if it is not found, or does not fit; it says what to do
    static Library load() throws IOException {
        return new Library(Libcedrat.load());
    }
}
