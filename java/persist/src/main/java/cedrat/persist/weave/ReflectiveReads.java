package cedrat.persist.weave;

import java.lang.classfile.ClassModel;
import java.lang.classfile.MethodModel;
import java.lang.constant.ConstantDescs;
import java.lang.reflect.AccessFlag;
import java.util.List;
import java.util.Map;
import java.util.Set;

/// Methods of the JDK that read fields or elements of any object for their callers: reflection, method handles,
/// variable handles, `sun.misc.Unsafe` and serialisation. At the beginning of each the object is loaded and
/// locked. So are [java.util.Properties] at each call, whatever type the call names: their content is in a
/// map without barriers.
///
/// Most are the JDK's own business, and another version may have others: what is missing keeps stores from
/// being opened.
final class ReflectiveReads {
    /// A method, and the local that the object comes in.
    private record Reading(String method, int local) {}

    private static final String THROWABLE = "java/lang/Throwable";
    /// The methods of exceptions that change them.
    private static final Set<String> CHANGES = Set.of("addSuppressed", "initCause", "setStackTrace");

    private static final String PROPERTIES = "java/util/Properties";
    private static final String VARIABLES = "java/lang/invoke/VarHandleReferences$FieldInstanceReadOnly";
    private static final String OF_VARIABLE = "(Ljava/lang/invoke/VarHandle;Ljava/lang/Object;)Ljava/lang/Object;";

    private static final Map<String, List<Reading>> METHODS = Map.of(
            // Handles of fields, and with them java.lang.reflect.Field.
            "java/lang/invoke/DirectMethodHandle",
            List.of(new Reading("checkBase(Ljava/lang/Object;)Ljava/lang/Object;", 0)),
            VARIABLES,
            List.of(
                    new Reading("get" + OF_VARIABLE, 1),
                    new Reading("getVolatile" + OF_VARIABLE, 1),
                    new Reading("getOpaque" + OF_VARIABLE, 1),
                    new Reading("getAcquire" + OF_VARIABLE, 1)),
            "java/util/concurrent/atomic/AtomicReferenceFieldUpdater$AtomicReferenceFieldUpdaterImpl",
            List.of(new Reading("get(Ljava/lang/Object;)Ljava/lang/Object;", 1)),
            "java/io/ObjectStreamClass$FieldReflector",
            List.of(new Reading("getObjFieldValues(Ljava/lang/Object;[Ljava/lang/Object;)V", 1)),
            // These have nothing to be loaded, but what is to be locked.
            PROPERTIES,
            List.of(),
            // Classes of the program extend it, and have its fields.
            "java/util/AbstractMap$SimpleImmutableEntry",
            List.of(
                    new Reading("getKey()Ljava/lang/Object;", 0),
                    new Reading("getValue()Ljava/lang/Object;", 0),
                    new Reading("equals(Ljava/lang/Object;)Z", 0),
                    new Reading("hashCode()I", 0),
                    new Reading("toString()Ljava/lang/String;", 0)),
            // As above.
            THROWABLE,
            List.of(
                    new Reading("getMessage()Ljava/lang/String;", 0),
                    new Reading("getCause()Ljava/lang/Throwable;", 0),
                    new Reading("getOurStackTrace()[Ljava/lang/StackTraceElement;", 0),
                    new Reading("getSuppressed()[Ljava/lang/Throwable;", 0),
                    new Reading("addSuppressed(Ljava/lang/Throwable;)V", 0),
                    new Reading("initCause(Ljava/lang/Throwable;)Ljava/lang/Throwable;", 0),
                    new Reading("setStackTrace([Ljava/lang/StackTraceElement;)V", 0)),
            "java/io/ObjectOutputStream",
            List.of(new Reading("writeArray(Ljava/lang/Object;Ljava/io/ObjectStreamClass;Z)V", 1)),
            "sun/misc/Unsafe",
            List.of(
                    new Reading("getObject(Ljava/lang/Object;J)Ljava/lang/Object;", 1),
                    new Reading("getObjectVolatile(Ljava/lang/Object;J)Ljava/lang/Object;", 1)));

    /// Reads values that are never pending, and of an object that may be locked.
    private static final String PRIMITIVES = "getPrimFieldValues(Ljava/lang/Object;[B)V";

    private ReflectiveReads() {}

    /// The classes that have them.
    static Set<String> classes() {
        return METHODS.keySet();
    }

    /// Whether any method of the class is one.
    static boolean contains(String internalName) {
        return METHODS.containsKey(internalName);
    }

    /// The local in which a method has the object whose fields it reads, or -1.
    static int local(String internalName, MethodModel method) {
        for (Reading reading : METHODS.getOrDefault(internalName, List.of())) {
            if (isOf(reading, method)) {
                return reading.local;
            }
        }
        return -1;
    }

    /// The local of an object that is to be locked before a method reads its fields, or -1.
    static int localToLock(String internalName, MethodModel method) {
        if (internalName.equals(PROPERTIES)) {
            return isOpen(method) ? 0 : -1;
        }
        boolean readsPrimitives = internalName.equals("java/io/ObjectStreamClass$FieldReflector")
                && PRIMITIVES.equals(
                        method.methodName().stringValue() + method.methodType().stringValue());
        return readsPrimitives ? 1 : local(internalName, method);
    }

    /// Whether a method assigns to fields of `this` that are stored with objects of the program.
    static boolean changes(String internalName, MethodModel method) {
        return internalName.equals(THROWABLE)
                && CHANGES.contains(method.methodName().stringValue());
    }

    /// Whether code that has an object may call the method.
    private static boolean isOpen(MethodModel method) {
        return method.flags().has(AccessFlag.PUBLIC)
                && !method.flags().has(AccessFlag.STATIC)
                && !method.methodName().equalsString(ConstantDescs.INIT_NAME);
    }

    private static boolean isOf(Reading reading, MethodModel method) {
        return reading.method.equals(
                method.methodName().stringValue() + method.methodType().stringValue());
    }

    /// Returns the listed methods that a class does not have.
    static List<String> missing(ClassModel type) {
        String name = type.thisClass().asInternalName();
        return METHODS.get(name).stream()
                .filter(reading -> type.methods().stream().noneMatch(method -> isOf(reading, method)))
                .map(reading -> name.replace('/', '.') + "." + reading.method)
                .toList();
    }
}
