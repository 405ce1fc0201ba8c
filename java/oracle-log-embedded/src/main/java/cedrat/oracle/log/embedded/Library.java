package cedrat.oracle.log.embedded;

import java.io.File;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/// Where the functions of libcedrat lie in memory. Once loaded, the library stays until the process ends.
final class Library {
    /// Names the file of the library. Without it, it is looked for in the directories of `java.library.path`.
    static final String PROPERTY = "cedrat.library";

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

    private Library(SymbolLookup lookup, Path file) throws IOException {
        open = find(lookup, file, "cedrat_log_open");
        close = find(lookup, file, "cedrat_log_close");
        message = find(lookup, file, "cedrat_log_message");
        append = find(lookup, file, "cedrat_log_append");
        force = find(lookup, file, "cedrat_log_force");
        truncate = find(lookup, file, "cedrat_log_truncate");
        cursorCreate = find(lookup, file, "cedrat_log_cursor_create");
        cursorNext = find(lookup, file, "cedrat_log_cursor_next");
        cursorFree = find(lookup, file, "cedrat_log_cursor_free");
        statusName = find(lookup, file, "cedrat_status_name");
    }

    /// Loads the library that the system property names, or that lies in the library path.
    ///
    /// @throws IOException if there is none, or it does not fit; it says what to do
    @SuppressWarnings("restricted") // the module's page says what has to be allowed
    static Library load() throws IOException {
        Path file = file(System.getProperty(PROPERTY, ""), System.getProperty("java.library.path", ""));
        try {
            return new Library(SymbolLookup.libraryLookup(file, Arena.global()), file);
        } catch (IllegalArgumentException refused) {
            throw new IOException(
                    file + " cannot be loaded as libcedrat: " + refused.getMessage() + "; " + HOW, refused);
        }
    }

    private static final String HOW =
            "build it with `cargo build --release --locked -p cedrat-capi`, and start Java with -D" + PROPERTY
                    + "=…/target/release/" + System.mapLibraryName("cedrat");

    /// The file of the library: the named one, or the first in a list of directories.
    static Path file(String named, String directories) throws IOException {
        String name = System.mapLibraryName("cedrat");
        List<Path> tried = new ArrayList<>();
        if (named.isEmpty()) {
            for (String directory : directories.split(File.pathSeparator)) {
                if (!directory.isEmpty()) {
                    tried.add(Path.of(directory, name).toAbsolutePath());
                }
            }
        } else {
            tried.add(Path.of(named).toAbsolutePath());
        }
        for (Path file : tried) {
            if (Files.isRegularFile(file)) {
                return file;
            }
        }
        throw new IOException("libcedrat is missing (looked for " + tried + "): " + HOW);
    }

    private static MemorySegment find(SymbolLookup lookup, Path file, String name) throws IOException {
        return lookup.find(name)
                .orElseThrow(() ->
                        new IOException(file + " has no function " + name + ": it is of another version; " + HOW));
    }
}
