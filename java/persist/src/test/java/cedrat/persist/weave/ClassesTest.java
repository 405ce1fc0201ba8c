package cedrat.persist.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.memory.MemoFields;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.CodeBuilder;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.MethodTypeDesc;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/// Which classes the agent weaves.
class ClassesTest {
    @Test
    void theAgentSaysWhichArgumentsItTakes() {
        assertThrows(IllegalArgumentException.class, () -> new Classes("a"));
        assertThrows(IllegalArgumentException.class, () -> new Classes("exclude=a,included=b"));
        assertThrows(IllegalArgumentException.class, () -> new Classes("reads=lock"));
        assertThrows(IllegalArgumentException.class, () -> new Classes("memo=com.example.One"));
        assertTrue(new Classes("exclude=a").locksReads());
        assertFalse(new Classes("exclude=a,reads=unlocked,include=b").locksReads());
        Classes classes = new Classes("exclude=org.example:com.example.One");
        ClassLoader loader = ClassesTest.class.getClassLoader();
        assertEquals(null, classes.kind(loader, "org/example/Two"));
        assertEquals(null, classes.kind(loader, "com/example/One$Inner"));
        assertEquals(Weaver.Kind.APPLICATION, classes.kind(loader, "com/example/OneMore"));
        assertEquals(Weaver.Kind.APPLICATION, classes.kind(loader, "org/examples/Two"));
        assertEquals(null, classes.kind(loader, "cedrat/persist/Transaction"));
        assertEquals(null, classes.kind(loader, "cedrat/persist/record/Recorder$1"));
        assertEquals(Weaver.Kind.APPLICATION, classes.kind(loader, "cedrat/persist/woven/weave/Launched"));
        assertEquals(Weaver.Kind.COLLECTION, classes.kind(null, "java/util/HashMap$Node"));
        assertEquals(Weaver.Kind.COLLECTION, classes.kind(null, "java/util/Arrays$ArrayList"));
        assertEquals(null, classes.kind(null, "java/util/Arrays"));
        assertEquals(null, classes.kind(null, "java/util/concurrent/Semaphore"));
        assertEquals(null, classes.kind(loader, "com/sun/tools/javac/code/Type"));
    }

    @Test
    void memoFieldsAreListedOrNamed() {
        MemoFields memos = new Classes("memo=com.example.One$Two#hash:com.example.One#view").memos();
        assertTrue(memos.has("com/example/One$Two", "hash"));
        assertTrue(memos.has("com/example/One", "view"));
        assertFalse(memos.has("com/example/One", "hash"));
        assertTrue(memos.has("org/joda/time/LocalDate", "iHash"));
        assertTrue(memos.has("it/unimi/dsi/fastutil/ints/Int2IntOpenHashMap", "keys"));
        assertFalse(memos.has("it/unimi/dsi/fastutil/ints/Int2IntOpenHashMap", "key"));
    }

    @Test
    void jdkToolsAreWovenOnRequest() {
        Classes classes = new Classes("exclude=com.example,include=com.sun.tools.javac");
        ClassLoader loader = ClassesTest.class.getClassLoader();
        assertEquals(Weaver.Kind.APPLICATION, classes.kind(loader, "com/sun/tools/javac/code/Type"));
        assertEquals(null, classes.kind(loader, "com/sun/tools/javap/Main"));
        assertEquals(null, classes.kind(loader, "com/example/One"));
    }

    private static ClassModel withSuperclass(ClassDesc name, ClassDesc superclass, Consumer<CodeBuilder> code) {
        byte[] type = ClassFile.of().build(name, builder -> builder.withSuperclass(superclass)
                .withMethodBody("run", ConstantDescs.MTD_void, ClassFile.ACC_STATIC, body -> {
                    code.accept(body);
                    body.return_();
                }));
        return ClassFile.of().parse(type);
    }

    /// J17c
    @Test
    void includeWeavesModelAndItsUsers() {
        Classes classes = new Classes("include=com.example.model:com.sun.tools.javac,exclude=com.example.model.Not");
        ClassLoader loader = ClassesTest.class.getClassLoader();
        ClassDesc model = ClassDesc.of("com.example.model.One");
        ClassDesc subclass = ClassDesc.of("com.example.Sub");
        ClassDesc other = ClassDesc.of("com.example.Other");
        Consumer<CodeBuilder> nothing = code -> {};
        assertTrue(classes.weaves(loader, withSuperclass(model, ConstantDescs.CD_Object, nothing)));
        assertFalse(classes.weaves(loader, withSuperclass(other, ConstantDescs.CD_Object, nothing)));
        ClassDesc tool = ClassDesc.of("com.sun.tools.javac.code.Type");
        assertTrue(classes.weaves(loader, withSuperclass(tool, ConstantDescs.CD_Object, nothing)));
        assertTrue(new Classes("include=com.sun.tools.javac")
                .weaves(loader, withSuperclass(other, ConstantDescs.CD_Object, nothing)));
        assertTrue(classes.weaves(loader, withSuperclass(subclass, model, nothing)));
        for (ClassDesc owner : List.of(model, subclass)) {
            assertTrue(classes.weaves(loader, withSuperclass(other, ConstantDescs.CD_Object, code -> code.getstatic(
                            owner, "x", ConstantDescs.CD_int)
                    .pop())));
        }
        assertTrue(classes.weaves(
                loader,
                withSuperclass(ClassDesc.of("com.example.Begins"), ConstantDescs.CD_Object, code -> code.invokestatic(
                                ClassDesc.of("cedrat.persist.Transaction"),
                                "begin",
                                MethodTypeDesc.of(ClassDesc.of("cedrat.persist.Transaction")))
                        .pop())));
        assertTrue(classes.isPersistable(loader, "com/example/model/One$Two"));
        assertTrue(classes.isPersistable(loader, "com/example/Sub"));
        assertFalse(classes.isPersistable(loader, "com/example/Begins"));
        assertFalse(classes.isPersistable(loader, "com/example/model/Not"));
        assertFalse(classes.isPersistable(loader, "ch/qos/logback/classic/Logger"));
        assertTrue(classes.isLeftOut("com/example/Other"));
        assertFalse(classes.isLeftOut("java/util/ArrayList"));
        assertEquals(Weaver.Kind.APPLICATION, classes.kind(loader, "com/sun/tools/javac/code/Type"));
    }
}
