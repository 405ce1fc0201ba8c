package cedrat.persist.jdk;

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
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/// Makes the list of the types of `java.base` that change, of the JDK by which it is run:
///
/// ```text
/// java java/persist/src/test/java/cedrat/persist/jdk/JavaBaseTypes.java \
///     > java/persist/src/main/resources/cedrat/persist/jdk/java.base.types
/// ```
///
/// A type without a decision is refused, so a type that a later JDK adds is never half restored.
final class JavaBaseTypes {
    /// Structure of a class file.
    private record Shape(
            String name,
            String superclass,
            List<String> interfaces,
            boolean isPublic,
            boolean isInterface,
            String outer,
            List<Holder> state) {}

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

    /// Types that change state outside of their fields.
    private static final Set<String> STATE_ELSEWHERE = Set.of(
            "java/lang/InheritableThreadLocal",
            "java/lang/Runtime",
            "java/lang/ThreadLocal",
            "java/lang/invoke/VarHandle",
            "java/util/concurrent/atomic/AtomicIntegerFieldUpdater",
            "java/util/concurrent/atomic/AtomicLongFieldUpdater",
            "java/util/concurrent/atomic/AtomicReferenceFieldUpdater");

    private static final String STATIC_CHANGE =
            "(add|clear|delete|disable|enable|insert|invalidate|put|register|remove|reset|set|unregister)([A-Z].*)?";

