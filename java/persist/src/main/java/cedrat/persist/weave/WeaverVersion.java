package cedrat.persist.weave;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.module.ModuleReader;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.stream.Stream;

/// The version of the weaver: a digest of its classes and lists, and of the barriers.
///
/// A number that is raised by hand would be forgotten once, and a class with other barriers than those of the agent
/// misses changes.
///
/// **Threads:** any.
final class WeaverVersion {
    private static final List<String> PARTS = List.of(
            "cedrat/persist/weave/", "cedrat/persist/jdk/", "META-INF/boot/cedrat/", "cedrat/persist/record/WovenCode");
    private static final int DIGEST_BYTES = 8;

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
        MessageDigest digest;
        try {
            digest = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError("every JDK has SHA-256", e);
        }
        try {
            read().forEach((name, content) -> {
                digest.update(name.getBytes(StandardCharsets.UTF_8));
                digest.update(content);
            });
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read the classes of the weaver", e);
        }
        return HexFormat.of().formatHex(digest.digest(), 0, DIGEST_BYTES);
    }

    private static SortedMap<String, byte[]> read() throws IOException {
        Module own = WeaverVersion.class.getModule();
        if (own.isNamed()) {
            try (ModuleReader reader = own.getLayer()
                    .configuration()
                    .findModule(own.getName())
                    .orElseThrow()
                    .reference()
                    .open()) {
                return read(reader.list(), name -> reader.open(name).orElseThrow());
            }
        }
        Path path = ownPath();
        if (Files.isDirectory(path)) {
            try (Stream<Path> files = Files.walk(path)) {
                Stream<String> names = files.filter(Files::isRegularFile)
                        .map(file -> path.relativize(file).toString().replace('\\', '/'));
                return read(names, name -> Files.newInputStream(path.resolve(name)));
            }
        }
        try (JarFile jar = new JarFile(path.toFile())) {
            return read(jar.stream().map(JarEntry::getName), name -> jar.getInputStream(jar.getJarEntry(name)));
        }
    }

    private interface Opener {
        InputStream open(String name) throws IOException;
    }

    private static SortedMap<String, byte[]> read(Stream<String> names, Opener opener) throws IOException {
        SortedMap<String, byte[]> contents = new TreeMap<>();
        for (String name : names.filter(WeaverVersion::isPart).toList()) {
            try (InputStream in = opener.open(name)) {
                contents.put(name, in.readAllBytes());
            }
        }
        return contents;
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
