package cedrat.persist;

import java.lang.constant.ClassDesc;

/// Methods whose calls are woven, because they store where no barrier is.
final class WovenMethods {
    /// Has the static methods of [Transaction] for woven callers.
    static final ClassDesc REPLACEMENT = ClassDesc.of("cedrat.persist", "WovenCode");

    private WovenMethods() {}

    /// Whether a static method is called at [#REPLACEMENT] instead.
    static boolean replaces(String owner, String name) {
        return owner.equals("cedrat/persist/Transaction")
                && switch (name) {
                    case "begin", "run", "call" -> true;
                    default -> false;
                };
    }

    /// Whether a method may write into arrays, or builders of strings, that are passed to it. Of the JDK's
    /// all are taken to do so but those of which it is known that they do not: an array that is kept without
    /// need costs time, one that is not kept would not be restored.
    static boolean mayChangeArguments(String owner, String name, boolean isApplication) {
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
                    "java/nio/file/Path",
                    "java/nio/file/Files" -> name.equals("toArray");
            default -> !owner.startsWith("java/util/stream/") && !owner.startsWith("java/lang/invoke/");
        };
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
    static boolean makesArray(String owner, String name) {
        return switch (owner) {
            case "java/util/Arrays" -> name.startsWith("copyOf");
            case "java/lang/reflect/Array" -> name.equals("newInstance");
            default -> owner.startsWith("[") && name.equals("clone");
        };
    }

    /// Of [java.lang.reflect.Field].
    static boolean isReflectiveStore(String name) {
        return name.startsWith("set") && !name.equals("setAccessible");
    }

    /// Whether a type may be that of a builder of strings.
    static boolean isText(String descriptor) {
        return switch (descriptor) {
            case "Ljava/lang/StringBuilder;", "Ljava/lang/StringBuffer;", "Ljava/lang/Appendable;" -> true;
            default -> false;
        };
    }

    /// Whether a method changes its receiver if that is a collection, an atomic variable or the like. Which
    /// class it is of is known when the method is called, see [Refused].
    static boolean changesReceiver(String owner, String name) {
        if (owner.startsWith("java/util/concurrent/atomic/")) {
            return changesAtomic(name);
        }
        if (isText("L" + owner + ";")) {
            return changesText(name);
        }
        return switch (name) {
            case "add", "addAll", "addAllAbsent", "addFirst", "addIfAbsent", "addLast" -> true;
            case "clear", "compute", "computeIfAbsent", "computeIfPresent" -> true;
            case "drainTo", "load", "loadFromXML", "merge" -> true;
            case "offer", "offerFirst", "offerLast", "poll", "pollFirst", "pollLast", "pop", "push" -> true;
            case "pollFirstEntry", "pollLastEntry" -> true;
            case "put", "putAll", "putFirst", "putIfAbsent", "putLast" -> true;
            case "remove", "removeAll", "removeFirst", "removeFirstOccurrence", "removeIf", "removeLast" -> true;
            case "removeLastOccurrence", "replace", "replaceAll", "retainAll" -> true;
            case "set", "setProperty", "setValue", "sort", "take", "takeFirst", "takeLast" -> true;
            default -> false;
        };
    }

    private static boolean changesText(String name) {
        return switch (name) {
            case "append", "appendCodePoint", "delete", "deleteCharAt", "insert", "repeat", "replace", "reverse" ->
                true;
            case "setCharAt", "setLength" -> true;
            default -> false;
        };
    }

    private static boolean changesAtomic(String name) {
        return switch (name) {
            case "doubleValue", "equals", "floatValue", "get", "getAcquire", "getClass", "getOpaque", "getPlain" ->
                false;
            case "getReference", "getStamp", "hashCode", "intValue", "isMarked", "length", "longValue" -> false;
            case "sum", "toString" -> false;
            default -> true;
        };
    }
}
