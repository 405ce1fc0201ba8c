package cedrat.persist.weave;

import java.lang.classfile.ClassModel;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.constantpool.MemberRefEntry;
import java.lang.classfile.constantpool.PoolEntry;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.MethodTypeDesc;

/// Calls of [cedrat.persist.boot.Barrier] as instructions, and of what holds an object.
final class Calls {
    /// Has the static methods of transactions for woven callers.
    static final ClassDesc REPLACEMENT = ClassDesc.of("cedrat.persist.record", "WovenCode");

    private static final ClassDesc BARRIER = ClassDesc.of("cedrat.persist.boot", "Barrier");
    private static final ClassDesc REFERENCE = ClassDesc.of("java.lang.ref", "Reference");
    private static final ClassDesc OBJECT = ConstantDescs.CD_Object;
    private static final ClassDesc INT = ConstantDescs.CD_int;

    private static final MethodTypeDesc NOTHING = MethodTypeDesc.of(ConstantDescs.CD_void);
    private static final MethodTypeDesc ONE_OBJECT = MethodTypeDesc.of(ConstantDescs.CD_void, OBJECT);
    private static final MethodTypeDesc TWO_OBJECTS = MethodTypeDesc.of(ConstantDescs.CD_void, OBJECT, OBJECT);
    private static final MethodTypeDesc THREE_OBJECTS =
            MethodTypeDesc.of(ConstantDescs.CD_void, OBJECT, OBJECT, OBJECT);
    private static final MethodTypeDesc ONE_STRING = MethodTypeDesc.of(ConstantDescs.CD_void, ConstantDescs.CD_String);
    private static final MethodTypeDesc CALL =
            MethodTypeDesc.of(ConstantDescs.CD_void, OBJECT, ConstantDescs.CD_String);
    private static final MethodTypeDesc INHERITED =
            MethodTypeDesc.of(ConstantDescs.CD_void, OBJECT, ConstantDescs.CD_String, OBJECT);
    private static final MethodTypeDesc ELEMENT = MethodTypeDesc.of(ConstantDescs.CD_void, OBJECT, INT);
    private static final MethodTypeDesc LINK = MethodTypeDesc.of(ConstantDescs.CD_void, OBJECT, INT, OBJECT);
    private static final MethodTypeDesc STORE =
            MethodTypeDesc.of(ConstantDescs.CD_void, OBJECT.arrayType(), INT, OBJECT);
    private static final MethodTypeDesc TABLE_READ = MethodTypeDesc.of(OBJECT, OBJECT.arrayType(), INT, OBJECT);
    private static final ClassDesc HASH_NODE = ClassDesc.of("java.util", "HashMap$Node");
    private static final MethodTypeDesc COPY = MethodTypeDesc.of(ConstantDescs.CD_void, OBJECT, INT, OBJECT, INT, INT);

    private static final MethodTypeDesc HASH = MethodTypeDesc.of(INT, OBJECT);
    private static final MethodTypeDesc READ = MethodTypeDesc.of(OBJECT, OBJECT, INT);
    private static final MethodTypeDesc READ_IN_PLACE = MethodTypeDesc.of(OBJECT, OBJECT, OBJECT, INT);

    private Calls() {}

    /// Whether a class calls barriers: it is woven.
    static boolean areIn(ClassModel type) {
        for (PoolEntry entry : type.constantPool()) {
            if (entry instanceof MemberRefEntry called && called.owner().matches(BARRIER)) {
                return true;
            }
        }
        return false;
    }

    /// Whether a static method is called at [#REPLACEMENT] instead.
    static boolean replaces(String owner, String name) {
        return owner.equals("cedrat/persist/Transaction")
                && switch (name) {
                    case "begin", "run", "call" -> true;
                    default -> false;
                };
    }

