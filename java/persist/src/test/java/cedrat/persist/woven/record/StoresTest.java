package cedrat.persist.woven.record;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Transaction;
import java.io.ByteArrayInputStream;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/// Each kind of store is undone by a rollback, and stays after a commit.
class StoresTest {
    private static class Point {
        int x;
        int y;
        Point next;
    }

    private static class Named extends Point {
        /// Hides the one of the superclass.
        int x;

        String name;
    }

    private static class Counted {
        static int count;
        final int number;
        int touched;

        Counted(int number) {
            this.number = number;
            touched = 1;
            count++;
        }
    }

    /// Stores to itself, and to another object of its class, before it has called the constructor of its
    /// superclass.
    private static final class Linked extends Point {
        private Linked before;
        private int links;

        Linked(Linked before, boolean twice) {
            this.before = before;
            if (before != null) {
                before.links += twice ? 2 : 1;
            }
            super();
            links++;
        }
    }

    private static final class Initialised {
        static int value = 7;
        static final Point POINT = new Point();

        static {
            POINT.x = 9;
        }
    }

    private static final class Beginning {
        static int value = 1;
        static final Point POINT = new Point();

        static {
            int local = 1;
            try (var transaction = Transaction.begin()) {
                value = 2;
                change(2);
                local = 2;
                transaction.rollback();
            }
            if (local != 1 || value != 1 || POINT.x != 0) {
                throw new AssertionError("not restored");
            }
            try (var transaction = Transaction.begin()) {
                change(3);
                transaction.commit();
            }
        }

        private static void change(int x) {
            POINT.x = x;
        }
    }

    private static final class BeginningWithin {
        static int value;

        static {
            Transaction.run(() -> {
                value = 1;
            });
        }
    }

    private static final class Failed extends Exception {
        private static final long serialVersionUID = 1;
        int code;

        Failed(int code) {
            this.code = code;
        }
    }

    @Test
    void placesOfEachTypeAreRestored() {
        Everything everything = new Everything();
        everything.change(5);
        String before = everything.show();
        try (var transaction = Transaction.begin()) {
            everything.change(6);
            everything.change(8);
            transaction.rollback();
        }
        assertEquals(before, everything.show());
    }

    @Test
    void placesOfEachTypeStayAfterCommit() {
        Everything everything = new Everything();
        int staticInt = Everything.staticInt;
        try (var transaction = Transaction.begin()) {
            everything.change(6);
            transaction.commit();
        }
        assertEquals(staticInt + 6, Everything.staticInt);
        assertEquals("text 6", Everything.staticReference);
    }

    @Test
    void hidingFieldsAreDistinguished() {
        Named named = new Named();
        named.x = 1;
        ((Point) named).x = 2;
        try (var transaction = Transaction.begin()) {
            ((Point) named).x = 4;
            named.x = 3;
            named.name = "lost";
            transaction.rollback();
        }
        assertEquals(1, named.x);
        assertEquals(2, ((Point) named).x);
        assertNull(named.name);
    }

    /// J13, J027
    @Test
    void placeIsLoggedOncePerLevel() {
        Point point = new Point();
        int[] array = new int[4];
        try (var outer = Transaction.begin()) {
            for (int i = 0; i < 100; i++) {
                point.x++;
                array[i & 1] = i;
            }
            assertEquals(3, outer.undoSize());
            try (var inner = Transaction.begin()) {
                for (int i = 0; i < 100; i++) {
                    point.x++;
                    point.y++;
                }
                assertEquals(5, outer.undoSize());
                inner.commit();
            }
            assertEquals(4, outer.undoSize(), "of what both have written one value is enough");
            outer.rollback();
        }
        assertEquals(0, point.x);
        assertEquals(0, point.y);
        assertArrayEquals(new int[4], array);
    }

    @Test
    void manyPlacesAreKept() {
        int[] array = new int[10_000];
        Point[] points = new Point[1_000];
        Arrays.setAll(points, i -> new Point());
        try (var transaction = Transaction.begin()) {
            for (int i = 0; i < 20_000; i++) {
                array[i * 7 % array.length] += i;
                points[i % points.length].x = i;
            }
            assertEquals(11_000, transaction.undoSize());
            transaction.rollback();
        }
        assertArrayEquals(new int[10_000], array);
        for (Point point : points) {
            assertEquals(0, point.x);
        }
    }

