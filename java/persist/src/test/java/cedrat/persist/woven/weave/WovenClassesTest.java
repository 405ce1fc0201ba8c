package cedrat.persist.woven.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Transaction;
import cedrat.persist.boot.Persistable;
import cedrat.persist.record.TestStore;
import java.lang.classfile.ClassFile;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.MethodTypeDesc;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// J1: what classes of the application become.
class WovenClassesTest {
    private static class Base {
        Base next;
    }

    private static class Derived extends Base {}

    private static final class Names extends ArrayList<String> {
        private static final long serialVersionUID = 1;
    }

    private record Pair(Base left, Base right) {}

    private interface Named {
        default Object next(Base base) {
            return base.next;
        }
    }

    private static boolean declaresIdentity(Class<?> type) {
        return Arrays.stream(type.getDeclaredFields())
                .anyMatch(field -> field.getName().equals("cedrat$identity"));
    }

    /// J1.
    @Test
    void topmostClassOfHierarchyHasIdentity() {
        assertTrue(declaresIdentity(Base.class));
        assertFalse(declaresIdentity(Derived.class));
        assertTrue(declaresIdentity(Names.class));
        assertTrue(declaresIdentity(Pair.class));
        assertFalse(declaresIdentity(Named.class));
        assertFalse(Persistable.class.isAssignableFrom(Named.class));
        assertTrue(Persistable.class.isAssignableFrom(Derived.class));
        assertTrue(Persistable.class.isInstance(new Callable<Integer>() {
            @Override
            public Integer call() {
                return 1;
            }
        }));
        assertEquals(2, Pair.class.getRecordComponents().length);
    }

    @Test
    void addedMembersAreSynthetic() {
        for (Class<?> type : new Class<?>[] {Base.class, Derived.class, Pair.class, Named.class}) {
            for (Field field : type.getDeclaredFields()) {
                boolean isAdded = field.getName().equals("cedrat$identity")
                        || field.getName().equals("serialVersionUID");
                assertEquals(isAdded, field.isSynthetic(), field.toString());
            }
            for (Method method : type.getDeclaredMethods()) {
                assertEquals(method.getName().startsWith("cedrat$"), method.isSynthetic(), method.toString());
            }
        }
    }

    private static final class Loader extends ClassLoader {
        Loader() {
            super(WovenClassesTest.class.getClassLoader());
        }

        Class<?> define(byte[] type) {
            return defineClass(null, type, 0, type.length);
        }
    }

    /// J1.
    /// Class files before Java 6 have no stack maps, those before Java 7 may do without.
    @ParameterizedTest
    @ValueSource(ints = {45, 46, 47, 48, 49, 50, 51, 52, 69})
    void classFilesOfEachVersion(int version) throws ReflectiveOperationException {
        ClassDesc old = ClassDesc.of("Old");
        byte[] original = ClassFile.of().build(old, type -> type.withVersion(version, version == 45 ? 3 : 0)
                .withField("next", ConstantDescs.CD_Object, ClassFile.ACC_PUBLIC)
                .withMethodBody(
                        ConstantDescs.INIT_NAME, ConstantDescs.MTD_void, ClassFile.ACC_PUBLIC, code -> code.aload(0)
                                .invokespecial(ConstantDescs.CD_Object, ConstantDescs.INIT_NAME, ConstantDescs.MTD_void)
                                .return_())
                .withMethodBody(
                        "read", MethodTypeDesc.of(ConstantDescs.CD_Object), ClassFile.ACC_PUBLIC, code -> code.aload(0)
                                .getfield(old, "next", ConstantDescs.CD_Object)
                                .areturn())
                .withField("count", ConstantDescs.CD_int, ClassFile.ACC_PUBLIC | ClassFile.ACC_STATIC)
                .withMethodBody("count", ConstantDescs.MTD_void, ClassFile.ACC_PUBLIC, code -> code.iconst_1()
                        .putstatic(old, "count", ConstantDescs.CD_int)
                        .return_()));
        Class<?> type = new Loader().define(original);
        Object object = type.getConstructor().newInstance();
        Method read = type.getMethod("read");
        assertNull(read.invoke(object));
        try (TestStore store = new TestStore()) {
            store.add(object);
            store.pend(object, "next", "loaded");
            assertEquals("loaded", read.invoke(object));
            assertEquals("loaded", read.invoke(object));
            assertEquals(1, store.takeReads().size());
        }
        try (var transaction = Transaction.begin()) {
            type.getMethod("count").invoke(object);
            assertEquals(1, type.getField("count").get(null));
            transaction.rollback();
        }
        assertEquals(0, type.getField("count").get(null));
    }

    /// J5e: with barriers the method would be longer than methods may be.
    @Test
    void longMethodRefusesItsClassOnly() throws ReflectiveOperationException {
        ClassDesc ints = ConstantDescs.CD_int.arrayType();
        byte[] original = ClassFile.of()
                .build(
                        ClassDesc.of("Long"),
                        type -> type.withMethodBody(
                                "fill",
                                MethodTypeDesc.of(ConstantDescs.CD_void, ints),
                                ClassFile.ACC_PUBLIC | ClassFile.ACC_STATIC,
                                code -> {
                                    for (int index = 0; index < 9000; index++) {
                                        code.aload(0)
                                                .loadConstant(index)
                                                .iconst_1()
                                                .iastore();
                                    }
                                    code.return_();
                                }));
        Method fill = new Loader().define(original).getMethod("fill", int[].class);
        int[] array = new int[9000];
        fill.invoke(null, array);
        assertEquals(9000, Arrays.stream(array).sum());
        try (var transaction = Transaction.begin()) {
            array[0] = 7;
            Throwable refused = assertThrows(InvocationTargetException.class, () -> fill.invoke(null, array))
                    .getCause();
            assertInstanceOf(IllegalStateException.class, refused);
            assertTrue(refused.getMessage().contains("the class Long cannot be woven"), refused.getMessage());
            transaction.rollback();
        }
        assertEquals(1, array[0]);
    }
}
