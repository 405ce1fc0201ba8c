package cedrat.persist.woven.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Transaction;
import cedrat.persist.record.TestStore;
import cedrat.persist.woven.weave.far.Protected;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.function.Function;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/// J1: a reference that is pending is loaded where it is read, however it is read.
class ReadsTest implements AutoCloseable {
    private interface Named {
        String name();

        default String shout(Node node) {
            Supplier<String> text = () -> node.text + "!";
            return text.get();
        }

        static Object any(Node node) {
            return node.any;
        }
    }

    private static class Node implements Named, Cloneable {
        Node next;
        String text;
        int[] numbers;
        Object[][] table;
        volatile Named named;
        Object any;
        final String kept;
        private Node secret;
        int count;

        Node() {
            this(null);
        }

        Node(String kept) {
            this.kept = kept;
        }

        Node next() {
            return next;
        }

        @Override
        public String name() {
            return this.text;
        }

        @Override
        public Node clone() {
            try {
                return (Node) super.clone();
            } catch (CloneNotSupportedException e) {
                throw new AssertionError(e);
            }
        }

        final class Inner {
            Object secretOfOuter() {
                return secret;
            }

            Callable<Object> deeper() {
                return new Callable<>() {
                    @Override
                    public Object call() {
                        return secret.secret;
                    }
                };
            }
        }
    }

    private static final class Leaf extends Node {
        /// Hides that of the superclass.
        String text;

        Object ofSuper() {
            return super.text;
        }

        Object ofSuperInLambda() {
            Supplier<Object> read = () -> super.any;
            return read.get();
        }

        Object ofOther(Node other) {
            return other.any;
        }

        Object ofEither(Node other, boolean isOther) {
            return (isOther ? other : this).any;
        }

        static Object ofStatic(Leaf leaf, Node node) {
            return leaf.any == null ? node.any : leaf.any;
        }
    }

    private static final class Far extends Protected {
        Object own() {
            return hidden;
        }

        Object ofSuper() {
            return super.hidden;
        }

        Object ofAnother(Far far) {
            return far.hidden;
        }

        Object shownOf(Protected base) {
            return base.shown;
        }

        Object chained() {
            Far self = this;
            return ((Far) self.other).hidden;
        }

        Object ofSuperTwice(boolean isTwice) {
            Supplier<Object> read = () -> super.hidden;
            return isTwice ? read.get() : super.shown;
        }

        final class Within {
            Object ofOuterSuper() {
                return Far.super.hidden;
            }
        }
    }

    private static final class Box<T extends Comparable<T>> {
        T value;

        boolean isOver(T other) {
            return value.compareTo(other) > 0;
        }
    }

    private record Pair(Object left, Node right, int number) {
        private Object leftAgain() {
            return left;
        }
    }

    private enum Colour {
        RED {
            @Override
            Object read(Node node) {
                return node.text;
            }
        },
        BLUE;

        private Object note = "noted";

        Object read(Node node) {
            return note;
        }
    }

    /// Reads fields of another object before it is one itself.
    private static final class Early extends Node {
        final Object early;

        Early(Node other) {
            Object read = other.next == null ? other.any : other.next.any;
            early = read;
            super(other.text);
        }
    }

    private final TestStore store = new TestStore();
    private final Node node = store.add(new Node());

    @AfterEach
    @Override
    public void close() {
        store.close();
    }

    private void assertReads(String... names) {
        assertEquals(List.of(names), store.takeReads());
    }

    /// J1.
    @Test
    void aPendingReferenceIsLoadedOnce() {
        Node second = new Node();
        store.pend(node, "next", second);
        assertSame(second, node.next);
        assertReads("next");
        assertSame(second, node.next);
        assertSame(second, node.next());
        assertReads();
    }

    /// J1.
    @Test
    void nullOfPersistentObjectIsChecked() {
        assertNull(node.text);
        assertNull(node.text);
        assertReads("text", "text");
        assertEquals(0, node.count);
        assertReads();
    }