    @Test
    void copiesOfArraysAreRestored() {
        int[] array = {1, 2, 3, 4, 5};
        Object[] texts = {"a", "b", "c"};
        try (var transaction = Transaction.begin()) {
            System.arraycopy(array, 0, array, 1, 4);
            System.arraycopy(texts, 1, texts, 0, 2);
            assertArrayEquals(new int[] {1, 1, 2, 3, 4}, array);
            transaction.rollback();
        }
        assertArrayEquals(new int[] {1, 2, 3, 4, 5}, array);
        assertArrayEquals(new Object[] {"a", "b", "c"}, texts);
    }

    @Test
    void storesThatThrowLeaveNothing() {
        int[] array = {1};
        Object[] texts = new String[1];
        try (var transaction = Transaction.begin()) {
            assertThrows(ArrayIndexOutOfBoundsException.class, () -> array[1] = 2);
            assertThrows(ArrayStoreException.class, () -> texts[0] = 1);
            assertThrows(NullPointerException.class, () -> ((Point) null).x = 2);
            assertThrows(ArrayIndexOutOfBoundsException.class, () -> System.arraycopy(array, 0, array, 1, 1));
            assertThrows(ArrayStoreException.class, () -> System.arraycopy(array, 0, "text", 0, 1));
            transaction.rollback();
        }
        assertArrayEquals(new int[] {1}, array);
    }

    /// Arrays that code without barriers writes to are kept where it is called.
    @Test
    void arraysWrittenByJdkAreRestored() {
        check(array -> Arrays.fill(array, 9));
        check(array -> Arrays.fill(array, 1, 3, 9));
        check(Arrays::sort);
        check(array -> Arrays.sort(array, 0, 3));
        check(Arrays::parallelSort);
        check(array -> Arrays.setAll(array, i -> i));
        check(array -> Arrays.parallelPrefix(array, Integer::sum));
        check(array -> Array.setInt(array, 1, 17));
        check(array -> java.nio.IntBuffer.wrap(new int[] {7, 7}).get(array, 0, 2));
        byte[] bytes = {1, 2, 3};
        char[] chars = {'a', 'b'};
        String[] texts = {"b", "a"};
        try (var transaction = Transaction.begin()) {
            assertEquals(3, new ByteArrayInputStream(new byte[] {7, 8, 9}).read(bytes, 0, 3));
            "xyz".getChars(0, 2, chars, 0);
            Arrays.sort(texts);
            new java.util.Random(1).nextBytes(bytes);
            transaction.rollback();
        }
        assertArrayEquals(new byte[] {1, 2, 3}, bytes);
        assertArrayEquals(new char[] {'a', 'b'}, chars);
        assertArrayEquals(new String[] {"b", "a"}, texts);
    }

    /// J5d.
    @Test
    void parallelStreamsAreRestored() {
        List<int[]> cells = Stream.generate(() -> new int[1]).limit(10_000).toList();
        try (var transaction = Transaction.begin()) {
            assertFalse(cells.parallelStream().isParallel());
            cells.parallelStream().forEach(cell -> cell[0]++);
            assertEquals(
                    10_000, cells.parallelStream().mapToInt(cell -> cell[0]).sum());
            transaction.rollback();
        }
        assertTrue(cells.parallelStream().isParallel());
        assertEquals(0, cells.parallelStream().mapToInt(cell -> cell[0]).sum());
    }

    private static void check(Consumer<int[]> change) {
        int[] array = {5, 3, 8, 1};
        Transaction.run(transaction -> {
            change.accept(array);
            transaction.rollback();
        });
        assertArrayEquals(new int[] {5, 3, 8, 1}, array);
    }

    @Test
    void buildersOfStringsAreRestored() {
        StringBuilder builder = new StringBuilder("old");
        StringBuilder passed = new StringBuilder("old");
        StringBuffer buffer = new StringBuffer("old");
        Appendable appendable = new StringBuilder("old");
        try (var transaction = Transaction.begin()) {
            builder.append(1).append("text").reverse().insert(0, 'c').setLength(2);
            buffer.deleteCharAt(0);
            List.of("a", "b").forEach(buffer::append);
            appendable.append("more");
            java.util.regex.Matcher matcher =
                    java.util.regex.Pattern.compile("x").matcher("axb");
            matcher.find();
            matcher.appendReplacement(passed, "y");
            transaction.rollback();
        } catch (java.io.IOException e) {
            throw new AssertionError(e);
        }
        assertEquals("old", builder.toString());
        assertEquals("old", passed.toString());
        assertEquals("old", buffer.toString());
        assertEquals("old", appendable.toString());
    }

