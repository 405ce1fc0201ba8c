package cedrat.maven;

import cedrat.persist.weave.Agent;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.Attributes;
import java.util.jar.JarFile;
import java.util.jar.Manifest;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;

/// A jar that `java -jar` starts.
///
/// The JVM looks for the agent among the classes of the jar itself, not in jars within it. So its classes become
/// entries of the jar.
///
/// **Threads:** one.
final class ExecutableJar {
    private static final String LAUNCHER_AGENT = "Launcher-Agent-Class";
    private static final Pattern SIGNATURE = Pattern.compile("META-INF/[^/]+\\.SF", Pattern.CASE_INSENSITIVE);

    private final Path path;

    ExecutableJar(Path path) {
        this.path = path;
    }

    /// Adds the agent, or replaces it.
    ///
    /// @param arguments the agent's; null if there are none
    /// @throws IllegalArgumentException if the jar is none that can start it
    void addAgent(String arguments) throws IOException {
        checkStart();
        Map<String, byte[]> added = agentFiles();
        if (arguments != null && !arguments.isBlank()) {
            added.put(Agent.ARGUMENTS, (arguments.strip() + "\n").getBytes(StandardCharsets.UTF_8));
        }
        Path written = path.resolveSibling(path.getFileName() + ".agent");
        try {
            try (ZipFile jar = new ZipFile(path.toFile());
                    OutputStream file = Files.newOutputStream(written);
                    ZipOutputStream out = new ZipOutputStream(file)) {
                copy(jar, added, out);
            }
            Files.move(written, path, StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(written);
        }
    }

    /// Spring Boot may put a script before the entries, which the copy would lack.
    private void checkStart() throws IOException {
        try (InputStream in = Files.newInputStream(path)) {
            if (in.read() != 'P' || in.read() != 'K') {
                throw new IllegalArgumentException(
                        "it is no jar, or a script stands before its entries: make it without a script");
            }
        }
    }

    private static void copy(ZipFile jar, Map<String, byte[]> added, ZipOutputStream out) throws IOException {
        boolean hasManifest = false;
        for (ZipEntry entry : Collections.list(jar.entries())) {
            if (SIGNATURE.matcher(entry.getName()).matches()) {
                throw new IllegalArgumentException("it is signed: sign it after this goal");
            }
            boolean isManifest = entry.getName().equals(JarFile.MANIFEST_NAME);
            hasManifest |= isManifest;
            if (!added.containsKey(entry.getName())) {
                try (InputStream in = jar.getInputStream(entry)) {
                    byte[] content = in.readAllBytes();
                    write(out, entry, isManifest ? manifest(content) : content);
                }
            }
        }
        if (!hasManifest) {
            throw new IllegalArgumentException("it has no manifest");
        }
        ZipEntry time = jar.getEntry(JarFile.MANIFEST_NAME);
        for (Map.Entry<String, byte[]> file : added.entrySet()) {
            ZipEntry entry = new ZipEntry(file.getKey());
            entry.setTimeLocal(time.getTimeLocal());
            entry.setMethod(ZipEntry.DEFLATED);
            write(out, entry, file.getValue());
        }
    }

    /// Spring Boot reads jars within the jar where they are stored, so an entry is stored as it was. Entries that it
    /// unpacks have a comment.
    private static void write(ZipOutputStream out, ZipEntry original, byte[] content) throws IOException {
        ZipEntry entry = new ZipEntry(original.getName());
        entry.setTimeLocal(original.getTimeLocal());
        entry.setComment(original.getComment());
        entry.setMethod(original.getMethod());
        if (original.getMethod() == ZipEntry.STORED) {
            CRC32 checksum = new CRC32();
            checksum.update(content);
            entry.setSize(content.length);
            entry.setCompressedSize(content.length);
            entry.setCrc(checksum.getValue());
        }
        out.putNextEntry(entry);
        out.write(content);
        out.closeEntry();
    }

    private static byte[] manifest(byte[] original) throws IOException {
        Manifest manifest = new Manifest(new ByteArrayInputStream(original));
        Attributes attributes = manifest.getMainAttributes();
        if (attributes.getValue(Attributes.Name.MAIN_CLASS) == null) {
            throw new IllegalArgumentException(
                    "its manifest has no Main-Class: run this goal after the one that makes the jar executable");
        }
        String agent = Agent.class.getName();
        String other = attributes.getValue(LAUNCHER_AGENT);
        if (other != null && !other.equals(agent)) {
            throw new IllegalArgumentException("its manifest starts another agent, " + other);
        }
        attributes.putValue(LAUNCHER_AGENT, agent);
        attributes.putValue("Can-Retransform-Classes", "true");
        attributes.putValue("Can-Redefine-Classes", "true");
        attributes.putValue("Enable-Native-Access", "ALL-UNNAMED");
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        manifest.write(bytes);
        return bytes.toByteArray();
    }

    /// Returns the files of the agent by their names.
    private static Map<String, byte[]> agentFiles() throws IOException {
        Path agent;
        try {
            agent = Path.of(Agent.class
                    .getProtectionDomain()
                    .getCodeSource()
                    .getLocation()
                    .toURI());
        } catch (URISyntaxException e) {
            throw new IOException("invalid address of the agent", e);
        }
        Map<String, byte[]> files = new TreeMap<>();
        if (Files.isDirectory(agent)) {
            try (Stream<Path> paths = Files.walk(agent)) {
                for (Path file : paths.filter(Files::isRegularFile).toList()) {
                    files.put(agent.relativize(file).toString().replace('\\', '/'), Files.readAllBytes(file));
                }
            }
        } else {
            try (ZipFile jar = new ZipFile(agent.toFile())) {
                for (ZipEntry entry : Collections.list(jar.entries())) {
                    try (InputStream in = jar.getInputStream(entry)) {
                        files.put(entry.getName(), in.readAllBytes());
                    }
                }
            }
        }
        files.keySet().removeIf(name -> !isOfAgent(name));
        return files;
    }

    private static boolean isOfAgent(String name) {
        return !name.endsWith("/") && (name.startsWith("cedrat/") || name.startsWith("META-INF/boot/"));
    }
}