    /// … base, number → …, value
    static void readNull(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "readNull", READ);
    }

    /// … base, value, number → …, value
    static void read(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "read", READ_IN_PLACE);
    }

    /// … base → …
    static void beforeRead(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "beforeRead", ONE_OBJECT);
    }

    /// … base → …
    static void lockToRead(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "lockToRead", ONE_OBJECT);
    }

    /// … table, index, value → …, value
    static void element(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "element", TABLE_READ).checkcast(HASH_NODE);
    }

    /// … map, hash → …
    static void beforePut(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "beforePut", ELEMENT);
    }

    /// … base → …, base or null
    static void ifPersistent(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "ifPersistent", MethodTypeDesc.of(OBJECT, OBJECT));
    }

    /// … array → …
    static void lockDeeplyToRead(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "lockDeeplyToRead", ONE_OBJECT);
    }

    /// … object, copy → …
    static void copied(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "copied", TWO_OBJECTS);
    }

    /// … base, number → …
    static void beforeField(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "beforeField", ELEMENT);
    }

    /// … base → …
    static void beforeFields(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "beforeFields", ONE_OBJECT);
    }

    /// … base, part → …
    static void beforeLink(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "beforeLink", TWO_OBJECTS);
    }

    /// … base → …
    static void beforeMark(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "beforeMark", ONE_OBJECT);
    }

    /// … array, index → …
    static void beforeElement(CodeBuilder builder, boolean isApplication) {
        builder.invokestatic(BARRIER, isApplication ? "beforeElement" : "beforeElementInJdk", ELEMENT);
    }

    /// … array, index, part → …
    static void beforeLinkInTable(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "beforeLinkInTable", LINK);
    }

    /// … array, index, value → …
    static void store(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "store", STORE);
    }

    /// … argument → …
    static void beforeArgument(CodeBuilder builder, boolean isApplication) {
        builder.invokestatic(BARRIER, isApplication ? "beforeArgument" : "beforeArgumentInJdk", ONE_OBJECT);
    }

    /// … collection → …
    static void afterChange(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "afterChange", ONE_OBJECT);
    }

    /// … receiver → …
    static void beforeCall(CodeBuilder builder, String method) {
        builder.loadConstant(method).invokestatic(BARRIER, "beforeCall", CALL);
    }

    /// … receiver, method, argument → …
    static void beforeInherited(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "beforeInherited", INHERITED);
    }

    /// … → …
    static void beforeStatic(CodeBuilder builder, String method) {
        builder.loadConstant(method).invokestatic(BARRIER, "beforeStatic", ONE_STRING);
    }

    /// … handle, base → …
    static void beforeHandle(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "beforeHandle", TWO_OBJECTS);
    }

    /// … method, receiver, arguments → …
    static void beforeInvoke(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "beforeInvoke", THREE_OBJECTS);
    }

    /// … field, receiver → …
    static void beforeReflection(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "beforeReflection", TWO_OBJECTS);
    }

    /// … object → …
    static void made(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "made", ONE_OBJECT);
    }

    /// … → …
    static void refuseUnwoven(CodeBuilder builder, String why) {
        builder.loadConstant(why).invokestatic(BARRIER, "refuseUnwoven", ONE_STRING);
    }

    /// … may be → …, is
    static void parallel(CodeBuilder builder) {
        builder.invokestatic(
                BARRIER, "isParallel", MethodTypeDesc.of(ConstantDescs.CD_boolean, ConstantDescs.CD_boolean));
    }

    /// … constant → …, hash
    static void hash(CodeBuilder builder) {
        builder.invokestatic(BARRIER, "hash", HASH);
    }

    /// As [System#arraycopy].
    static void arraycopy(CodeBuilder builder, boolean isApplication) {
        builder.invokestatic(BARRIER, isApplication ? "arraycopy" : "arraycopyInJdk", COPY);
    }

    /// As that, and the source is locked.
    static void lockAndArraycopy(CodeBuilder builder, boolean isApplication) {
        builder.invokestatic(BARRIER, isApplication ? "lockAndArraycopy" : "lockAndArraycopyInJdk", COPY);
    }

    /// … object → …
    static void hold(CodeBuilder builder) {
        builder.invokestatic(REFERENCE, "reachabilityFence", ONE_OBJECT);
    }

    static void suspend(CodeBuilder builder, boolean isLoading) {
        builder.invokestatic(BARRIER, isLoading ? "suspendLoading" : "suspend", NOTHING);
    }

    static void resume(CodeBuilder builder, boolean isLoading) {
        builder.invokestatic(BARRIER, isLoading ? "resumeLoading" : "resume", NOTHING);
    }
}
