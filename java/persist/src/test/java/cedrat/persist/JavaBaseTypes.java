package cedrat.persist;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.classfile.Attributes;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.FieldModel;
import java.lang.classfile.attribute.InnerClassInfo;
import java.lang.module.ModuleDescriptor;
import java.lang.reflect.AccessFlag;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URI;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.stream.Stream;

/// Makes the list of the types of `java.base` that change, of the JDK by which it is run:
///
/// ```text
/// java java/persist/src/test/java/cedrat/persist/JavaBaseTypes.java \
///     > java/persist/src/main/resources/cedrat/persist/java.base.types
/// ```
///
/// What nobody has decided on is refused, so a type that a later JDK adds is never half restored.
final class JavaBaseTypes {
    /// What a class file says.
    private record Shape(
            String name, String superclass, boolean isPublic, boolean isInterface, String outer, List<Holder> state) {}

    /// An instance field.
    private record Holder(boolean isFinal, String descriptor) {}

    private static final Set<String> IMMUTABLE = Set.of(
            "java/lang/Object",
            "java/lang/String",
            "java/lang/Boolean",
            "java/lang/Byte",
            "java/lang/Character",
            "java/lang/Short",
            "java/lang/Integer",
            "java/lang/Long",
            "java/lang/Float",
            "java/lang/Double",
            "java/lang/Class");

    /// What they change is in no field of theirs.
    private static final Set<String> STATE_ELSEWHERE =
            Set.of("java/lang/ThreadLocal", "java/lang/InheritableThreadLocal", "java/lang/Runtime");

    private final Map<String, Shape> shapes = new HashMap<>();
    private final Set<String> exported = new HashSet<>();
    private final Map<String, Boolean> changes = new HashMap<>();

