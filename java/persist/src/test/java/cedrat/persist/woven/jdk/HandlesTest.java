package cedrat.persist.woven.jdk;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Transaction;
import cedrat.persist.woven.weave.Compiled;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import java.util.concurrent.atomic.AtomicLongFieldUpdater;
import java.util.concurrent.atomic.AtomicReferenceFieldUpdater;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// J5: what is stored by handles of variables.
class HandlesTest {
    private static class Cell {
        volatile int number;
        volatile long big;
        volatile String text = "first";
        private int counted;
    }

    private static int shared;

    private static final VarHandle NUMBER;
    private static final VarHandle COUNTED;
    private static final VarHandle SHARED;

    static {
        try {
            MethodHandles.Lookup lookup = MethodHandles.lookup();
            NUMBER = lookup.findVarHandle(Cell.class, "number", int.class);
            COUNTED = lookup.findVarHandle(Cell.class, "counted", int.class);
            SHARED = lookup.findStaticVarHandle(HandlesTest.class, "shared", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private static final VarHandle ELEMENT = MethodHandles.arrayElementVarHandle(String[].class);
    private static final VarHandle INT_OF_BYTES =
            MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle INT_OF_BUFFER =
            MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

    /// J5.
    @Test
    void varHandleWritesAreRestored() {
        Cell cell = new Cell();
        String[] texts = {"one"};
        byte[] bytes = new byte[8];
        ByteBuffer buffer = ByteBuffer.allocate(8);
        try (var transaction = Transaction.begin()) {
            cell.number = 5;
            NUMBER.set(cell, 1);
            assertTrue(NUMBER.compareAndSet(cell, 1, 2));
            assertEquals(2, (int) NUMBER.getAndAdd(cell, 1));
            COUNTED.setRelease(cell, 7);
            assertEquals("one", (String) ELEMENT.getAndSet(texts, 0, "two"));
            INT_OF_BYTES.set(bytes, 1, 9);
            INT_OF_BUFFER.set(buffer, 2, 9);
            try (var inner = Transaction.begin()) {
                NUMBER.set(cell, 8);
                inner.rollback();
            }
            assertEquals(3, cell.number);
            transaction.rollback();
        }
        assertEquals(0, cell.number);
        assertEquals(0, cell.counted);
        assertEquals("one", texts[0]);
        assertArrayEquals(new byte[8], bytes);
        assertArrayEquals(new byte[8], buffer.array());
    }

    /// J5.
    @Test
    void fieldUpdaterWritesAreRestored() {
        Cell cell = new Cell();
        var numbers = AtomicIntegerFieldUpdater.newUpdater(Cell.class, "number");
        var bigs = AtomicLongFieldUpdater.newUpdater(Cell.class, "big");
        var texts = AtomicReferenceFieldUpdater.newUpdater(Cell.class, String.class, "text");
        Function<Cell, Integer> counting = numbers::incrementAndGet;
        Cell another = new Cell();
        try (var transaction = Transaction.begin()) {
            numbers.incrementAndGet(cell);
            bigs.accumulateAndGet(cell, 3, Long::sum);
            texts.lazySet(cell, "second");
            counting.apply(another);
            transaction.rollback();
        }
        assertEquals(List.of(0, 0L, "first"), List.of(cell.number, cell.big, cell.text));
        assertEquals(0, another.number);
    }

    /// J5.
    /// Compiled by itself, because a compiler that is asked for all warnings has one for each use of `Unsafe`.
    @Test
    void unsafeWritesAreRestored(@TempDir Path folder) throws Exception {
        String source = """
                import cedrat.persist.Transaction;
                import java.util.Arrays;
                import sun.misc.Unsafe;
                class Careless {
                    int number;
                    static void run() throws Exception {
                        var instance = Unsafe.class.getDeclaredField("theUnsafe");
                        instance.setAccessible(true);
                        Unsafe unsafe = (Unsafe) instance.get(null);
                        long number = unsafe.objectFieldOffset(Careless.class.getDeclaredField("number"));
                        int first = Unsafe.ARRAY_BYTE_BASE_OFFSET;
                        Careless careless = new Careless();
                        byte[] bytes = new byte[2];
                        byte[] others = new byte[2];
                        long address = unsafe.allocateMemory(8);
                        try (Transaction transaction = Transaction.begin()) {
                            unsafe.putInt(careless, number, 1);
                            unsafe.getAndAddInt(careless, number, 1);
                            if (!unsafe.compareAndSwapInt(careless, number, 2, 3)) throw new AssertionError();
                            unsafe.setMemory(bytes, first, 1, (byte) 7);
                            unsafe.copyMemory(bytes, first, others, first, 2);
                            if (others[0] != 7) throw new AssertionError();
                            transaction.rollback();
                        }
                        try (Transaction transaction = Transaction.begin()) {
                            unsafe.putInt(address, 1);
                            throw new AssertionError("an address was written to");
                        } catch (UnsupportedOperationException e) {
                            unsafe.freeMemory(address);
                        }
                        String seen = careless.number + Arrays.toString(bytes) + Arrays.toString(others);
                        if (!seen.equals("0[0, 0][0, 0]")) throw new AssertionError(seen);
                    }
                }
                """;
        try (Compiled compiled = Compiled.of(folder, Compiled.Compiler.JAVAC, "Careless", source)) {
            Method run = compiled.loadClass("Careless").getDeclaredMethod("run");
            run.setAccessible(true);
            run.invoke(null);
        }
    }

    /// J5.
    @Test
    void handleOfStaticFieldIsRefused() {
        try (var transaction = Transaction.begin()) {
            var refused = assertThrows(UnsupportedOperationException.class, () -> SHARED.set(1));
            assertTrue(refused.getMessage().contains("static field"), refused.getMessage());
            assertEquals(0, (int) SHARED.get());
            Cell made = new Cell();
            NUMBER.set(made, 1);
            transaction.commit();
        }
        SHARED.set(2);
        assertEquals(2, shared);
    }
}
