package cedrat.persist.weave;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.module.ModuleReader;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.stream.Stream;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import java.util.zip.Checksum;

/// The version of the weaver: checksums of its classes and lists, and of the barriers.
///
/// A number that is raised by hand would be forgotten once, and a class with other barriers than those of the agent
/// misses changes. A jar knows the checksums of its files, so the agent starts no later.
///
/// **Threads:** any.
final class WeaverVersion {
    private static final List<String> PARTS = List.of(
            "cedrat/persist/weave/", "cedrat/persist/jdk/", "META-INF/boot/cedrat/", "cedrat/persist/record/WovenCode");

    private static volatile String version;

    private WeaverVersion() {}

    /// Returns the version.
    static String get() {
        String known = version;
        if (known == null) {
            known = compute();
            version = known;
        }
        return known;
    }

    private static String compute() {
        SortedMap<String, Long> files = new TreeMap<>();
        try {
            read(files);
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read the classes of the weaver", e);
        }
        return Long.toHexString(checksum(new CRC32(), files) << Integer.SIZE | checksum(new CRC32C(), files));
    }

    private static long checksum(Checksum checksum, SortedMap<String, Long> files) {
        files.forEach((name, content) -> checksum.update((name + content).getBytes(StandardCharsets.UTF_8)));
        return checksum.getValue();
    }

    private static void read(SortedMap<String, Long> files) throws IOException {
        Module own = WeaverVersion.class.getModule();
        Path path = own.isNamed() ? null : ownPath();
        if (path == null) {
            readModule(own, files);
        } else if (Files.isDirectory(path)) {
            readFolder(path, files);
        } else {
            try (JarFile jar = new JarFile(path.toFile())) {
                for (JarEntry entry : Collections.list(jar.entries())) {
                    if (isPart(entry.getName())) {
                        files.put(entry.getName(), entry.getCrc());
                    }
                }
            }
        }
    }

    private static void readModule(Module own, SortedMap<String, Long> files) throws IOException {
        try (ModuleReader reader = own.getLayer()
                        .configuration()
                        .findModule(own.getName())
                        .orElseThrow()
                        .reference()
                        .open();
                Stream<String> names = reader.list()) {
            for (String name : names.filter(WeaverVersion::isPart).toList()) {
                put(files, name, reader.open(name).orElseThrow());
            }
        }
    }

    private static void readFolder(Path folder, SortedMap<String, Long> files) throws IOException {
        try (Stream<Path> paths = Files.walk(folder)) {
            for (Path path : paths.filter(Files::isRegularFile).toList()) {
                String name = folder.relativize(path).toString().replace('\\', '/');
                if (isPart(name)) {
                    put(files, name, Files.newInputStream(path));
                }
            }
        }
    }

    private static void put(SortedMap<String, Long> files, String name, InputStream content) throws IOException {
        CRC32 checksum = new CRC32();
        try (content) {
            checksum.update(content.readAllBytes());
        }
        files.put(name, checksum.getValue());
    }

    private static boolean isPart(String name) {
        return !name.endsWith("/") && PARTS.stream().anyMatch(name::startsWith);
    }

    /// The jar or the folder from which this class was loaded.
    private static Path ownPath() {
        try {
            return Path.of(WeaverVersion.class
                    .getProtectionDomain()
                    .getCodeSource()
                    .getLocation()
                    .toURI());
        } catch (URISyntaxException e) {
            throw new AssertionError("a class path has valid addresses", e);
        }
    }
}
