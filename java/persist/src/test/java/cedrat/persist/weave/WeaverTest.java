package cedrat.persist.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.memory.Fields;
import cedrat.persist.memory.MemoFields;
import java.io.IOException;
import java.io.InputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.MethodModel;
import java.lang.classfile.attribute.CodeAttribute;
import java.lang.classfile.constantpool.PoolEntry;
import java.lang.classfile.constantpool.Utf8Entry;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.DirectMethodHandleDesc;
import java.lang.constant.DirectMethodHandleDesc.Kind;
import java.lang.constant.DynamicCallSiteDesc;
import java.lang.constant.DynamicConstantDesc;
import java.lang.constant.MethodHandleDesc;
import java.lang.constant.MethodTypeDesc;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Code before and after weaving.
class WeaverTest {
    /// The HotSpot compiler inlines no hot method that is longer (`FreqInlineSize`).
    private static final int INLINED_BYTES_MAX = 325;

    @Test
    void hashMapPutCanBeInlined() throws IOException, UnstructuredException {
        byte[] original = collection("HashMap");
        byte[] woven = woven(original);
        assertTrue(putLength(woven) > putLength(original));
        assertTrue(putLength(woven) <= INLINED_BYTES_MAX, putLength(woven) + " bytes");
    }

    private static int putLength(byte[] type) {
        return ((CodeAttribute) method(type, "putVal").code().orElseThrow()).codeLength();
    }

    private static MethodModel method(byte[] type, String name) {
        for (MethodModel method : ClassFile.of().parse(type).methods()) {
            if (method.methodName().equalsString(name)) {
                return method;
            }
        }
        throw new AssertionError("there is no " + name);
    }

    private static byte[] collection(String name) throws IOException {
        try (InputStream in = Object.class.getResourceAsStream("/java/util/" + name + ".class")) {
            return in.readAllBytes();
        }
    }

    private static byte[] woven(byte[] collection) throws UnstructuredException {
        return new Weaver(new Fields(declaring -> {}, new MemoFields(List.of())), new Classes(null))
                .weave(collection, Weaver.Kind.COLLECTION, null, false, false);
    }

    /// J3: a collection that changes is held to the end of the method, in compiled code too.
    @ParameterizedTest
    @CsvSource({"HashSet, add, true", "ArrayList, set, true", "HashMap, put, true", "ArrayList, size, false"})
    void changingMethodsHoldTheirCollection(String type, String name, boolean holds)
            throws IOException, UnstructuredException {
        boolean isHeld = method(woven(collection(type)), name)
                .code()
                .orElseThrow()
                .elementStream()
                .anyMatch(element ->
                        element instanceof InvokeInstruction call && call.name().equalsString("reachabilityFence"));
        assertEquals(holds, isHeld);
    }

    private static final ClassDesc OTHER = ClassDesc.of("Other");

    /// Weaves a class of whose method one instruction or more is given.
    private static byte[] woven(int flags, int version, Consumer<CodeBuilder> instructions)
            throws UnstructuredException {
        Weaver weaver = new Weaver(new Fields(declaring -> {}, new MemoFields(List.of())), new Classes(null));
        weaver.weaveReads();
        byte[] original = ClassFile.of().build(ClassDesc.of("Strange"), type -> type.withVersion(version, 0)
                .withFlags(flags)
                .withMethodBody("<clinit>", ConstantDescs.MTD_void, ClassFile.ACC_STATIC, code -> {
                    instructions.accept(code);
                    code.pop().return_();
                }));
        return weaver.weave(original, Weaver.Kind.APPLICATION, WeaverTest.class.getClassLoader(), false, false);
    }

    private static void assertRefused(String why, int flags, int version, Consumer<CodeBuilder> instructions) {
        var thrown = assertThrows(IllegalArgumentException.class, () -> woven(flags, version, instructions));
        assertTrue(thrown.getMessage().contains(why), thrown.getMessage());
    }

    @Test
    void misspeltMemoFieldIsRefused() throws UnstructuredException {
        byte[] original = ClassFile.of()
                .build(ClassDesc.of("Strange"), type -> type.withField("view", ConstantDescs.CD_Object, 0)
                        .withField("end", ConstantDescs.CD_Object, ClassFile.ACC_FINAL));
        weaverOf("memo=Strange#view").weave(original, Weaver.Kind.APPLICATION, null, false, false);
        for (String name : List.of("veiw", "end")) {
            Weaver weaver = weaverOf("memo=Strange#" + name);
            var thrown = assertThrows(
                    IllegalArgumentException.class,
                    () -> weaver.weave(original, Weaver.Kind.APPLICATION, null, false, false));
            assertTrue(thrown.getMessage().contains("no field " + name), thrown.getMessage());
        }
    }

