package cedrat.persist.jdk;

/// Methods whose calls are woven, because they store where no barrier is.
public final class WovenMethods {
    private static final String UNSAFE = "sun/misc/Unsafe";

    private WovenMethods() {}

    /// Whether a method may write into arrays, or builders of strings, that are passed to it. Of the JDK's
    /// all are taken to do so but those of which it is known that they do not: an array that is kept without
    /// need costs time, one that is not kept would not be restored.
    public static boolean mayChangeArguments(String owner, String name, boolean isApplication) {
        if (owner.equals("java/util/Arrays")) {
            return !onlyReads(name);
        }
        if (!isApplication || !isOfJdk(owner)) {
            return false;
        }
        return switch (owner) {
            case "java/lang/String" -> name.equals("getChars") || name.equals("getBytes");
            case "java/lang/StringBuilder", "java/lang/StringBuffer" -> name.equals("getChars");
            case "java/lang/reflect/Array" -> name.startsWith("set");
            case "java/util/List",
                    "java/util/Set",
                    "java/util/Map",
                    "java/util/EnumSet",
                    "java/util/Objects",
                    "java/lang/Class",
                    "java/lang/reflect/Method",
                    "java/lang/reflect/Constructor",
                    "java/io/PrintStream",
                    "java/nio/file/Path" -> name.equals("toArray");
            default -> !owner.startsWith("java/util/stream/") && !owner.startsWith("java/lang/invoke/");
        };
    }

    /// Whether a class of the application may have a method from the JDK that writes into what is passed to
    /// it.
    public static boolean mayInherit(String owner, String name) {
        return !isOfJdk(owner)
                && !owner.startsWith("[")
                && (name.equals("toArray") || name.equals("getChars") || JavaBase.isChange(name));
    }

    private static boolean isOfJdk(String owner) {
        return owner.startsWith("java/") || owner.startsWith("javax/") || owner.startsWith("jdk/");
    }

    /// Of [java.util.Arrays].
    private static boolean onlyReads(String name) {
        return switch (name) {
            case "asList",
                    "binarySearch",
                    "compare",
                    "compareUnsigned",
                    "copyOf",
                    "copyOfRange",
                    "deepEquals",
                    "deepHashCode",
                    "deepToString",
                    "equals",
                    "hashCode",
                    "mismatch",
                    "spliterator",
                    "stream",
                    "toString" -> true;
            default -> false;
        };
    }

    /// Whether a method returns an array that was made in it.
    public static boolean makesArray(String owner, String name) {
        return switch (owner) {
            case "java/util/Arrays" -> name.startsWith("copyOf");
            case "java/lang/reflect/Array" -> name.equals("newInstance");
            default -> owner.startsWith("[") && name.equals("clone");
        };
    }

    /// Of [java.lang.reflect.Field].
    public static boolean isReflectiveStore(String name) {
        return name.startsWith("set") && !name.equals("setAccessible");
    }

    /// Whether a method stores to a variable of an argument.
    public static boolean storesByHandle(String owner, String name) {
        if (owner.equals(UNSAFE)) {
            return name.startsWith("put")
                    || name.startsWith("getAnd")
                    || name.startsWith("compareAnd")
                    || name.endsWith("Memory") && !name.startsWith("allocate") && !name.startsWith("free");
        }
        boolean isHandle = owner.equals("java/lang/invoke/VarHandle")
                || owner.startsWith("java/util/concurrent/atomic/Atomic") && owner.endsWith("FieldUpdater");
        return isHandle
                && switch (name) {
                    case "get", "getAcquire", "getOpaque", "getVolatile" -> false;
                    default ->
                        name.startsWith("get")
                                || name.startsWith("set")
                                || name.startsWith("compareAnd")
                                || name.startsWith("weakCompareAnd")
                                || name.endsWith("AndGet")
                                || name.equals("lazySet");
                };
    }

    /// The argument whose variable such a method stores to.
    public static int base(String owner, String name) {
        return owner.equals(UNSAFE) && name.equals("copyMemory") ? 2 : 0;
    }

    /// Whether a method calls another one, by [java.lang.reflect.Method].
    public static boolean isReflectiveCall(String owner, String name) {
        return owner.equals("java/lang/reflect/Method") && name.equals("invoke");
    }

    /// Whether a parameter of a method may be something that is kept. Arrays that are passed to
    /// `java.lang.reflect.Array` and `MemorySegment.copy` are objects.
    public static boolean isChanged(String descriptor, String owner) {
        return descriptor.startsWith("[")
                || isChangedUnseen(descriptor)
                || descriptor.equals("Ljava/lang/Object;")
                        && (owner.equals("java/lang/reflect/Array") || owner.equals("java/lang/foreign/MemorySegment"));
    }

    /// Whether a parameter's type may be that of an object that code without barriers changes.
    private static boolean isChangedUnseen(String descriptor) {
        return switch (descriptor) {
            // Code that gets one of these reads it.
            case "Ljava/util/Date;", "Ljava/util/TimeZone;", "Ljava/lang/Thread;" -> false;
            default ->
                descriptor.startsWith("L")
                        && JavaBase.isChangedUnseen(descriptor.substring(1, descriptor.length() - 1));
        };
    }

    /// Whether it is to be remembered that an object of a class was made: code without barriers will change
    /// it. Of a builder of strings it costs less to keep the text that it has, which is none.
    public static boolean isRememberedAsMade(String owner) {
        return JavaBase.isChangedUnseen(owner) && !isText(owner);
    }

    /// Whether a class is that of a builder of strings.
    public static boolean isText(String owner) {
        return owner.equals("java/lang/StringBuilder") || owner.equals("java/lang/StringBuffer");
    }

    /// Whether a class of the JDK changes collections that it is given: their class decides what becomes of
    /// it.
    public static boolean isWrapper(String internalName) {
        return internalName.equals("java/util/Collections") || internalName.startsWith("java/util/Collections$");
    }

    /// Whether a method of the JDK returns an object that it has made.
    public static boolean makesObject(String owner, String name) {
        if (!owner.startsWith("java/") && !owner.startsWith("javax/")) {
            return false;
        }
        if (name.startsWith("new") || name.startsWith("open") || name.startsWith("allocate")) {
            return true;
        }
        return switch (name) {
            case "getResourceAsStream", "spliterator", "trySplit" -> true;
            case "builder" -> owner.startsWith("java/util/stream/");
            case "ofAuto", "ofConfined", "ofShared" -> owner.equals("java/lang/foreign/Arena");
            case "ofPlatform", "ofVirtual" -> owner.equals("java/lang/Thread");
            case "allOf", "anyOf", "completedFuture", "failedFuture", "runAsync", "supplyAsync" ->
                owner.equals("java/util/concurrent/CompletableFuture");
            default -> name.startsWith("get") && name.endsWith("Instance") && hasInstances(owner);
        };
    }

    private static boolean hasInstances(String owner) {
        return owner.startsWith("java/text/")
                || owner.startsWith("java/security/")
                || owner.startsWith("javax/crypto/")
                || owner.equals("java/util/Calendar");
    }
}