    /// J1.
    @Test
    void otherObjectsAreNotAskedFor() {
        Node ordinary = new Node();
        assertNull(ordinary.text);
        assertNull(ordinary.next());
        assertNull(new Leaf().ofSuper());
        assertNull(new Far().own());
        assertReads();
        store.remove(node);
        assertNull(node.text);
        assertReads();
    }

    /// J1.
    @Test
    void readsOfEachTypeLoad() {
        store.pend(node, "text", "one");
        store.pend(node, "numbers", new int[] {7});
        store.pend(node, "table", new Object[][] {{"cell"}});
        store.pend(node, "named", node);
        store.pend(node, "any", List.of(3));
        assertEquals(3, node.text.length());
        assertEquals(7, node.numbers[0]);
        node.numbers[0]++;
        assertEquals("cell", node.table[0][0]);
        assertEquals("one", node.named.name());
        assertEquals(List.of(3), node.any);
        assertReads("text", "numbers", "table", "named", "any");
        Box<String> box = store.add(new Box<>());
        store.pend(box, "value", "m");
        assertTrue(box.isOver("a"));
        Node kept = store.add(new Node());
        store.pend(kept, "kept", "final");
        assertEquals("final", kept.kept);
        assertEquals("final", kept.kept);
        assertReads("value", "kept", "kept");
    }

    /// J1.
    @Test
    void inChainsAndLoops() {
        Node third = store.add(new Node());
        Node second = store.add(new Node());
        store.pend(node, "next", second);
        store.pend(second, "next", third);
        int count = 0;
        for (Node at = node; at != null; at = at.next) {
            count++;
        }
        assertEquals(3, count);
        assertReads("next", "next", "next");
        store.letGo(node, "next");
        store.letGo(second, "next");
        store.pend(third, "text", "end");
        assertEquals("end", node.next.next.text);
        assertReads("next", "next", "text");
    }

    /// J1.
    @Test
    void inNestedClassesAndLambdas() {
        Node second = store.add(new Node());
        store.pend(node, "secret", second);
        assertSame(second, node.new Inner().secretOfOuter());
        store.letGo(node, "secret");
        store.pend(second, "secret", node);
        try {
            assertSame(node, node.new Inner().deeper().call());
        } catch (Exception e) {
            throw new AssertionError(e);
        }
        assertReads("secret", "secret", "secret");
        store.pend(node, "text", "loud");
        assertEquals("loud!", node.shout(node));
        store.pend(node, "any", 5);
        Function<Node, Object> reference = Named::any;
        assertEquals(5, reference.apply(node));
        store.letGo(node, "any");
        Function<Node, Object> lambda = one -> one.any;
        assertEquals(5, lambda.apply(node));
        assertReads("text", "any", "any");
    }

    /// J1.
    @Test
    void readsOfSuperclassFieldsLoad() {
        Leaf leaf = store.add(new Leaf());
        Leaf other = store.add(new Leaf());
        store.pend(leaf, "any", 1);
        assertEquals(1, leaf.ofSuperInLambda());
        assertNull(leaf.ofSuper());
        assertReads("any", "text");
        store.pend(node, "any", 2);
        assertEquals(2, leaf.ofOther(node));
        store.letGo(node, "any");
        store.letGo(leaf, "any");
        assertEquals(2, leaf.ofEither(node, true));
        assertEquals(1, leaf.ofEither(node, false));
        store.letGo(node, "any");
        assertEquals(2, Leaf.ofStatic(other, node));
        assertReads("any", "any", "any", "any", "any");
    }

    /// J1.
    @Test
    void readsOfProtectedForeignFieldLoad() {
        Far far = store.add(new Far());
        Far other = store.add(new Far());
        store.pend(far, "hidden", "own");
        assertEquals("own", far.own());
        store.letGo(far, "hidden");
        assertEquals("own", far.ofSuper());
        store.letGo(far, "hidden");
        assertEquals("own", far.ofSuperTwice(true));
        store.letGo(far, "hidden");
        assertEquals("own", far.new Within().ofOuterSuper());
        store.pend(other, "hidden", "other");
        assertEquals("other", far.ofAnother(other));
        assertReads("hidden", "hidden", "hidden", "hidden", "hidden");
        store.letGo(other, "hidden");
        store.pend(far, "other", other);
        assertEquals("other", far.chained());
        Protected base = store.add(new Protected());
        store.pend(base, "shown", 4);
        assertEquals(4, far.shownOf(base));
        assertNull(far.ofSuperTwice(false));
        assertReads("other", "hidden", "shown", "shown");
    }