    private static Weaver weaverOf(String argument) {
        Classes classes = new Classes(argument);
        return new Weaver(new Fields(declaring -> {}, classes.memos()), classes);
    }

    /// J1
    @Test
    void readWithoutPossibleBarrierIsRefused() throws UnstructuredException {
        int ofInterface = ClassFile.ACC_INTERFACE | ClassFile.ACC_ABSTRACT;
        Consumer<CodeBuilder> read =
                code -> code.aconst_null().checkcast(OTHER).getfield(OTHER, "field", ConstantDescs.CD_Object);
        assertRefused("an interface of Java 7", ofInterface, ClassFile.JAVA_7_VERSION, read);
        woven(ofInterface, ClassFile.JAVA_8_VERSION, read);
        woven(0, ClassFile.JAVA_7_VERSION, read);
        MethodHandleDesc getter = MethodHandleDesc.ofField(Kind.GETTER, OTHER, "field", ConstantDescs.CD_Object);
        ConstantDesc constant = DynamicConstantDesc.ofNamed(
                ConstantDescs.ofConstantBootstrap(
                        OTHER, "make", ConstantDescs.CD_Object, ConstantDescs.CD_MethodHandle),
                "made",
                ConstantDescs.CD_Object,
                getter);
        byte[] strange = ClassFile.of().build(ClassDesc.of("Strange"), type -> {});
        Weaver weaver = new Weaver(new Fields(declaring -> {}, new MemoFields(List.of())), new Classes(null));
        assertNull(weaver.withIdentity(strange, null));
        weaver.weaveReads();
        ClassLoader loader = WeaverTest.class.getClassLoader();
        assertEquals(
                1,
                ClassFile.of()
                        .parse(weaver.withIdentity(strange, loader))
                        .fields()
                        .size());
        assertRefused("dynamic constant made", 0, ClassFile.JAVA_25_VERSION, code -> code.loadConstant(constant));
    }

    private static boolean mentionsLocks(byte[] woven) {
        for (PoolEntry entry : ClassFile.of().parse(woven).constantPool()) {
            if (entry instanceof Utf8Entry text && text.equalsString("lockToRead")) {
                return true;
            }
        }
        return false;
    }

    /// J3.2
    @Test
    void unlockedReadsHaveNoLockBarrier() throws IOException, UnstructuredException {
        for (Class<?> type : List.of(HashMap.class, ArrayDeque.class, MemoryGraph.class)) {
            byte[] original;
            try (InputStream in = type.getResourceAsStream("/" + type.getName().replace('.', '/') + ".class")) {
                original = in.readAllBytes();
            }
            boolean isOfJdk = type.getClassLoader() == null;
            for (String argument : new String[] {null, "reads=unlocked"}) {
                Weaver weaver =
                        new Weaver(new Fields(declaring -> {}, new MemoFields(List.of())), new Classes(argument));
                Weaver.Kind kind = isOfJdk ? Weaver.Kind.COLLECTION : Weaver.Kind.APPLICATION;
                // Until reads are woven no object of the application is persistent.
                byte[] early = weaver.weave(original, kind, type.getClassLoader(), false, false);
                assertEquals(argument == null && isOfJdk, mentionsLocks(early), type.getName());
                weaver.weaveReads();
                byte[] woven = weaver.weave(original, kind, type.getClassLoader(), false, false);
                assertEquals(argument == null, mentionsLocks(woven), type.getName());
            }
        }
    }

    /// J3.2: javac makes texts of the parts before, other compilers do not.
    @Test
    void partsOfATextAreLocked() throws UnstructuredException {
        DirectMethodHandleDesc bootstrap = ConstantDescs.ofCallsiteBootstrap(
                ClassDesc.of("java.lang.invoke", "StringConcatFactory"), "makeConcat", ConstantDescs.CD_CallSite);
        for (String part : List.of("java.lang.StringBuilder", "java.lang.Integer")) {
            byte[] original = ClassFile.of()
                    .build(
                            ClassDesc.of("Strange"),
                            type -> type.withMethodBody(
                                    "<clinit>", ConstantDescs.MTD_void, ClassFile.ACC_STATIC, code -> code.aconst_null()
                                            .invokedynamic(DynamicCallSiteDesc.of(
                                                    bootstrap,
                                                    "makeConcat",
                                                    MethodTypeDesc.of(ConstantDescs.CD_String, ClassDesc.of(part))))
                                            .pop()
                                            .return_()));
            Weaver weaver = new Weaver(new Fields(declaring -> {}, new MemoFields(List.of())), new Classes(null));
            weaver.weaveReads();
            ClassLoader loader = WeaverTest.class.getClassLoader();
            byte[] woven = weaver.weave(original, Weaver.Kind.APPLICATION, loader, false, false);
            assertEquals(part.endsWith("Builder"), mentionsLocks(woven), part);
        }
    }
}