    JavaBaseTypes() {
        for (ModuleDescriptor.Exports exports :
                Object.class.getModule().getDescriptor().exports()) {
            if (!exports.isQualified()) {
                exported.add(exports.source().replace('.', '/'));
            }
        }
        Path root = FileSystems.getFileSystem(URI.create("jrt:/")).getPath("modules/java.base");
        try (Stream<Path> files = Files.walk(root)) {
            for (Path file : (Iterable<Path>) files::iterator) {
                if (file.toString().endsWith(".class") && !file.toString().endsWith("module-info.class")) {
                    add(ClassFile.of().parse(Files.readAllBytes(file)));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// Prints the list.
    public static void main(String[] arguments) {
        System.out.print(new JavaBaseTypes().text());
    }

    private void add(ClassModel type) {
        List<Holder> state = type.fields().stream()
                .filter(field -> !field.flags().has(AccessFlag.STATIC))
                .map(JavaBaseTypes::holder)
                .toList();
        String name = type.thisClass().asInternalName();
        boolean isPublic = type.flags().has(AccessFlag.PUBLIC);
        String outer = null;
        for (InnerClassInfo inner : type.findAttribute(Attributes.innerClasses())
                .map(attribute -> attribute.classes())
                .orElse(List.of())) {
            if (inner.innerClass().asInternalName().equals(name)) {
                isPublic = inner.has(AccessFlag.PUBLIC) || inner.has(AccessFlag.PROTECTED);
                outer = inner.outerClass().map(one -> one.asInternalName()).orElse("");
            }
        }
        String superclass = type.superclass().map(one -> one.asInternalName()).orElse(null);
        boolean isInterface = type.flags().has(AccessFlag.INTERFACE);
        shapes.put(name, new Shape(name, superclass, isPublic, isInterface, outer, state));
    }

    private static Holder holder(FieldModel field) {
        return new Holder(field.flags().has(AccessFlag.FINAL), field.fieldType().stringValue());
    }

    private boolean isPublic(Shape shape) {
        return shape.isPublic
                && exported.contains(shape.name.substring(0, shape.name.lastIndexOf('/')))
                && (shape.outer == null || shapes.containsKey(shape.outer) && isPublic(shapes.get(shape.outer)));
    }

    /// Whether objects of exactly this class change, or are made of what changes.
    private boolean changes(String name) {
        Shape shape = shapes.get(name);
        if (shape == null || IMMUTABLE.contains(name)) {
            return false;
        }
        Boolean known = changes.get(name);
        if (known != null) {
            return known;
        }
        // Of classes that contain each other the others decide.
        changes.put(name, false);
        boolean found = shape.isInterface
                || STATE_ELSEWHERE.contains(name)
                || shape.superclass != null && changes(shape.superclass)
                || shape.state.stream().anyMatch(this::changes);
        changes.put(name, found);
        return found;
    }

    private boolean changes(Holder field) {
        String type = field.descriptor;
        return !field.isFinal
                || type.startsWith("[")
                || type.startsWith("L") && changes(type.substring(1, type.length() - 1));
    }

    /// The public classes that change, and those of which the JDK has other subclasses that do.
    Set<String> changing() {
        Set<String> found = new TreeSet<>();
        for (Shape shape : shapes.values()) {
            if (!shape.isInterface && changes(shape.name)) {
                Shape nearest = shape;
                while (!isPublic(nearest)) {
                    nearest = shapes.get(nearest.superclass);
                }
                if (!IMMUTABLE.contains(nearest.name) || shape == nearest) {
                    found.add(nearest.name.replace('/', '.'));
                }
            }
        }
        return found;
    }

    // ---- the decisions

    private record Decision(String treatment, String reason) {}

    private static Decision harmless(String reason) {
        return new Decision("harmless", reason);
    }

    private static final Decision WOVEN = new Decision("woven", "");
    private static final Decision SAVED = new Decision("saved", "");
    private static final Decision REFUSED = new Decision("refused", "");

    private static Decision decide(Class<?> type) {
        if (Throwable.class.isAssignableFrom(type)) {
            return harmless("tells its catcher what happened, see J14");
        }
        if (Enum.class.isAssignableFrom(type)) {
            return harmless("a value; its hash is computed once");
        }
        if (type.isRecord() || type == Record.class || type == Number.class) {
            return harmless("has no fields that change");
        }
        if (type.getSimpleName().endsWith("Builder") && !type.getName().startsWith("java.lang.String")) {
            return REFUSED;
        }
        if (type.getSimpleName().endsWith("Permission")) {
            return harmless("immutable; parts of it are computed once");
        }
        return switch (type.getPackageName()) {
            case "java.lang" -> ofLang(type.getName());
            case "java.io" -> ofIo(type.getSimpleName());
            case "java.util" -> ofUtil(type.getName().substring("java.util.".length()));
            case "java.math", "java.lang.constant" -> harmless("immutable; parts of it are computed once");
            case "java.lang.invoke" ->
                type.getSimpleName().matches("MutableCallSite|VolatileCallSite|SwitchPoint")
                        ? REFUSED
                        : harmless("tells of code; what is stored by it is another matter");
            case "java.lang.reflect", "java.lang.module", "java.lang.classfile" ->
                harmless("tells of code; what is stored by it is another matter");
            case "java.time", "java.time.chrono", "java.time.format", "java.time.zone", "java.time.temporal" ->
                harmless("immutable; parts of it are computed once");
            case "java.nio" -> type.getSimpleName().startsWith("Mapped") ? REFUSED : SAVED;
            case "java.nio.charset" ->
                type.getSimpleName().equals("Charset") ? harmless("immutable; parts of it are computed once") : REFUSED;
            case "java.nio.file.attribute" -> harmless("immutable; parts of it are computed once");
            case "java.net" -> ofNet(type.getSimpleName());
            case "java.text" -> ofText(type.getSimpleName());
            case "java.util.zip" -> type.getSimpleName().matches("CRC32C?|Adler32") ? SAVED : REFUSED;
            case "java.util.jar" ->
                type.getSimpleName().matches("Attributes|Name|Manifest")
                        ? harmless("keeps what changes in a woven map")
                        : REFUSED;
            case "java.util.regex" ->
                type.getSimpleName().equals("Matcher") ? SAVED : harmless("immutable; parts of it are computed once");
            case "java.util.concurrent.locks" -> harmless("waiting and waking, as by monitors");
            case "java.util.concurrent" -> ofConcurrent(type.getSimpleName());
            case "java.security" -> ofSecurity(type.getSimpleName());
            default -> REFUSED;
        };
    }

    private static Decision ofLang(String name) {
        return switch (name) {
            case "java.lang.AbstractStringBuilder", "java.lang.StringBuffer", "java.lang.StringBuilder" -> SAVED;
            case "java.lang.Process",
                    "java.lang.ProcessBuilder",
                    "java.lang.Thread",
                    "java.lang.ThreadGroup",
                    "java.lang.ThreadLocal",
                    "java.lang.InheritableThreadLocal" -> REFUSED;
            case "java.lang.ClassLoader", "java.lang.ClassValue", "java.lang.Class", "java.lang.Module" ->
                harmless("loading and linking are no part of a transaction");
            case "java.lang.ModuleLayer", "java.lang.ModuleLayer$Controller", "java.lang.Package" ->
                harmless("loading and linking are no part of a transaction");
            case "java.lang.Runtime" -> harmless("the virtual machine's, outside of the program's memory");
            case "java.lang.String",
                    "java.lang.StackTraceElement",
                    "java.lang.Runtime$Version",
                    "java.lang.Character" -> harmless("immutable; parts of it are computed once");
            case "java.lang.Boolean", "java.lang.Byte", "java.lang.Short", "java.lang.Integer", "java.lang.Long" ->
                harmless("immutable");
            case "java.lang.Float",
                    "java.lang.Double",
                    "java.lang.Character$Subset",
                    "java.lang.Character$UnicodeBlock" -> harmless("immutable");
            case "java.lang.Enum$EnumDesc", "java.lang.ProcessBuilder$Redirect", "java.lang.StackWalker" ->
                harmless("immutable");
            default -> REFUSED;
        };
    }

    private static Decision ofIo(String name) {
        return switch (name) {
            case "ByteArrayInputStream",
                    "ByteArrayOutputStream",
                    "CharArrayReader",
                    "CharArrayWriter",
                    "StringWriter" -> SAVED;
            case "File" -> harmless("immutable; parts of it are computed once");
            case "ObjectStreamClass", "ObjectStreamField" -> harmless("tells of code");
            default -> REFUSED;
        };
    }

    private static Decision ofUtil(String name) {
        return switch (name) {
            case "Random", "SplittableRandom", "Date", "Calendar", "GregorianCalendar", "TimeZone", "SimpleTimeZone" ->
                SAVED;
            case "Formatter", "Properties", "Scanner", "ServiceLoader", "Timer", "TimerTask" -> REFUSED;
            case "HexFormat", "Currency", "Locale", "Locale$LanguageRange", "UUID" ->
                harmless("immutable; parts of it are computed once");
            case "Base64$Decoder", "Base64$Encoder" -> harmless("immutable");
            case "ListResourceBundle", "PropertyResourceBundle", "ResourceBundle", "ResourceBundle$Control" ->
                harmless("texts that are loaded once");
            default -> WOVEN;
        };
    }

    private static Decision ofNet(String name) {
        return switch (name) {
            case "Inet4Address", "Inet6Address", "InetAddress", "InetSocketAddress", "InterfaceAddress" ->
                harmless("immutable; parts of it are computed once");
            case "NetworkInterface", "SocketAddress", "URI", "URL" ->
                harmless("immutable; parts of it are computed once");
            case "UnixDomainSocketAddress" -> harmless("immutable; parts of it are computed once");
            case "URLClassLoader" -> harmless("loading and linking are no part of a transaction");
            default -> REFUSED;
        };
    }

    private static Decision ofText(String name) {
        return switch (name) {
            case "ChoiceFormat", "CompactNumberFormat", "DateFormat", "DateFormatSymbols", "DecimalFormat" -> SAVED;
            case "DecimalFormatSymbols", "FieldPosition", "Format", "MessageFormat", "NumberFormat" -> SAVED;
            case "ParsePosition", "SimpleDateFormat", "StringCharacterIterator" -> SAVED;
            case "Annotation", "Attribute", "Field", "CollationKey" -> harmless("immutable");
            default -> REFUSED;
        };
    }

    private static Decision ofConcurrent(String name) {
        return switch (name) {
            case "CountDownLatch", "CyclicBarrier", "Exchanger", "Phaser", "Semaphore" ->
                harmless("waiting and waking, as by monitors");
            case "ThreadLocalRandom" -> harmless("no program can have its numbers twice");
            default -> REFUSED;
        };
    }

    private static Decision ofSecurity(String name) {
        return switch (name) {
            case "SecureRandom", "SecureRandomSpi" -> harmless("no program can have its numbers twice");
            case "SecureClassLoader" -> harmless("loading and linking are no part of a transaction");
            default -> REFUSED;
        };
    }

    // ---- methods

    private static Class<?> load(String name) {
        try {
            return Class.forName(name, false, null);
        } catch (ClassNotFoundException e) {
            throw new AssertionError(name + " of java.base is not found", e);
        }
    }

    /// The names of its methods, those that it inherits included.
    private static Set<String> methods(Class<?> type) {
        Set<String> names = new TreeSet<>();
        for (Method method : type.getMethods()) {
            addName(names, method);
        }
        for (Class<?> one = type; one != null && one != Object.class; one = one.getSuperclass()) {
            for (Method method : one.getDeclaredMethods()) {
                if (Modifier.isProtected(method.getModifiers())) {
                    addName(names, method);
                }
            }
        }
        return names;
    }

    private static void addName(Set<String> names, Method method) {
        if (!Modifier.isStatic(method.getModifiers()) && method.getDeclaringClass() != Object.class) {
            names.add(method.getName());
        }
    }

    private static final Set<String> BUFFER_READERS = Set.of(
            ("alignedSlice alignmentOffset array arrayOffset asReadOnlyBuffer capacity charAt chars codePoints compareTo duplicate "
                            + "equals getChars hasArray hashCode hasRemaining isDirect isEmpty isReadOnly length mismatch remaining "
                            + "slice subSequence toString")
                    .split(" "));

    private static final Set<String> MATCHER_READERS =
            Set.of("end groupCount group hasMatch hitEnd namedGroups pattern regionEnd regionStart requireEnd start"
                    .split(" "));

    private static final Set<String> READERS = Set.of(
            ("after available await awaitTermination before byteValue ceiling ceilingEntry ceilingKey charAt chars "
                            + "checkAccess checkGuard clone codePointAt codePointBefore codePointCount codePoints comparator compare compareTo count "
                            + "descendingIterator descendingKeySet descendingMap descendingSet describeConstable "
                            + "doubleValue element elements entrySet equals exceptionNow finalize firstEntry firstKey "
                            + "floatValue floor floorEntry floorKey forEach forEachEntry forEachKey forEachValue "
                            + "hashCode headMap headSet higher higherEntry higherKey implies indexOf interrupt intValue "
                            + "iterator join keySet keys lastEntry lastIndexOf lastKey length list listIterator "
                            + "longValue lower lowerEntry lowerKey mappingCount markSupported navigableKeySet newPermissionCollection "
                            + "offsetByCodePoints parallelStream peek peekFirst peekLast propertyNames provider ready refersTo "
                            + "remainingCapacity resolveConstantDesc resultNow reversed shortValue size spliterator state stream "
                            + "stringPropertyNames subList subMap subSequence subSet substring sum supportedOptions tailMap tailSet threadId "
                            + "uncaughtException values")
                    .split(" "));

    /// Whether a method leaves its receiver as it is, as far as anybody can see.
    private static boolean onlyReads(Class<?> type, String name) {
        if (type.getPackageName().equals("java.nio")) {
            return BUFFER_READERS.contains(name);
        }
        if (type == Matcher.class && MATCHER_READERS.contains(name)) {
            return true;
        }
        // Iterators of texts go there.
        if (name.equals("first") || name.equals("last")) {
            return !type.getPackageName().equals("java.text");
        }
        return READERS.contains(name)
                || isWord(name, "get") && !isWord(name, "getAnd")
                || isWord(name, "is")
                || isWord(name, "to")
                || isWord(name, "contains")
                || isWord(name, "has") && type != Scanner.class
                || isWord(name, "reduce")
                || isWord(name, "search")
                || isWord(name, "supports")
                || isWord(name, "thenComparing");
    }

    /// Whether a name is a word, or begins with it.
    private static boolean isWord(String name, String word) {
        return name.startsWith(word)
                && (name.length() == word.length() || Character.isUpperCase(name.charAt(word.length())));
    }

    // ---- the list

    /// The list.
    String text() {
        Map<Class<?>, Decision> decisions = new HashMap<>();
        Map<Class<?>, Set<String>> stores = new HashMap<>();
        for (String name : changing()) {
            Class<?> type = load(name);
            Decision decision = decide(type);
            decisions.put(type, decision);
            if (decision == SAVED || decision == REFUSED) {
                Set<String> names = methods(type);
                names.removeIf(method -> onlyReads(type, method));
                if (names.isEmpty()) {
                    decisions.put(type, harmless("has no method that changes it"));
                } else {
                    stores.put(type, names);
                }
            }
        }
        Map<String, String> lines = new TreeMap<>();
        decisions.forEach((type, decision) -> {
            String rest = stores.containsKey(type) || decision == WOVEN
                    ? String.join(",", stores.containsKey(type) ? stores.get(type) : looked(type, stores))
                    : decision.reason;
            lines.put(type.getName(), (type.getName() + " " + decision.treatment + " " + rest).stripTrailing());
        });
        for (Shape shape : shapes.values()) {
            if (shape.isInterface && isPublic(shape)) {
                Class<?> type = load(shape.name.replace('/', '.'));
                Set<String> names = looked(type, stores);
                if (!names.isEmpty()) {
                    lines.put(type.getName(), type.getName() + " interface " + String.join(",", names));
                }
            }
        }
        return String.join("\n", lines.values()) + "\n";
    }

    /// Methods by which objects of such subtypes are changed. Nobody uses a `Scanner` as an iterator, and every
    /// loop would be slower for it.
    private static Set<String> looked(Class<?> type, Map<Class<?>, Set<String>> stores) {
        Set<String> names = new TreeSet<>();
        Set<String> own = methods(type);
        stores.forEach((subtype, changing) -> {
            if (type.isAssignableFrom(subtype) && !(type == Iterator.class && subtype == Scanner.class)) {
                changing.stream().filter(own::contains).forEach(names::add);
            }
        });
        return names;
    }
}