    /// J1.
    @Test
    void readsOfRecordsLoad() {
        Node right = new Node();
        Pair pair = store.add(new Pair(null, null, 3));
        store.pend(pair, "left", "text");
        store.pend(pair, "right", right);
        assertEquals("text", pair.left());
        assertEquals("text", pair.leftAgain());
        assertReads("left", "left");
        assertEquals(new Pair("text", right, 3), pair);
        assertEquals(new Pair("text", right, 3).hashCode(), pair.hashCode());
        assertTrue(pair.toString().startsWith("Pair[left=text, right=cedrat"));
        assertEquals(6, store.takeReads().size());
        assertEquals("text3", matched(pair));
        assertEquals("text3", matched(List.of(pair)));
    }

    private static Object matched(Object object) {
        return switch (object) {
            case Pair(String left, Node right, int number) when right != null -> left + number;
            case List<?> list
            when list.getFirst() instanceof Pair(Object left, var right, int number) -> left + "" + number;
            default -> "other";
        };
    }

    @Test
    void enumsAreNeverPending() {
        assertEquals("noted", Colour.BLUE.read(node));
        Colour.BLUE.note = null;
        assertNull(Colour.BLUE.read(node));
        Colour.BLUE.note = "noted";
        assertReads();
        store.pend(node, "text", "red");
        assertEquals("red", Colour.RED.read(node));
    }

    /// J1.
    @Test
    void beforeAConstructorHasCalledAnother() {
        Node other = store.add(new Node());
        store.pend(node, "next", other);
        store.pend(other, "any", 8);
        store.pend(node, "text", "kept");
        Early early = new Early(node);
        assertEquals(8, early.early);
        assertEquals("kept", early.kept);
        assertReads("next", "any", "text");
        assertEquals(8, new Early(other).early);
        assertReads("next", "text");
    }

    @Test
    void readsBesideWritesAndLocksLoad() {
        store.pend(node, "text", "a");
        store.pend(node, "any", new Object());
        try (var transaction = Transaction.begin()) {
            node.text += "b";
            assertEquals("ab", node.text);
            transaction.commit();
        }
        synchronized (node.any) {
            assertEquals("ab", node.text);
        }
        store.letGo(node, "text");
        assertEquals(
                2,
                switch (node.text) {
                    case "a" -> 1;
                    case "ab" -> 2;
                    default -> 3;
                });
        assertReads("text", "any", "text");
    }

    @Test
    void readOfNullThrows() {
        Node none = store.isPending(node, "next") ? node : null;
        assertThrows(NullPointerException.class, () -> none.next.count++);
        assertReads();
    }

    /// J1.
    @Test
    void copyIsASeparateObject() {
        Node second = new Node();
        store.pend(node, "next", second);
        Node copy = node.clone();
        assertNotSame(node, copy);
        assertSame(second, copy.next);
        store.takeReads();
        assertNull(copy.text);
        copy.text = "of the copy";
        assertReads();
        assertNotEquals(copy.text, node.text);
        assertReads("text");
    }

    /// Its type is known in its own package only, and a cast would have to name it.
    @Test
    void typeHiddenFromReaderIsRead() {
        Protected base = store.add(new Protected());
        Object value = Protected.makeUnnameable();
        store.pend(base, "unnameable", value);
        Object read = base.unnameable;
        assertSame(value, read);
        assertEquals(List.of("unnameable"), store.takeReads());
        base = store.add(new Protected());
        read = base.unnameable;
        assertNull(read);
        assertNull(new Protected().unnameable);
    }
}
