package cedrat.persist.woven.jdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.record.TestStore;
import cedrat.persist.woven.weave.Compiled;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Field;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicReferenceFieldUpdater;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// J1: what reads fields without the weaver's sight loads the whole object first.
class UnseenReadsTest {
    private static class Node implements Serializable {
        private static final long serialVersionUID = 1;

        volatile Node next;
        String text;
        int count;
    }

    private final TestStore store = new TestStore();
    private final Node node = store.add(new Node());
    private final Node next = new Node();

    @AfterEach
    void close() {
        store.close();
    }

    private void letGo() {
        store.pend(node, "next", next);
        store.pend(node, "text", "text");
    }

    /// Both were pending, and have been loaded at once.
    private void assertLoaded() {
        assertEquals(
                List.of("next", "text"), store.takeReads().stream().sorted().toList());
        assertSame(next, node.next);
        assertEquals("text", node.text);
        store.letGo(node, "next");
        store.letGo(node, "text");
    }

    /// J1.
    @Test
    void byReflection() throws ReflectiveOperationException {
        letGo();
        Field text = Node.class.getDeclaredField("text");
        assertEquals("text", text.get(node));
        assertLoaded();
        Field next = Node.class.getDeclaredField("next");
        assertSame(this.next, Field.class.getMethod("get", Object.class).invoke(next, node));
        assertLoaded();
        assertNull(text.get(new Node()));
        assertTrue(store.takeReads().isEmpty());
    }

    /// J1.
    @Test
    void byHandlesOfVariables() throws ReflectiveOperationException {
        letGo();
        MethodHandles.Lookup lookup = MethodHandles.lookup();
        VarHandle next = lookup.findVarHandle(Node.class, "next", Node.class);
        assertSame(this.next, (Node) next.get(node));
        assertLoaded();
        assertSame(this.next, (Node) next.getVolatile(node));
        assertLoaded();
        assertSame(this.next, (Node) next.getAcquire(node));
        assertLoaded();
        assertSame(this.next, (Node) next.getOpaque(node));
        assertLoaded();
        var updater = AtomicReferenceFieldUpdater.newUpdater(Node.class, Node.class, "next");
        assertSame(this.next, updater.get(node));
        assertLoaded();
    }

    /// J1.
    @Test
    void byHandlesOfMethods() throws Throwable {
        letGo();
        MethodHandles.Lookup lookup = MethodHandles.lookup();
        MethodHandle next = lookup.findGetter(Node.class, "next", Node.class);
        MethodHandle text = lookup.unreflectGetter(Node.class.getDeclaredField("text"));
        assertSame(this.next, (Node) next.invokeExact(node));
        assertLoaded();
        assertEquals("text", text.bindTo(node).invoke());
        assertLoaded();
        store.add(this.next);
        store.pend(this.next, "text", "of the next");
        assertEquals("of the next", MethodHandles.filterArguments(text, 0, next).invoke(node));
        assertNull(this.next.next);
        assertEquals(
                List.of("next", "next", "next", "text", "text"),
                store.takeReads().stream().sorted().toList());
    }

    /// J1.
    @Test
    void bySerialisation() throws IOException, ClassNotFoundException {
        letGo();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(node);
        }
        assertLoaded();
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
            Node read = (Node) in.readObject();
            store.takeReads();
            assertEquals("text", read.text);
            assertNull(read.next.text);
            assertTrue(store.takeReads().isEmpty());
        }
    }

    /// J1.
    /// Compiled by itself, because a compiler that is asked for all warnings has one for each use of `Unsafe`.
    @Test
    void byUnsafeCode(@TempDir Path folder) throws Exception {
        String source = """
                import cedrat.persist.record.TestStore;
                import sun.misc.Unsafe;
                class Careless {
                    Object first;
                    Object second;
                    static void run(TestStore store) throws Exception {
                        var instance = Unsafe.class.getDeclaredField("theUnsafe");
                        instance.setAccessible(true);
                        Unsafe unsafe = (Unsafe) instance.get(null);
                        long first = unsafe.objectFieldOffset(Careless.class.getDeclaredField("first"));
                        Careless careless = store.add(new Careless());
                        store.pend(careless, "first", 1);
                        store.pend(careless, "second", 2);
                        if (!Integer.valueOf(1).equals(unsafe.getObject(careless, first))) throw new AssertionError();
                        if (store.isPending(careless, "second")) throw new AssertionError();
                        store.letGo(careless, "first");
                        if (!Integer.valueOf(1).equals(unsafe.getObjectVolatile(careless, first))) {
                            throw new AssertionError();
                        }
                    }
                }
                """;
        try (Compiled compiled = Compiled.of(folder, Compiled.Compiler.JAVAC, "Careless", source)) {
            var run = compiled.loadClass("Careless").getDeclaredMethod("run", TestStore.class);
            run.setAccessible(true);
            run.invoke(null, store);
        }
    }
}
