package cedrat.library;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/// The functions of libcedrat, loaded into this process, where they stay until it ends.
///
/// The library is looked for in three places: the file that `-Dcedrat.library=…` names; if nothing is named,
/// the directories of `java.library.path`; and the class path, where an artifact of this system and processor
/// may carry it, such as `libcedrat-linux-x86_64`.
///
/// **Threads:** any.
public final class Libcedrat {
    /// Names the file of the library.
    public static final String PROPERTY = "cedrat.library";

    private static final String PLATFORM = platform(System.getProperty("os.name"), System.getProperty("os.arch"));
    private static final String HOW = remedy(PLATFORM);

    /// The library that was loaded from the class path, or null. Another copy of it would be another file, which
    /// would be loaded again.
    private static Libcedrat fromClassPath;

    private final SymbolLookup lookup;
    private final String origin;

    private Libcedrat(SymbolLookup lookup, String origin) {
        this.lookup = lookup;
        this.origin = origin;
    }

    /// Loads the library, at most once from each place.
    ///
    /// @throws IOException if there is none, or it cannot be loaded; it says what to do
    @SuppressWarnings("restricted") // the module's page says what has to be allowed
    public static Libcedrat load() throws IOException {
        String named = System.getProperty(PROPERTY, "");
        Path file = find(named, System.getProperty("java.library.path", ""));
        if (file != null) {
            return load(file, file.toString());
        }
        String resource = "/META-INF/native/" + PLATFORM + "/" + System.mapLibraryName("cedrat");
        if (!named.isEmpty()) {
            throw missing(named, resource);
        }
        synchronized (Libcedrat.class) {
            if (fromClassPath == null) {
                fromClassPath = loadCopy(resource);
            }
            return fromClassPath;
        }
    }

    private static IOException missing(String named, String resource) {
        return new IOException(
                "cannot find libcedrat (searched " + tried(named, System.getProperty("java.library.path", ""))
                        + " and, on the class path, " + resource + "): " + HOW);
    }

    private static Libcedrat loadCopy(String resource) throws IOException {
        try (InputStream original = Libcedrat.class.getResourceAsStream(resource)) {
            if (original == null) {
                throw missing("", resource);
            }
            // Once it is loaded it needs no name any more.
            Path copy = Files.createTempFile("libcedrat", ".so");
            try {
                Files.copy(original, copy, StandardCopyOption.REPLACE_EXISTING);
                return load(copy, resource);
            } finally {
                Files.delete(copy);
            }
        }
    }

    @SuppressWarnings("restricted")
    private static Libcedrat load(Path file, String origin) throws IOException {
        try {
            return new Libcedrat(SymbolLookup.libraryLookup(file, Arena.global()), origin);
        } catch (IllegalArgumentException refused) {
            throw new IOException(
                    "cannot load " + origin + " as libcedrat: " + refused.getMessage() + "; " + HOW, refused);
        }
    }

    /// The address of a function of `cedrat.h`.
    ///
    /// @throws IOException if the library has no such function; it says what to do
    public MemorySegment function(String name) throws IOException {
        return lookup.find(name)
                .orElseThrow(() ->
                        new IOException(origin + " has another version, without the function " + name + "; " + HOW));
    }

    /// The file of the library, the named one or the first in a list of directories; null if there is none.
    static Path find(String named, String directories) {
        for (Path file : tried(named, directories)) {
            if (Files.isRegularFile(file)) {
                return file;
            }
        }
        return null;
    }

    private static List<Path> tried(String named, String directories) {
        if (!named.isEmpty()) {
            return List.of(Path.of(named).toAbsolutePath());
        }
        List<Path> tried = new ArrayList<>();
        for (String directory : directories.split(File.pathSeparator)) {
            if (!directory.isEmpty()) {
                tried.add(Path.of(directory, System.mapLibraryName("cedrat")).toAbsolutePath());
            }
        }
        return tried;
    }

    /// System and processor, as in the names of artifacts.
    static String platform(String system, String processor) {
        return system.toLowerCase(Locale.ROOT) + "-" + (processor.equals("amd64") ? "x86_64" : processor);
    }

    /// Returns what a user does where no library can be loaded. The library calls functions that only Linux has.
    static String remedy(String platform) {
        if (!platform.startsWith("linux-")) {
            return "the library runs on Linux only: start the program in a container or a virtual machine with Linux"
                    + " (on Windows, WSL 2 is one)";
        }
        return "put the artifact libcedrat-" + platform + " on the class path, or build the library with "
                + "`cargo build --release --locked -p cedrat-capi`, and start Java with -D" + PROPERTY
                + "=…/target/release/" + System.mapLibraryName("cedrat");
    }
}