    @Test
    void storesByReflectionAreRestored() throws ReflectiveOperationException {
        Point point = new Point();
        Field x = Point.class.getDeclaredField("x");
        Field next = Point.class.getDeclaredField("next");
        Field count = Counted.class.getDeclaredField("count");
        int before = Counted.count;
        try (var transaction = Transaction.begin()) {
            x.setInt(point, 4);
            next.set(point, new Point());
            count.set(null, 77);
            assertEquals(77, Counted.count);
            transaction.rollback();
        }
        assertEquals(0, point.x);
        assertNull(point.next);
        assertEquals(before, Counted.count);
    }

    /// J14: what a transaction has made nothing leads to after its rollback; what leads to it nevertheless
    /// finds it whole.
    @Test
    void objectsMadeBeforeRollbackAreWhole() {
        Failed failed = assertThrows(Failed.class, () -> {
            try (var transaction = Transaction.begin()) {
                assertEquals(0, transaction.undoSize());
                throw new Failed(5);
            }
        });
        assertEquals(5, failed.code);
        int before = Counted.count;
        Counted[] made = new Counted[1];
        try (var transaction = Transaction.begin()) {
            made[0] = new Counted(3);
            assertEquals(2, transaction.undoSize(), "the element and the count");
            transaction.rollback();
        }
        assertNull(made[0]);
        assertEquals(before, Counted.count);
    }

    /// J14.
    @Test
    void nestedTransactionRestoresObjectsOfOuter() {
        try (var outer = Transaction.begin()) {
            Point point = new Point();
            point.x = 1;
            int[] array = {1, 2};
            try (var inner = Transaction.begin()) {
                point.x = 2;
                array[0] = 5;
                inner.rollback();
            }
            assertEquals(1, point.x);
            assertEquals(1, array[0]);
            outer.rollback();
        }
    }

    @Test
    void assignmentsBeforeConstructorCallAreRestored() {
        Linked first = new Linked(null, false);
        try (var transaction = Transaction.begin()) {
            assertEquals(first, new Linked(first, true).before);
            assertEquals(3, first.links);
            transaction.rollback();
        }
        assertEquals(1, first.links);
    }

    /// J14: a class is initialised once, so what its initialiser does is not undone.
    @Test
    void classesAreInitialisedOutsideOfTransactions() {
        try (var transaction = Transaction.begin()) {
            assertEquals(7, Initialised.value);
            Initialised.value = 8;
            Initialised.POINT.y = 5;
            transaction.rollback();
        }
        assertEquals(7, Initialised.value);
        assertEquals(9, Initialised.POINT.x);
        assertEquals(0, Initialised.POINT.y);
    }

    /// J14.
    @Test
    void classInitialiserMayBeginTransactions() {
        assertEquals(3, Beginning.POINT.x);
        try (var transaction = Transaction.begin()) {
            var thrown = assertThrows(ExceptionInInitializerError.class, () -> BeginningWithin.value++);
            assertEquals(IllegalStateException.class, thrown.getCause().getClass());
            transaction.rollback();
        }
    }

    @Test
    void writesWithoutBarriersAreRefused() {
        var map = new ConcurrentHashMap<String, Integer>();
        java.util.Map<String, Integer> view = map;
        var number = new AtomicInteger();
        try (var transaction = Transaction.begin()) {
            var refused = assertThrows(UnsupportedOperationException.class, () -> map.put("a", 1));
            assertEquals(true, refused.getMessage().contains("java.util.concurrent.ConcurrentHashMap"));
            assertThrows(UnsupportedOperationException.class, () -> view.putIfAbsent("a", 1));
            assertThrows(UnsupportedOperationException.class, number::incrementAndGet);
            assertThrows(UnsupportedOperationException.class, () -> number.set(2));
            assertNull(map.get("a"));
            assertEquals(0, number.get());
            transaction.commit();
        }
        map.put("a", 1);
        assertEquals(1, number.incrementAndGet());
    }

    private static final class Fixed {
        int before = 1;
        final String name;
        final int number;
        int after = 1;

        Fixed(String name, int number) {
            this.name = name;
            this.number = number;
        }
    }

    /// As deserialisers do it.
    @Test
    void finalFieldsAssignedByReflectionAreRestored() throws Exception {
        Fixed fixed = new Fixed("old", 7);
        Field name = Fixed.class.getDeclaredField("name");
        Field number = Fixed.class.getDeclaredField("number");
        name.setAccessible(true);
        number.setAccessible(true);
        try (var transaction = Transaction.begin()) {
            fixed.before = 2;
            name.set(fixed, "new");
            number.setInt(fixed, 8);
            fixed.after = 2;
            transaction.rollback();
        }
        assertEquals(1, fixed.before);
        assertEquals("old", name.get(fixed));
        assertEquals(7, number.getInt(fixed));
        assertEquals(1, fixed.after);
        fixed.after = 3; // it is not locked
    }
}
