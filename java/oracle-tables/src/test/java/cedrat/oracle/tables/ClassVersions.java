package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.DataInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/// Versions of the classes that a module and all that it needs at run time have.
public final class ClassVersions {
    private static final int MAJOR_OF_11 = 55;
    private static final int MAGIC = 0xcafebabe;

    private ClassVersions() {}

    /// Returns the class path of programs that embed the module, without its tests.
    static List<Path> classPath() throws IOException {
        List<Path> all = new ArrayList<>(List.of(Path.of("target/classes").toAbsolutePath()));
        for (String entry :
                Files.readString(Path.of("target/classpath")).strip().split(File.pathSeparator)) {
            all.add(Path.of(entry));
        }
        return all;
    }

    /// Fails if JDK 11 cannot load some class of the module, or of what it needs.
    public static void checkJdk11() throws IOException {
        List<String> tooNew = new ArrayList<>();
        int[] classes = {0};
        for (Path entry : classPath()) {
            if (Files.isDirectory(entry)) {
                try (Stream<Path> files = Files.walk(entry)) {
                    for (Path file : files.filter(ClassVersions::isClass).toList()) {
                        try (InputStream bytes = Files.newInputStream(file)) {
                            check(bytes, file.toString(), tooNew, classes);
                        }
                    }
                }
            } else {
                try (ZipFile jar = new ZipFile(entry.toFile())) {
                    for (ZipEntry file : jar.stream().toList()) {
                        // The folder has classes that only later JDKs load.
                        if (file.getName().endsWith(".class") && !file.getName().startsWith("META-INF/versions/")) {
                            check(jar.getInputStream(file), jar.getName() + "!" + file, tooNew, classes);
                        }
                    }
                }
            }
        }
        assertEquals(List.of(), tooNew);
        assertTrue(classes[0] > 1000, "only " + classes[0] + " classes on the class path");
    }

    private static boolean isClass(Path file) {
        return file.toString().endsWith(".class");
    }

    private static void check(InputStream bytes, String name, List<String> tooNew, int[] classes) throws IOException {
        DataInputStream data = new DataInputStream(bytes);
        assertEquals(MAGIC, data.readInt(), name);
        data.readUnsignedShort(); // the minor version
        int major = data.readUnsignedShort();
        classes[0]++;
        if (major > MAJOR_OF_11) {
            tooNew.add(name + " of version " + major);
        }
    }
}
