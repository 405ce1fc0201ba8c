package cedrat.persist.weave;

import java.lang.classfile.ClassModel;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.MethodModel;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.reflect.AccessFlag;
import java.util.Map;
import java.util.Set;

/// The collections of `java.util.concurrent` that can be persistent. Their stores have no barriers. At the beginning of
/// each of their methods a persistent one is locked, and saved as a whole if the method may change it.
///
/// - So a change or a read by other classes of the JDK is seen too: by a view, by `drainTo`, by a collector.
final class ConcurrentCollections {
    private static final String PACKAGE = "java/util/concurrent/";

    /// By class, the methods that change an object.
    private static final Map<String, Set<String>> CHANGES = Map.of(
            "ConcurrentHashMap",
            Set.of(
                    "clear",
                    "compute",
                    "computeIfAbsent",
                    "computeIfPresent",
                    "merge",
                    "putAll",
                    "putVal",
                    "removeEntryIf",
                    "removeValueIf",
                    "replaceAll",
                    "replaceNode"),
            "ConcurrentSkipListMap",
            Set.of(
                    "clear",
                    "compute",
                    "computeIfAbsent",
                    "computeIfPresent",
                    "doRemove",
                    "merge",
                    "pollFirstEntry",
                    "pollLastEntry",
                    "put",
                    "putAll",
                    "putIfAbsent",
                    "remove",
                    "removeEntryIf",
                    "removeValueIf",
                    "replace",
                    "replaceAll"),
            "CopyOnWriteArrayList",
            Set.of(
                    "add",
                    "addAll",
                    "addAllAbsent",
                    "addFirst",
                    "addIfAbsent",
                    "addLast",
                    "bulkRemove",
                    "clear",
                    "remove",
                    "removeAll",
                    "removeFirst",
                    "removeIf",
                    "removeLast",
                    "removeRange",
                    "replaceAll",
                    "replaceAllRange",
                    "retainAll",
                    "set",
                    "setArray",
                    "sort",
                    "sortRange"),
            "ConcurrentLinkedQueue",
            Set.of("add", "addAll", "clear", "offer", "poll", "remove", "removeAll", "removeIf", "retainAll"),
            "ConcurrentLinkedDeque",
            changesOfDeque(),
            "LinkedBlockingQueue",
            changesOfQueue(),
            "ArrayBlockingQueue",
            changesOfQueue(),
            "LinkedBlockingDeque",
            changesOfDeque(),
            "ConcurrentSkipListSet",
            Set.of("add", "clear", "pollFirst", "pollLast", "remove", "removeAll"),
            "CopyOnWriteArraySet",
            Set.of("add", "addAll", "clear", "remove", "removeAll", "removeIf", "retainAll"));

    /// The views that read the table of a map themselves.
    private static final Set<String> VIEWS =
            Set.of("ConcurrentHashMap$KeySetView", "ConcurrentHashMap$ValuesView", "ConcurrentHashMap$EntrySetView");

    private static final ClassDesc VIEW = ClassDesc.of("java.util.concurrent", "ConcurrentHashMap$CollectionView");
    private static final ClassDesc MAP = ClassDesc.of("java.util.concurrent", "ConcurrentHashMap");

    /// Says by how many tasks a bulk operation is carried out, as a power of two.
    private static final String TASKS = "batchFor";

    private ConcurrentCollections() {}

    private static Set<String> changesOfQueue() {
        return Set.of(
                "add",
                "addAll",
                "clear",
                "drainTo",
                "offer",
                "poll",
                "put",
                "remove",
                "removeAll",
                "removeAt",
                "removeIf",
                "retainAll",
                "take",
                "unlink");
    }

    private static Set<String> changesOfDeque() {
        return Set.of(
                "add",
                "addAll",
                "addFirst",
                "addLast",
                "clear",
                "drainTo",
                "offer",
                "offerFirst",
                "offerLast",
                "poll",
                "pollFirst",
                "pollLast",
                "pop",
                "push",
                "put",
                "putFirst",
                "putLast",
                "remove",
                "removeAll",
                "removeFirst",
                "removeFirstOccurrence",
                "removeIf",
                "removeLast",
                "removeLastOccurrence",
                "retainAll",
                "take",
                "takeFirst",
                "takeLast",
                "unlink");
    }

    /// The classes.
    static Set<String> classes() {
        Set<String> names = new java.util.HashSet<>();
        CHANGES.keySet().forEach(name -> names.add(PACKAGE + name));
        VIEWS.forEach(name -> names.add(PACKAGE + name));
        return names;
    }

    static boolean contains(String internalName) {
        String name = nameOf(internalName);
        return CHANGES.containsKey(name) || VIEWS.contains(name);
    }

    private static String nameOf(String internalName) {
        return internalName.startsWith(PACKAGE) ? internalName.substring(PACKAGE.length()) : "";
    }

    /// Whether a method is called by code that has an object, other classes of the package included.
    static boolean isOpen(MethodModel method) {
        return !method.flags().has(AccessFlag.STATIC)
                && !method.flags().has(AccessFlag.PRIVATE)
                && !method.methodName().equalsString(ConstantDescs.INIT_NAME);
    }

    /// Whether a method says how many tasks carry out an operation.
    static boolean countsTasks(MethodModel method) {
        return method.methodName().equalsString(TASKS);
    }

    /// Whether a method may change its object. A rollback in a function that it calls waits for its end.
    static boolean isChange(ClassModel type, MethodModel method) {
        String name = nameOf(type.thisClass().asInternalName());
        return CHANGES.getOrDefault(name, Set.of()).contains(method.methodName().stringValue());
    }

    /// Adds what comes before the first instruction of a method.
    static void begin(CodeBuilder builder, ClassModel type, MethodModel method, boolean locksReads) {
        if (isChange(type, method)) {
            builder.aload(0);
            Calls.beforeArgument(builder, false);
        } else if (locksReads) {
            builder.aload(0);
            if (VIEWS.contains(nameOf(type.thisClass().asInternalName()))) {
                builder.getfield(VIEW, "map", MAP);
            }
            Calls.lockToRead(builder);
        }
    }
}
