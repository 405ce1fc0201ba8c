package cedrat.persist.weave;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
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
import java.util.regex.Matcher;
import java.util.regex.Pattern;
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
    public record Outcome(int woven, int kept, int left, List<String> failures) {
        /// Returns the numbers, for people.
        public String summary() {
            return woven + " classes woven, " + kept + " woven before, " + left + " left to the agent";
        }
    }

    /// A class file that is woven.
    ///
    /// @param kept where its original is kept, or null
    private record Changed(byte[] original, byte[] woven, Path kept) {}

    /// The end of the name of a file that is not moved to its place yet; a number of a process stands before it.
    private static final String WRITTEN = ".woven";

    private static final Pattern WRITTEN_NAME = Pattern.compile(".*\\.class\\.(\\d{1,18})" + Pattern.quote(WRITTEN));

    private final Classes classes;
    private final Path originals;
    private final List<Path> folders;
    private final List<Path> classPath;
    private final Weaver weaver;
    private final Map<Path, Changed> changed = new LinkedHashMap<>();
    private final List<String> failures = new ArrayList<>();
    private int wovenCount;
    private int kept;
    private int left;

    /// @param arguments the agent's, with which the program will run; null if there are none
    /// @param originals a folder that keeps the class files as they were compiled, so that other arguments or
    ///                  another version need no clean build; null if none does
    /// @param folders   folders of class files, as they are on the class path
    /// @param classPath jars and folders of other classes to which these refer
    /// @throws IllegalArgumentException if the arguments are invalid, or a folder is none
    public BuildWeaver(String arguments, Path originals, List<Path> folders, List<Path> classPath) {
        classes = new Classes(arguments);
        this.originals = originals;
        this.folders = folders.stream().map(BuildWeaver::realFolder).toList();
        this.classPath = List.copyOf(classPath);
        weaver = new Weaver(FieldNumbers.ofClassFiles(), classes);
        weaver.weaveReads();
    }

    /// A walk through files does not follow a link with which it begins.
    private static Path realFolder(Path folder) {
        if (!Files.isDirectory(folder)) {
            throw new IllegalArgumentException("cannot weave the classes in " + folder + ": it is no folder");
        }
        try {
            return folder.toRealPath();
        } catch (IOException e) {
            throw new UncheckedIOException("cannot weave the classes in " + folder, e);
        }
    }

    /// Weaves the classes.
    ///
    /// @throws IOException if a file cannot be read or written
    public Outcome weave() throws IOException {
        try (URLClassLoader loader = loader()) {
            for (Path folder : folders) {
                removeWritten(folder);
                for (Path file : classFiles(folder)) {
                    weave(loader, folder, file);
                }
            }
        }
        if (failures.isEmpty() && !changed.isEmpty()) {
            if (originals != null) {
                removeWritten(originals);
            }
            for (Map.Entry<Path, Changed> file : changed.entrySet()) {
                replace(file.getKey(), file.getValue());
            }
        }
        return new Outcome(wovenCount, kept, left, List.copyOf(failures));
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
        byte[] content = Files.readAllBytes(file);
        Path original = originals == null ? null : originals.resolve(folder.relativize(file));
        String name = file.toString();
        try {
            ClassModel type = Weaver.parse(content);
            name = type.thisClass().asInternalName().replace('/', '.');
            checkPlace(folder, file, type);
            WovenAttribute woven = WovenAttribute.of(content);
            byte[] compiled = woven == null || woven.isSame(classes, loader, type) ? null : compiled(original, woven);
            if (woven == null) {
                if (isOfApplication(loader, type) && Calls.areIn(type)) {
                    throw new IllegalArgumentException(WovenAttribute.REMOVED);
                }
                weave(loader, file, content, original, false);
            } else if (compiled != null) {
                weave(loader, file, compiled, original, true);
            } else {
                woven.check(classes, loader, type);
                kept++;
            }
        } catch (UnstructuredException | RuntimeException | StackOverflowError e) {
            failures.add("cannot weave the class " + name + ": " + e.getMessage());
        }
    }

    /// Returns a class as it was compiled, or null: it was not kept.
    private static byte[] compiled(Path original, WovenAttribute woven) throws IOException {
        if (original == null || !Files.exists(original)) {
            return null;
        }
        byte[] compiled = Files.readAllBytes(original);
        return WovenAttribute.checksum(compiled) == woven.original ? compiled : null;
    }

    /// @param isWoven whether the file is woven, and has to be so again, or not any more
    private void weave(ClassLoader loader, Path file, byte[] content, Path original, boolean isWoven)
            throws UnstructuredException {
        ClassModel type = Weaver.parse(content);
        if (!isLeft(loader, type)) {
            changed.put(file, new Changed(content, woven(loader, content, type), original));
            wovenCount++;
            return;
        }
        left++;
        if (isWoven) {
            changed.put(file, new Changed(content, content, original));
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
                || !isOfApplication(loader, type)
                || !classes.weaves(loader, type);
    }

    private boolean isOfApplication(ClassLoader loader, ClassModel type) {
        return classes.kind(loader, type.thisClass().asInternalName()) == Weaver.Kind.APPLICATION;
    }

    private byte[] woven(ClassLoader loader, byte[] original, ClassModel type) throws UnstructuredException {
        byte[] woven = weaver.weave(original, Weaver.Kind.APPLICATION, loader, false, false);
        String name = type.thisClass().asInternalName();
        Map<String, String> choices = classes.choices(loader, Weaver.parse(woven));
        return new WovenAttribute(
                        WeaverVersion.get(),
                        name,
                        WovenAttribute.checksum(original),
                        choices,
                        weaver.readFields(loader, name))
                .addedTo(woven);
    }

    /// A build that is killed leaves no half of a file, and no woven class without its original.
    private static void replace(Path file, Changed changed) throws IOException {
        if (changed.kept != null) {
            Files.createDirectories(changed.kept.getParent());
            replace(changed.kept, changed.original);
        }
        replace(file, changed.woven);
    }

    private static void replace(Path file, byte[] content) throws IOException {
        Path written = file.resolveSibling(
                file.getFileName() + "." + ProcessHandle.current().pid() + WRITTEN);
        try {
            Files.write(written, content);
            Files.move(written, file, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
        } finally {
            Files.deleteIfExists(written);
        }
    }

    /// Removes files that a weaver which was killed had not moved to their places. Those of one that runs stay.
    private static void removeWritten(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            return;
        }
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.filter(BuildWeaver::isOfEndedProcess).toList()) {
                Files.deleteIfExists(file);
            }
        }
    }

    private static boolean isOfEndedProcess(Path file) {
        Matcher name = WRITTEN_NAME.matcher(file.getFileName().toString());
        return name.matches() && ProcessHandle.of(Long.parseLong(name.group(1))).isEmpty();
    }
}
