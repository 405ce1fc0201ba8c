package cedrat.library;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LibcedratTest {
    @TempDir
    Path folder;

    @Test
    void theNamedFileIsTaken() throws IOException {
        Path file = Files.createFile(folder.resolve("any.so"));
        assertEquals(file, Libcedrat.find(file.toString(), ""));
        assertNull(Libcedrat.find(folder.resolve("none.so").toString(), folder.toString()));
    }

    @Test
    void theLibraryPathIsSearched() throws IOException {
        Path file = Files.createFile(folder.resolve(System.mapLibraryName("cedrat")));
        assertEquals(file, Libcedrat.find("", folder.resolve("other") + ":" + folder));
    }

    @Test
    void functionsAreFound() throws IOException {
        Libcedrat library = Libcedrat.load();
        assertNotEquals(0, library.function("cedrat_open").address());
        String message = assertThrows(IOException.class, () -> library.function("cedrat_fly"))
                .getMessage();
        assertTrue(message.contains("has another version, without the function cedrat_fly"), message);
    }

    /// The library is on the class path, as in its artifact. Each copy of the file would be another library.
    @Test
    void libraryOfClassPathIsLoadedOnce() throws Exception {
        String named = System.getProperty(Libcedrat.PROPERTY);
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT) + "-"
                + System.getProperty("os.arch").replace("amd64", "x86_64");
        Path artifact =
                Files.createDirectories(folder.resolve("META-INF/native").resolve(system));
        Files.copy(Path.of(named), artifact.resolve(System.mapLibraryName("cedrat")));
        URL classes = Libcedrat.class.getProtectionDomain().getCodeSource().getLocation();
        URL[] path = {classes, folder.toUri().toURL()};
        System.clearProperty(Libcedrat.PROPERTY);
        try (URLClassLoader loader = new URLClassLoader(path, ClassLoader.getPlatformClassLoader())) {
            Class<?> type = loader.loadClass(Libcedrat.class.getName());
            assertEquals(addressOfOpen(type), addressOfOpen(type));
        } finally {
            System.setProperty(Libcedrat.PROPERTY, named);
        }
    }

    private static Object addressOfOpen(Class<?> type) throws ReflectiveOperationException {
        Object library = type.getMethod("load").invoke(null);
        return type.getMethod("function", String.class).invoke(library, "cedrat_open");
    }

    @Test
    void remedyDependsOnSystem() {
        assertEquals("linux-x86_64", Libcedrat.platform("Linux", "amd64"));
        assertTrue(Libcedrat.remedy(Libcedrat.platform("Linux", "aarch64")).contains("libcedrat-linux-aarch64"));
        for (String system : new String[] {"Mac OS X", "Windows 11"}) {
            assertTrue(Libcedrat.remedy(Libcedrat.platform(system, "aarch64")).contains("runs on Linux only"), system);
        }
    }

    @Test
    void missingLibraryErrorNamesRemedy() {
        naming(folder.resolve("none.so").toString(), message -> {
            assertTrue(message.contains("cannot find libcedrat"), message);
            assertTrue(message.contains(folder.resolve("none.so").toString()), message);
            assertTrue(message.contains("cargo build --release --locked -p cedrat-capi"), message);
        });
    }

    @Test
    void invalidLibraryErrorNamesRemedy() throws IOException {
        Path file = Files.writeString(folder.resolve("text.so"), "not a library");
        naming(file.toString(), message -> {
            assertTrue(message.contains("cannot load " + file + " as libcedrat"), message);
            assertTrue(message.contains("cargo build --release --locked -p cedrat-capi"), message);
        });
    }

    private static void naming(String file, Consumer<String> check) {
        String named = System.setProperty(Libcedrat.PROPERTY, file);
        try {
            check.accept(assertThrows(IOException.class, Libcedrat::load).getMessage());
        } finally {
            System.setProperty(Libcedrat.PROPERTY, named);
        }
    }
}
