package cedrat.persist.weave;

import java.io.File;
import java.io.IOException;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/// Weaves the class files of a build in place. The agent then leaves these classes as they are.
///
/// - Either all classes can be woven, or no file is changed.
///
/// - A class file of Java 10 or before is left to the agent: it has no dynamic constants.
///
/// **Threads:** one.
public final class BuildWeaver {
    /// Result of weaving a build.
    ///
    /// @param woven    the number of classes that were woven
    /// @param kept     the number of those that were woven before
    /// @param left     the number of those that are left to the agent: not included, excluded, or of an old Java
    /// @param failures a message for each class that cannot be woven; then no file has been changed
    public record Outcome(int woven, int kept, int left, List<String> failures) {}

    private final Classes classes;
    private final List<Path> folders;
    private final List<Path> classPath;
    private final Weaver weaver;
    private final Map<Path, byte[]> changed = new LinkedHashMap<>();
    private final List<String> failures = new ArrayList<>();
    private int kept;
    private int left;

    /// @param arguments the agent's, with which the program will run; null if there are none
    /// @param folders   folders of class files, as they are on the class path
    /// @param classPath jars and folders of other classes to which these refer
    /// @throws IllegalArgumentException if the arguments are invalid
    public BuildWeaver(String arguments, List<Path> folders, List<Path> classPath) {
        classes = new Classes(arguments);
        this.folders = List.copyOf(folders);
        this.classPath = List.copyOf(classPath);
        weaver = new Weaver(FieldNumbers.ofClassFiles(), classes);
        weaver.weaveReads();
    }

    /// Weaves the classes.
    ///
    /// @throws IOException if a file cannot be read or written
    public Outcome weave() throws IOException {
        try (URLClassLoader loader = loader()) {
            for (Path folder : folders) {
                for (Path file : classFiles(folder)) {
                    weave(loader, folder, file);
                }
            }
        }
        if (failures.isEmpty()) {
            for (Map.Entry<Path, byte[]> file : changed.entrySet()) {
                replace(file.getKey(), file.getValue());
            }
        }
        return new Outcome(changed.size(), kept, left, List.copyOf(failures));
    }

    private URLClassLoader loader() throws IOException {
        List<URL> addresses = new ArrayList<>();
        for (Path path : Stream.concat(folders.stream(), classPath.stream()).toList()) {
            addresses.add(path.toUri().toURL());
        }
        return new URLClassLoader(addresses.toArray(URL[]::new), ClassLoader.getPlatformClassLoader());
    }

    private static List<Path> classFiles(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(file -> isClass(folder.relativize(file).toString()))
                    .filter(Files::isRegularFile)
                    .sorted()
                    .toList();
        }
    }

    /// Whether a file is a class of the class path. Classes of one release of Java are no classes of that name.
    private static boolean isClass(String name) {
        return name.endsWith(".class")
                && !name.startsWith("META-INF" + File.separator)
                && !name.endsWith("module-info.class");
    }

    private void weave(ClassLoader loader, Path folder, Path file) throws IOException {
        byte[] original = Files.readAllBytes(file);
        String name = file.toString();
        try {
            ClassModel type = Weaver.parse(original);
            name = type.thisClass().asInternalName().replace('/', '.');
            checkPlace(folder, file, type);
            WovenAttribute woven = WovenAttribute.of(original);
            if (woven != null) {
                woven.check(classes, loader);
                kept++;
            } else if (isLeft(loader, type)) {
                left++;
            } else {
                changed.put(file, woven(loader, original, type));
            }
        } catch (UnstructuredException | RuntimeException | StackOverflowError e) {
            failures.add("cannot weave the class " + name + ": " + e.getMessage());
        }
    }

    /// In another folder of the class path the class would have another name.
    private static void checkPlace(Path folder, Path file, ClassModel type) {
        Path place = folder.resolve(type.thisClass().asInternalName() + ".class");
        if (!place.equals(file)) {
            throw new IllegalArgumentException(
                    "its file is " + file + ", not " + place + ": name the folder that is on the class path");
        }
    }

    private boolean isLeft(ClassLoader loader, ClassModel type) {
        return type.majorVersion() < ClassFile.JAVA_11_VERSION
                || classes.kind(loader, type.thisClass().asInternalName()) != Weaver.Kind.APPLICATION
                || !classes.weaves(loader, type);
    }

    private byte[] woven(ClassLoader loader, byte[] original, ClassModel type) throws UnstructuredException {
        byte[] woven = weaver.weave(original, Weaver.Kind.APPLICATION, loader, false, false);
        String name = type.thisClass().asInternalName();
        Map<String, String> choices = classes.choices(loader, Weaver.parse(woven));
        return new WovenAttribute(WeaverVersion.get(), choices, weaver.readFields(loader, name)).addedTo(woven);
    }

    /// A build that is killed leaves no half of a file.
    private static void replace(Path file, byte[] content) throws IOException {
        Path written = Files.createTempFile(file.toAbsolutePath().getParent(), "woven", ".tmp");
        Files.write(written, content);
        Files.setPosixFilePermissions(written, Files.getPosixFilePermissions(file));
        Files.move(written, file, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
    }
}