    private final Map<String, Shape> shapes = new HashMap<>();
    private final Set<String> exported = new HashSet<>();
    /// Classes whose objects change, or are made of what changes; interfaces may have such.
    private final Set<String> changing = new HashSet<>();
    /// Their superclasses: a variable of such a type may hold one of them.
    private final Set<String> above = new HashSet<>();

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
        boolean isComplete = false;
        while (!isComplete) {
            List<Shape> found = shapes.values().stream().filter(this::changes).toList();
            isComplete = !changing.addAll(found.stream().map(Shape::name).toList());
            found.forEach(this::addAbove);
        }
        decide();
    }

    private void addAbove(Shape shape) {
        String name = shape.superclass;
        while (name != null && !IMMUTABLE.contains(name)) {
            above.add(name);
            name = shapes.get(name).superclass;
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
        List<String> interfaces =
                type.interfaces().stream().map(one -> one.asInternalName()).toList();
        boolean isInterface = type.flags().has(AccessFlag.INTERFACE);
        shapes.put(name, new Shape(name, superclass, interfaces, isPublic, isInterface, outer, state));
    }

    private static Holder holder(FieldModel field) {
        return new Holder(field.flags().has(AccessFlag.FINAL), field.fieldType().stringValue());
    }

    private boolean isPublic(Shape shape) {
        return shape.isPublic
                && exported.contains(shape.name.substring(0, shape.name.lastIndexOf('/')))
                && (shape.outer == null || shapes.containsKey(shape.outer) && isPublic(shapes.get(shape.outer)));
    }

    /// As far as is known of others.
    private boolean changes(Shape shape) {
        return !IMMUTABLE.contains(shape.name)
                && (shape.isInterface
                        || STATE_ELSEWHERE.contains(shape.name)
                        || changing.contains(shape.superclass)
                        || shape.state.stream().anyMatch(this::changes));
    }

    private boolean changes(Holder field) {
        String type = field.descriptor;
        return !field.isFinal
                || type.startsWith("[")
                || type.startsWith("L") && mayChange(type.substring(1, type.length() - 1));
    }

    private boolean mayChange(String name) {
        return changing.contains(name) || above.contains(name);
    }

    /// The public classes that change, those of which the JDK has other subclasses that do, and the
    /// interfaces of classes that have none of these.
    Set<String> changing() {
        Set<String> found = new TreeSet<>();
        for (Shape shape : shapes.values()) {
            if (shape.isInterface || !changing.contains(shape.name)) {
                continue;
            }
            Shape nearest = shape;
            while (!isPublic(nearest)) {
                nearest = shapes.get(nearest.superclass);
            }
            if (!IMMUTABLE.contains(nearest.name) || shape == nearest) {
                found.add(nearest.name.replace('/', '.'));
            } else if (!isWoven(shape)) {
                addInterfaces(shape, found);
            }
        }
        return found;
    }

    /// The public static methods whose names begin as those that change something do, by the internal names
    /// of their classes.
    Map<String, Set<String>> staticChanges() {
        Map<String, Set<String>> found = new TreeMap<>();
        for (Shape shape : shapes.values()) {
            if (!isPublic(shape)) {
                continue;
            }
            for (Method method : load(shape.name.replace('/', '.')).getMethods()) {
                if (Modifier.isStatic(method.getModifiers()) && method.getName().matches(STATIC_CHANGE)) {
                    found.computeIfAbsent(shape.name, name -> new TreeSet<>()).add(method.getName());
                }
            }
        }
        return found;
    }

    private static boolean isWoven(Shape shape) {
        String outermost = shape.name.replaceFirst("[$].*", "");
        return outermost.matches("java/util/[^/]+") && decide(load(outermost.replace('/', '.'))) == WOVEN;
    }

    private void addInterfaces(Shape shape, Set<String> found) {
        for (String name : shape.interfaces) {
            Shape one = shapes.get(name);
            if (isPublic(one)) {
                found.add(name.replace('/', '.'));
            }
            addInterfaces(one, found);
        }
        if (shape.superclass != null) {
            addInterfaces(shapes.get(shape.superclass), found);
        }
    }

    // ---- the decisions

    /// @param reason of a harmless type, otherwise empty
    private record Decision(String treatment, String reason) {
        boolean isHarmless() {
            return !reason.isEmpty();
        }
    }

    private static Decision harmless(String reason) {
        return new Decision("harmless", reason);
    }

    private static final String IMMUTABLE_BUT_FOR_CACHES = "immutable; parts of it are computed once";
    private static final String OF_CODE = "tells of code; what is stored by it is another matter";
    private static final String LOADING = "loading and linking are no part of a transaction";
    private static final String WAITING = "waiting and waking, as by monitors";
    private static final String CHANCE = "no program can have its numbers twice";
    private static final String OUTSIDE = "outside of the program's memory";
    private static final String BY_HANDLE = "what it stores to is kept before the call";
    private static final String MAKER = "makes objects, and stays as it is";
    private static final String CALLED = "code that is called; what it changes has its own type";

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
        if (type.getPackageName().startsWith("java.lang.classfile")) {
            return harmless(OF_CODE);
        }
        if (type.getSimpleName().endsWith("Builder") && !type.getName().startsWith("java.lang.String")) {
            return REFUSED;
        }
        if (type.getSimpleName().endsWith("Permission")) {
            return harmless(IMMUTABLE_BUT_FOR_CACHES);
        }
        Decision ofInterface = type.isInterface() ? ofInterface(type) : null;
        if (ofInterface != null) {
            return ofInterface;
        }
        return switch (type.getPackageName()) {
            case "java.lang" -> ofLang(type.getName());
            case "java.io" -> ofIo(type.getSimpleName());
            case "java.util" -> ofUtil(type.getName().substring("java.util.".length()));
            case "java.math", "java.lang.constant" -> harmless(IMMUTABLE_BUT_FOR_CACHES);
            case "java.lang.invoke" ->
                switch (type.getSimpleName()) {
                    case "MutableCallSite", "SwitchPoint", "VolatileCallSite" -> REFUSED;
                    case "VarHandle" -> harmless(BY_HANDLE);
                    default -> harmless(OF_CODE);
                };
            case "java.lang.reflect", "java.lang.module" -> harmless(OF_CODE);
            case "java.time", "java.time.chrono", "java.time.format", "java.time.zone", "java.time.temporal" ->
                harmless(IMMUTABLE_BUT_FOR_CACHES);
            case "java.nio" -> type.getSimpleName().startsWith("Mapped") ? REFUSED : SAVED;
            case "java.nio.channels" -> type.getSimpleName().equals("Pipe") ? harmless("immutable") : REFUSED;
            case "java.nio.charset" ->
                type.getSimpleName().equals("Charset") ? harmless(IMMUTABLE_BUT_FOR_CACHES) : REFUSED;
            case "java.nio.charset.spi", "javax.net" -> harmless(MAKER);
            case "java.nio.file", "java.nio.file.spi" ->
                type.getSimpleName().equals("FileSystem") ? REFUSED : harmless(OUTSIDE);
            case "java.nio.file.attribute" -> harmless(IMMUTABLE_BUT_FOR_CACHES);
            case "java.net" -> ofNet(type.getSimpleName());
            case "java.text" -> ofText(type.getSimpleName());
            case "java.util.zip" -> type.getSimpleName().matches("CRC32C?|Adler32") ? SAVED : REFUSED;
            case "java.util.jar" ->
                type.getSimpleName().matches("Attributes|Name|Manifest")
                        ? harmless("keeps what changes in a woven map")
                        : REFUSED;
            case "java.util.regex" ->
                type.getSimpleName().equals("Matcher") ? SAVED : harmless(IMMUTABLE_BUT_FOR_CACHES);
            case "java.util.concurrent.locks" -> harmless(WAITING);
            case "java.util.concurrent" -> ofConcurrent(type.getSimpleName());
            case "java.util.concurrent.atomic" ->
                type.getSimpleName().endsWith("FieldUpdater") ? harmless(BY_HANDLE) : REFUSED;
            case "java.security" -> ofSecurity(type.getSimpleName());
            case "java.security.cert" ->
                type.getSimpleName().matches("CertPath|CertPathRep|Certificate|CertificateRep|X509CRL|X509Certificate")
                        ? harmless(IMMUTABLE_BUT_FOR_CACHES)
                        : REFUSED;
            case "javax.crypto" -> type.getName().startsWith("javax.crypto.KEM") ? harmless("immutable") : REFUSED;
            case "javax.crypto.spec" ->
                type.getSimpleName().matches("PBEKeySpec|SecretKeySpec") ? REFUSED : harmless("immutable");
            case "javax.net.ssl" -> ofSsl(type.getSimpleName());
            default -> REFUSED;
        };
    }

    /// Returns the decision about the classes behind an interface, or null if its package decides.
    private static Decision ofInterface(Class<?> type) {
        return switch (type.getPackageName()) {
            case "java.util.function" -> harmless(CALLED);
            case "java.util.stream" -> harmless("used once, and says so when it is used again");
            case "java.util.random" -> SAVED;
            case "java.lang.foreign" ->
                switch (type.getSimpleName()) {
                    case "MemorySegment" -> SAVED;
                    case "Arena", "SegmentAllocator" -> REFUSED;
                    default -> harmless("immutable");
                };
            case "java.nio.file", "java.nio.file.attribute" -> harmless(OUTSIDE);
            default ->
                switch (type.getName()) {
                    case "java.util.Iterator", "java.util.ListIterator", "java.util.Enumeration" -> SAVED;
                    case "java.util.PrimitiveIterator", "java.util.PrimitiveIterator$OfDouble" -> SAVED;
                    case "java.util.PrimitiveIterator$OfInt", "java.util.PrimitiveIterator$OfLong" -> SAVED;
                    case "java.text.CharacterIterator", "java.text.AttributedCharacterIterator" -> SAVED;
                    case "java.util.Map$Entry", "java.util.Spliterator", "java.util.Spliterator$OfPrimitive" -> REFUSED;
                    case "java.util.Spliterator$OfDouble", "java.util.Spliterator$OfInt" -> REFUSED;
                    case "java.util.Spliterator$OfLong" -> REFUSED;
                    case "java.io.Closeable", "java.io.Externalizable", "java.io.ObjectInputFilter" -> harmless(CALLED);
                    case "java.lang.AutoCloseable", "java.lang.Comparable", "java.lang.Runnable" -> harmless(CALLED);
                    case "java.security.AlgorithmConstraints", "java.security.PrivilegedAction" -> harmless(CALLED);
                    case "java.util.concurrent.Callable", "java.util.concurrent.ThreadFactory" -> harmless(CALLED);
                    case "java.util.concurrent.ForkJoinPool$ManagedBlocker" -> harmless(CALLED);
                    case "java.util.concurrent.StructuredTaskScope$Joiner" -> harmless(CALLED);
                    case "java.util.concurrent.StructuredTaskScope$Subtask" -> harmless(CALLED);
                    case "javax.net.ssl.HandshakeCompletedListener" -> harmless(CALLED);
                    case "java.io.ObjectInputFilter$FilterInfo", "java.security.cert.Extension" ->
                        harmless("immutable");
                    case "java.net.spi.InetAddressResolverProvider$Configuration" -> harmless("immutable");
                    case "java.lang.ProcessHandle$Info", "java.lang.System$Logger" -> harmless(OUTSIDE);
                    default -> null;
                };
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
                harmless(LOADING);
            case "java.lang.ModuleLayer", "java.lang.ModuleLayer$Controller", "java.lang.Package" -> harmless(LOADING);
            case "java.lang.Runtime" -> harmless(OUTSIDE);
            case "java.lang.String",
                    "java.lang.StackTraceElement",
                    "java.lang.Runtime$Version",
                    "java.lang.Character" -> harmless(IMMUTABLE_BUT_FOR_CACHES);
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
            case "File" -> harmless(IMMUTABLE_BUT_FOR_CACHES);
            case "ObjectStreamClass", "ObjectStreamField" -> harmless(OF_CODE);
            default -> REFUSED;
        };
    }

    private static Decision ofUtil(String name) {
        return switch (name) {
            case "Random", "SplittableRandom", "Date", "Calendar", "GregorianCalendar", "TimeZone", "SimpleTimeZone" ->
                SAVED;
            case "Formatter", "Properties", "Scanner", "Timer", "TimerTask" -> REFUSED;
            case "ServiceLoader" -> harmless(LOADING);
            case "HexFormat", "Currency", "Locale", "Locale$LanguageRange", "UUID" ->
                harmless(IMMUTABLE_BUT_FOR_CACHES);
            case "Base64$Decoder", "Base64$Encoder" -> harmless("immutable");
            case "ListResourceBundle", "PropertyResourceBundle", "ResourceBundle", "ResourceBundle$Control" ->
                harmless("texts that are loaded once");
            default -> WOVEN;
        };
    }

    private static Decision ofNet(String name) {
        return switch (name) {
            case "Inet4Address", "Inet6Address", "InetAddress", "InetSocketAddress", "InterfaceAddress" ->
                harmless(IMMUTABLE_BUT_FOR_CACHES);
            case "NetworkInterface", "SocketAddress", "URI", "URL" -> harmless(IMMUTABLE_BUT_FOR_CACHES);
            case "UnixDomainSocketAddress" -> harmless(IMMUTABLE_BUT_FOR_CACHES);
            case "URLClassLoader" -> harmless(LOADING);
            case "Proxy" -> harmless("immutable");
            case "URLStreamHandler" -> harmless(MAKER);
            default -> REFUSED;
        };
    }

    private static Decision ofText(String name) {
        return switch (name) {
            case "ChoiceFormat", "CompactNumberFormat", "DateFormat", "DateFormatSymbols", "DecimalFormat" -> SAVED;
            case "DecimalFormatSymbols", "FieldPosition", "Format", "MessageFormat", "NumberFormat" -> SAVED;
            case "ParsePosition", "SimpleDateFormat", "StringCharacterIterator" -> SAVED;
            case "Annotation", "Attribute", "Bidi", "CollationKey", "Field", "ListFormat" -> harmless("immutable");
            default -> REFUSED;
        };
    }

    private static Decision ofConcurrent(String name) {
        return switch (name) {
            case "CountDownLatch", "CyclicBarrier", "Exchanger", "Phaser", "Semaphore" -> harmless(WAITING);
            case "ThreadLocalRandom" -> harmless(CHANCE);
            default -> REFUSED;
        };
    }

    private static Decision ofSecurity(String name) {
        return switch (name) {
            case "SecureRandom", "SecureRandomSpi" -> harmless(CHANCE);
            case "SecureClassLoader" -> harmless(LOADING);
            case "AccessControlContext", "KeyRep", "PEMDecoder", "PEMEncoder", "ProtectionDomain", "SignedObject" ->
                harmless("immutable");
            default -> REFUSED;
        };
    }

    private static Decision ofSsl(String name) {
        return switch (name) {
            case "SSLEngineResult" -> harmless("immutable");
            case "SSLServerSocketFactory", "SSLSocketFactory" -> harmless(MAKER);
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

    private static final Set<String> BUFFER_READERS =
            Set.of(("alignedSlice alignmentOffset array arrayOffset asReadOnlyBuffer capacity charAt "
                            + "chars codePoints compareTo duplicate equals getChars hasArray hasRemaining "
                            + "hashCode isDirect isEmpty isReadOnly length mismatch remaining slice subSequence "
                            + "toString")
                    .split(" "));

    private static final Set<String> MATCHER_READERS =
            Set.of("end groupCount group hasMatch hitEnd namedGroups pattern regionEnd regionStart requireEnd start"
                    .split(" "));

    private static final Set<String> READERS =
            Set.of(("acquiredBy activeCount activeGroupCount address after aliases asByteBuffer "
                            + "asIterator asOverlappingSlice asReadOnly asSegment asSlice attachment available "
                            + "averageBytesPerChar averageCharsPerByte await awaitTermination before "
                            + "blockingLock byteSize byteValue cancelledKeys capacity ceiling ceilingEntry "
                            + "ceilingKey channel charAt characteristics chars charset checkAccess checkGuard "
                            + "children clone codePointAt codePointBefore codePointCount codePoints comparator "
                            + "compare compareTo copy count current delimiter descendants descendingIterator "
                            + "descendingKeySet descendingMap descendingSet describeConstable detectedCharset "
                            + "doubleValue dynamicInvoker element elements entryInstanceOf entrySet equals "
                            + "estimateSize exceptionNow exitValue finalize firstEntry firstKey floatValue floor "
                            + "floorEntry floorKey forEach forEachEntry forEachKey forEachValue "
                            + "get2DigitYearStart group hashCode headMap headSet heapBase higher higherEntry "
                            + "higherKey implies indexOf info intValue interrupt ioException iterator join "
                            + "keyFor keySet keys lastEntry lastIndexOf lastKey length list listIterator locale "
                            + "longValue lower lowerEntry lowerKey malformedInputAction mappingCount "
                            + "markSupported match maxByteAlignment maxBytesPerChar maxCharsPerByte mismatch "
                            + "navigableKeySet networkInterface newPermissionCollection newWatchService "
                            + "nextIndex offsetByCodePoints onExit overlaps parallelStream parentOf peek "
                            + "peekFirst peekLast pid previousIndex propertyNames provider radix ready readyOps "
                            + "refersTo reinterpret remainingCapacity replacement resolveConstantDesc resultNow "
                            + "reversed scheduledExecutionTime scope segmentOffset selectedKeys selector "
                            + "sequencedEntrySet sequencedKeySet sequencedValues shortValue size sourceAddress "
                            + "spliterator state stream stringPropertyNames subList subMap subSequence subSet "
                            + "substring sum supportedFileAttributeViews supportedOptions tailMap tailSet "
                            + "threadId type uncaughtException unmappableCharacterAction valid validOps values "
                            + "waitFor")
                    .split(" "));

    /// Whether a method leaves its receiver as it is, as far as anybody can see.
    private static boolean onlyReads(Class<?> type, String name) {
        if (type.getPackageName().equals("java.nio")) {
            return BUFFER_READERS.contains(name);
        }
        if (type == Matcher.class && MATCHER_READERS.contains(name)) {
            return true;
        }
        // The first makes a value, which stays.
        if (ThreadLocal.class.isAssignableFrom(type) && name.equals("get")) {
            return false;
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

    private final Map<Class<?>, Decision> decisions = new HashMap<>();
    /// For each type that is saved or refused, the methods that change it.
    private final Map<Class<?>, Set<String>> stores = new HashMap<>();

    private void decide() {
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
    }

    /// Returns the types that change and need not be restored; no list has them.
    Set<Class<?>> harmless() {
        return decisions.keySet().stream()
                .filter(type -> decisions.get(type).isHarmless())
                .collect(Collectors.toSet());
    }

    /// Returns the text of the list.
    String text() {
        Map<String, String> lines = new TreeMap<>();
        decisions.forEach((type, decision) -> {
            if (!decision.isHarmless()) {
                Set<String> names = stores.containsKey(type) ? stores.get(type) : looked(type, stores);
                String rest = String.join(",", names);
                lines.put(type.getName(), (type.getName() + " " + decision.treatment + " " + rest).stripTrailing());
            }
        });
        for (Shape shape : shapes.values()) {
            Class<?> type = isPublic(shape) ? load(shape.name.replace('/', '.')) : Object.class;
            Set<String> names = looked(type, stores);
            boolean isUndecided = !decisions.containsKey(type) || type.isInterface() && !stores.containsKey(type);
            if (!names.isEmpty() && isUndecided) {
                lines.put(type.getName(), type.getName() + " supertype " + String.join(",", names));
            }
        }
        return String.join("\n", lines.values()) + "\n";
    }

    /// Methods by which objects of such subtypes are changed.
    private static Set<String> looked(Class<?> type, Map<Class<?>, Set<String>> stores) {
        Set<String> names = new TreeSet<>();
        Set<String> own = methods(type);
        stores.forEach((subtype, changing) -> {
            if (type != subtype && type.isAssignableFrom(subtype)) {
                changing.stream().filter(own::contains).forEach(names::add);
            }
        });
        return names;
    }
}
