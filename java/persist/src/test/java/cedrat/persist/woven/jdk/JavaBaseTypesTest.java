package cedrat.persist.woven.jdk;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Transaction;
import cedrat.persist.woven.jdk.DerivedTypes.CountingStream;
import cedrat.persist.woven.jdk.DerivedTypes.DirectExecutor;
import cedrat.persist.woven.jdk.DerivedTypes.ListeningQueue;
import cedrat.persist.woven.jdk.DerivedTypes.OnesStream;
import cedrat.persist.woven.jdk.DerivedTypes.SevenGenerator;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.CharArrayReader;
import java.io.CharArrayWriter;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringReader;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Method;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.IntBuffer;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.text.ChoiceFormat;
import java.text.DecimalFormat;
import java.text.FieldPosition;
import java.text.MessageFormat;
import java.text.ParsePosition;
import java.text.SimpleDateFormat;
import java.text.StringCharacterIterator;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Calendar;
import java.util.Collections;
import java.util.Date;
import java.util.GregorianCalendar;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Properties;
import java.util.Random;
import java.util.Scanner;
import java.util.SimpleTimeZone;
import java.util.Spliterator;
import java.util.SplittableRandom;
import java.util.StringJoiner;
import java.util.StringTokenizer;
import java.util.TimeZone;
import java.util.TreeSet;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.LinkedTransferQueue;
import java.util.concurrent.PriorityBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.random.RandomGenerator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.zip.Adler32;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import java.util.zip.Checksum;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/// J5: what becomes of types of `java.base` that change.
class JavaBaseTypesTest {
    private static final int ROUNDS = 30;

    /// Changes an object, then again in a transaction that is rolled back, and so on, and compares what is
    /// seen of it.
    private static <T> void restores(Supplier<T> maker, BiConsumer<T, Random> change, Function<T, Object> seen) {
        T object = maker.get();
        Random choice = new Random(1);
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = choice.nextInt(4); i > 0; i--) {
                change.accept(object, choice);
            }
            Object before = seen.apply(object);
            Random inside = new Random(round);
            try (var transaction = Transaction.begin()) {
                change.accept(object, inside);
                try (var inner = Transaction.begin()) {
                    change.accept(object, inside);
                    inner.defaultAction(choice.nextBoolean() ? Transaction.Action.COMMIT : Transaction.Action.ROLLBACK);
                }
                change.accept(object, inside);
                transaction.rollback();
            }
            assertEquals(before, seen.apply(object), object.getClass() + ", round " + round);
        }
    }

    /// All that an object would leave in a file.
    private static String written(Object object) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(object);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return Arrays.toString(bytes.toByteArray());
    }

    /// J5.
    @Test
    void randomNumbersComeAgain() {
        restores(() -> new Random(5), JavaBaseTypesTest::draw, JavaBaseTypesTest::written);
        restores(() -> new SplittableRandom(5), (numbers, random) -> numbers.nextInt(), JavaBaseTypesTest::peek);
        restores(
                () -> RandomGenerator.of("L64X128MixRandom"),
                (numbers, random) -> numbers.nextInt(),
                JavaBaseTypesTest::peek);
        List<Integer> list = new ArrayList<>(List.of(1, 2, 3, 4));
        restores(
                () -> new Random(5),
                (numbers, random) -> Collections.shuffle(list, numbers),
                numbers -> written(numbers) + list);
    }

    private static void draw(Random numbers, Random random) {
        switch (random.nextInt(4)) {
            case 0 -> numbers.nextGaussian();
            case 1 -> numbers.setSeed(random.nextLong());
            case 2 -> numbers.ints(3).sum();
            default -> numbers.nextInt();
        }
    }

    /// The next number, which is put back.
    private static Object peek(RandomGenerator numbers) {
        try (var transaction = Transaction.begin()) {
            long next = numbers.nextLong();
            transaction.rollback();
            return next;
        }
    }

    /// J5.
    @Test
    void buffersAreAsTheyWere() {
        byte[] wrapped = new byte[64];
        List<Supplier<ByteBuffer>> makers = List.of(
                () -> ByteBuffer.allocate(64),
                () -> ByteBuffer.wrap(wrapped),
                () -> ByteBuffer.wrap(wrapped, 8, 48).slice(),
                () -> ByteBuffer.allocate(64).duplicate());
        for (Supplier<ByteBuffer> maker : makers) {
            restores(maker, JavaBaseTypesTest::put, bytes -> seen(bytes) + Arrays.toString(bytes.array()));
        }
        restores(
                () -> ByteBuffer.wrap(wrapped).asIntBuffer(),
                (numbers, random) ->
                        numbers.put(random.nextInt(16), random.nextInt()).position(random.nextInt(16)),
                numbers -> seen(numbers) + Arrays.toString(wrapped));
        restores(
                () -> CharBuffer.wrap("some text"),
                (chars, random) -> chars.position(random.nextInt(8)).get(),
                JavaBaseTypesTest::seen);
        restores(
                () -> IntBuffer.allocate(8),
                (numbers, random) -> numbers.clear().put(random.nextInt()).put(2),
                numbers -> seen(numbers) + Arrays.toString(numbers.array()));
    }

    private static void put(ByteBuffer bytes, Random random) {
        bytes.clear();
        bytes.position(random.nextInt(16)).mark().putInt(random.nextInt()).put((byte) random.nextInt());
        bytes.putLong(random.nextInt(40), random.nextLong()).get();
        if (random.nextBoolean()) {
            bytes.order(java.nio.ByteOrder.LITTLE_ENDIAN).flip().compact();
        }
    }

    private static String seen(Buffer buffer) {
        return buffer.toString();
    }

    /// J5.
    @Test
    void theArrayOfABufferIsLocked() {
        byte[] array = new byte[8];
        ByteBuffer bytes = ByteBuffer.wrap(array);
        boolean[] assertRefusedInTransaction = new boolean[1];
        try (var transaction = Transaction.begin()) {
            bytes.put((byte) 1);
            Thread other = Thread.ofPlatform().start(() -> {
                try {
                    array[3] = 1;
                } catch (IllegalStateException e) {
                    assertRefusedInTransaction[0] = true;
                }
            });
            other.join();
            transaction.rollback();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
        assertTrue(assertRefusedInTransaction[0]);
    }

    /// J5.
    @Test
    void datesAreAsTheyWere() {
        restores(() -> new Date(5_000_000_000L), JavaBaseTypesTest::changeDate, JavaBaseTypesTest::written);
        TimeZone zone = TimeZone.getTimeZone("Europe/Berlin");
        restores(() -> new GregorianCalendar(zone, Locale.ROOT), JavaBaseTypesTest::turn, calendar -> days(calendar));
        restores(() -> Calendar.getInstance(zone, Locale.ROOT), JavaBaseTypesTest::turn, calendar -> days(calendar));
        restores(
                () -> new SimpleTimeZone(3_600_000, "Here"),
                (here, random) -> here.setRawOffset(random.nextInt(9) * 60_000),
                JavaBaseTypesTest::written);
    }

    @SuppressWarnings("deprecation")
    private static void changeDate(Date date, Random random) {
        if (random.nextBoolean()) {
            date.setTime(random.nextInt() * 1000L);
        } else {
            date.setYear(random.nextInt(200));
            date.setMonth(random.nextInt(12));
        }
    }

    private static void turn(Calendar calendar, Random random) {
        switch (random.nextInt(5)) {
            case 0 -> calendar.add(Calendar.DAY_OF_YEAR, random.nextInt(900));
            case 1 -> calendar.roll(Calendar.MONTH, random.nextInt(20));
            case 2 -> calendar.set(1900 + random.nextInt(200), random.nextInt(12), random.nextInt(28));
            case 3 -> calendar.setFirstDayOfWeek(1 + random.nextInt(7));
            default -> calendar.clear(Calendar.MINUTE);
        }
        calendar.getTimeInMillis();
    }

    /// Its fields, as it computes them for the same moment and for another.
    private static String days(Calendar calendar) {
        Calendar copy = (Calendar) calendar.clone();
        String fields = copy.toString();
        copy.setTimeInMillis(copy.getTimeInMillis() + 1);
        String next = copy.toString();
        copy.setTimeInMillis(0);
        return fields + next + copy;
    }

    /// J5.
    @Test
    void formatsAreAsTheyWere() {
        restores(
                () -> new SimpleDateFormat("yyyy-MM-dd HH:mm", Locale.ROOT),
                (format, random) -> {
                    format.format(new Date(random.nextLong() >>> 24));
                    format.getCalendar().setTimeInMillis(random.nextInt());
                    format.applyPattern(random.nextBoolean() ? "yyyy" : "MM");
                },
                format -> format.toPattern() + format.getCalendar().getTimeInMillis());
        restores(
                () -> new DecimalFormat("#,##0.00"),
                (format, random) -> {
                    format.format(random.nextDouble());
                    format.setMaximumFractionDigits(random.nextInt(9));
                    format.setGroupingUsed(random.nextBoolean());
                },
                JavaBaseTypesTest::written);
        restores(
                () -> new MessageFormat("{0} and {1}"),
                (format, random) -> format.setFormat(random.nextInt(2), new ChoiceFormat("0#no|1#some")),
                JavaBaseTypesTest::written);
        restores(
                () -> new ParsePosition(0),
                (at, random) -> new DecimalFormat("0").parse("17 apples".substring(random.nextInt(2)), at),
                ParsePosition::toString);
        restores(
                () -> new FieldPosition(0),
                (at, random) -> new DecimalFormat("0").format(random.nextInt(), new StringBuffer(), at),
                FieldPosition::toString);
        restores(
                () -> new StringCharacterIterator("characters"),
                (at, random) -> at.setIndex(random.nextInt(10)),
                StringCharacterIterator::getIndex);
    }

    /// J5.
    @Test
    void streamsInMemoryAreAsTheyWere() {
        restores(
                ByteArrayOutputStream::new,
                (out, random) -> {
                    out.write(random.nextInt());
                    out.writeBytes(new byte[random.nextInt(90)]);
                    if (random.nextInt(4) == 0) {
                        out.reset();
                    }
                },
                out -> Arrays.toString(out.toByteArray()));
        restores(
                () -> new ByteArrayInputStream(new byte[500]),
                (in, random) -> in.skip(random.nextInt(3)),
                ByteArrayInputStream::available);
        restores(
                CharArrayWriter::new,
                (out, random) -> out.append("text" + random.nextInt()),
                CharArrayWriter::toString);
        restores(
                () -> new CharArrayReader(new char[] {'a', 'b', 'c'}),
                (in, random) -> {
                    try {
                        in.reset();
                        in.skip(random.nextInt(4));
                    } catch (IOException e) {
                        throw new AssertionError(e);
                    }
                },
                JavaBaseTypesTest::next);
        restores(StringWriter::new, (out, random) -> out.write("text" + random.nextInt()), StringWriter::toString);
    }

    private static Object next(CharArrayReader in) {
        try (var transaction = Transaction.begin()) {
            int next = in.read();
            transaction.rollback();
            return next;
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    /// J5.
    @Test
    void matchersAndChecksumsAreAsTheyWere() {
        Pattern pattern = Pattern.compile("(a+)(b)");
        restores(
                () -> pattern.matcher("aabcabcaaab"),
                (matcher, random) -> {
                    if (random.nextInt(5) == 0 || !matcher.find()) {
                        matcher.reset();
                    }
                },
                Matcher::toString);
        for (Supplier<Checksum> maker : List.<Supplier<Checksum>>of(CRC32::new, CRC32C::new, Adler32::new)) {
            restores(maker, (sum, random) -> sum.update(random.nextInt(256)), Checksum::getValue);
        }
    }

    /// J5.
    @Test
    void otherWovenClassesAreUnchanged() {
        restores(
                () -> new StringJoiner(","),
                (joiner, random) -> joiner.add("text" + random.nextInt()).setEmptyValue("none"),
                StringJoiner::toString);
        restores(
                () -> new StringTokenizer("word ".repeat(300)),
                (words, random) -> words.nextToken(),
                StringTokenizer::countTokens);
        restores(
                java.util.LongSummaryStatistics::new,
                (numbers, random) -> numbers.accept(random.nextLong()),
                java.util.LongSummaryStatistics::toString);
    }

    /// J5.
    @Test
    void iteratorsAreWhereTheyWere() {
        List<Integer> numbers = IntStream.range(0, 40).boxed().toList();
        var map = new ConcurrentHashMap<Integer, Integer>();
        numbers.forEach(number -> map.put(number, number));
        List<Iterable<?>> all = List.of(
                numbers,
                new ArrayList<>(numbers),
                new ArrayDeque<>(numbers),
                new PriorityQueue<>(numbers),
                new HashSet<>(numbers),
                new TreeSet<>(numbers),
                new CopyOnWriteArrayList<>(numbers),
                new CopyOnWriteArrayList<>(numbers).subList(2, 30),
                new ConcurrentLinkedQueue<>(numbers),
                new ConcurrentLinkedDeque<>(numbers),
                new ConcurrentSkipListSet<>(numbers),
                new LinkedBlockingQueue<>(numbers),
                new LinkedBlockingDeque<>(numbers),
                new LinkedTransferQueue<>(numbers),
                new PriorityBlockingQueue<>(numbers),
                map.keySet(),
                map.entrySet(),
                Collections.unmodifiableCollection(map.values()),
                Path.of("a/b/c/d/e/f/g/h/i/j/k/l/m"));
        for (Iterable<?> one : all) {
            comesAgain(one::iterator);
        }
        comesAgain(() -> map.keys().asIterator());
    }

    private static void comesAgain(Supplier<Iterator<?>> maker) {
        Iterator<?> one = maker.get();
        Iterator<?> other = maker.get();
        assertEquals(other.next(), one.next());
        try (var transaction = Transaction.begin()) {
            one.next();
            try (var inner = Transaction.begin()) {
                one.next();
                one.next();
                inner.rollback();
            }
            one.forEachRemaining(element -> {});
            transaction.rollback();
        }
        while (other.hasNext()) {
            assertEquals(other.next(), one.next(), one.getClass().getName());
        }
        assertFalse(one.hasNext());
    }

    /// J5.
    @Test
    void iteratorKnownToItsQueueStays() {
        var queue = new ArrayBlockingQueue<>(3, true, List.of(1, 2));
        Iterator<Integer> numbers = queue.iterator();
        try (var transaction = Transaction.begin()) {
            assertEquals(1, numbers.next());
            assertEquals(2, numbers.next());
            assertFalse(numbers.hasNext());
            transaction.rollback();
        }
        assertFalse(numbers.hasNext());
        queue.add(3);
        assertEquals(List.of(1, 2, 3), List.copyOf(queue));
    }

    /// J5: a rollback does not write what the transaction has read by an iterator.
    @Test
    void collectionStaysWhenIteratorGoesBack() {
        // With room for more, so that its table stays.
        var map = new ConcurrentHashMap<Integer, String>(64);
        map.putAll(Map.of(1, "one", 2, "two"));
        Iterator<Integer> keys = map.keySet().iterator();
        try (var transaction = Transaction.begin()) {
            keys.next();
            Thread other = Thread.ofPlatform().start(() -> map.put(3, "three"));
            other.join();
            transaction.rollback();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
        assertEquals(Map.of(1, "one", 2, "two", 3, "three"), map);
    }

    /// J14
    @Test
    void initialThreadLocalBelongsToNoTransaction() {
        ThreadLocal<List<String>> texts = ThreadLocal.withInitial(() -> new ArrayList<>(List.of("first")));
        try (var transaction = Transaction.begin()) {
            texts.get().add("second");
            assertEquals(List.of("first", "second"), texts.get());
            transaction.rollback();
        }
        assertEquals(List.of("first"), texts.get());
    }

    /// J5.
    @Test
    void segmentsOfMemoryAreAsTheyWere() {
        byte[] bytes = new byte[64];
        long[] numbers = new long[8];
        restores(
                () -> MemorySegment.ofArray(bytes).asSlice(8, 48),
                (segment, random) -> {
                    segment.set(ValueLayout.JAVA_INT_UNALIGNED, random.nextInt(40), random.nextInt());
                    segment.asSlice(random.nextInt(20), 9).fill((byte) 7);
                    MemorySegment.copy(segment, ValueLayout.JAVA_LONG_UNALIGNED, 0, numbers, 1, 4);
                },
                segment -> Arrays.toString(bytes) + Arrays.toString(numbers));
    }

    // ---- what is refused

    private static void assertRefusedInTransaction(String named, Executable change) {
        try (var transaction = Transaction.begin()) {
            assertRefused(named, change);
            transaction.rollback();
        }
    }

    /// J5.
    @Test
    void partlyRestorableTypeIsRefused() throws Exception {
        ByteBuffer direct = ByteBuffer.allocateDirect(8);
        assertRefusedInTransaction("java.nio.DirectByteBuffer", () -> direct.put((byte) 1));
        IntBuffer numbers = direct.asIntBuffer();
        assertRefusedInTransaction("java.nio.IntBuffer", () -> numbers.put(1));
        MemorySegment segment = Arena.ofAuto().allocate(8);
        assertRefusedInTransaction(
                "java.lang.foreign.MemorySegment", () -> segment.set(ValueLayout.JAVA_BYTE, 0, (byte) 1));
        Scanner scanner = new Scanner("1 2 3");
        assertRefusedInTransaction("java.util.Scanner", scanner::nextInt);
        ThreadLocal<Integer> local = new ThreadLocal<>();
        assertRefusedInTransaction("java.lang.ThreadLocal", () -> local.set(1));
        BufferedReader reader = new BufferedReader(new StringReader("text"));
        assertRefusedInTransaction("java.io.BufferedReader", reader::readLine);
        assertRefusedInTransaction("java.io.BufferedReader", () -> new Scanner(reader));
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        assertRefusedInTransaction("java.security.MessageDigest", () -> digest.update((byte) 1));
        assertRefusedInTransaction(
                "java.security.MessageDigest", () -> List.of((byte) 1).forEach(digest::update));
        PrintStream printed = new PrintStream(new ByteArrayOutputStream());
        assertRefusedInTransaction("java.io.PrintStream", () -> printed.println("text"));
        Properties properties = new Properties();
        properties.setProperty("a", "b");
        assertRefusedInTransaction("java.util.Properties", () -> properties.setProperty("a", "c"));
        Map<String, String> map = new ConcurrentHashMap<>(Map.of("a", "b"));
        assertRefusedInTransaction(
                "java.util.concurrent.ConcurrentHashMap", () -> map.values().remove("b"));
        assertRefusedInTransaction(
                "java.util.concurrent.ConcurrentHashMap", () -> map.values().removeIf(text -> true));
        assertRefusedInTransaction(
                "java.util.Properties", () -> properties.entrySet().removeIf(entry -> true));
        assertRefusedInTransaction("java.util.concurrent.ConcurrentHashMap", () -> {
            for (var entry : map.entrySet()) {
                entry.setValue("c");
            }
        });
        Map<String, String> wrapped = Collections.synchronizedMap(map);
        assertRefusedInTransaction("java.util.concurrent.ConcurrentHashMap", () -> wrapped.put("a", "c"));
        List<String> list = new CopyOnWriteArrayList<>();
        assertRefusedInTransaction("java.util.concurrent.CopyOnWriteArrayList", () -> Collections.addAll(list, "c"));
        Iterator<String> keys = map.keySet().iterator();
        keys.next();
        assertRefusedInTransaction("java.util.concurrent.ConcurrentHashMap", keys::remove);
        Spliterator<String> split = map.keySet().spliterator();
        assertRefusedInTransaction("java.util.Spliterator", () -> split.tryAdvance(key -> {}));
        Stream.Builder<String> builder = Stream.builder();
        assertRefusedInTransaction("java.util.stream.Stream$Builder", () -> builder.add("text"));
        try (ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor()) {
            assertRefusedInTransaction("java.util.concurrent", () -> threads.submit(() -> 1));
            assertRefusedInTransaction("java.util.concurrent", () -> CompletableFuture.runAsync(() -> {}, threads));
        }
        assertEquals(8, direct.remaining());
        assertEquals(1, scanner.nextInt());
        assertEquals("text", reader.readLine());
        assertEquals(Map.of("a", "b"), map);
        assertEquals(Map.of("a", "b"), properties);
    }

    /// J5.
    @Test
    void writesOfInheritedMethodsAreRestored() throws IOException {
        OnesStream ones = new OnesStream();
        byte[] bytes = new byte[3];
        byte[] others = new byte[2];
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        SevenGenerator sevens = new SevenGenerator();
        ListeningQueue heard = new ListeningQueue();
        String[] texts = new String[1];
        heard.offerAnyhow("text");
        try (var transaction = Transaction.begin()) {
            assertEquals(3, ones.read(bytes));
            assertArrayEquals(new byte[] {1, 1, 1}, bytes);
            assertEquals(7, ones.transferTo(out));
            assertEquals(7, out.size());
            transaction.rollback();
        }
        assertEquals(0, ones.read);
        assertArrayEquals(new byte[3], bytes);
        assertEquals(0, out.size());
        try (var transaction = Transaction.begin()) {
            sevens.nextBytes(bytes);
            assertArrayEquals(new byte[] {7, 0, 0}, bytes);
            sevens.fill(others);
            assertArrayEquals(new byte[] {7, 0}, others);
            heard.toArray(texts);
            assertEquals("text", texts[0]);
            transaction.rollback();
        }
        assertArrayEquals(new byte[3], bytes);
        assertArrayEquals(new byte[2], others);
        assertEquals(null, texts[0]);
    }

    private interface Invocation {
        Object invoke(Object receiver, Object... arguments) throws ReflectiveOperationException;
    }

    /// J5.
    @Test
    void reflectionDoesAsCallsDo() throws ReflectiveOperationException {
        StringBuilder text = new StringBuilder("text");
        int[] numbers = {3, 1, 2};
        int[] copied = new int[3];
        List<String> list = new ArrayList<>();
        AtomicInteger number = new AtomicInteger();
        Invocation append = StringBuilder.class.getMethod("append", int.class)::invoke;
        Method sort = Arrays.class.getMethod("sort", int[].class);
        Method copy = System.class.getMethod("arraycopy", Object.class, int.class, Object.class, int.class, int.class);
        Method increment = AtomicInteger.class.getMethod("incrementAndGet");
        Method setDefault = Locale.class.getMethod("setDefault", Locale.class);
        try (var transaction = Transaction.begin()) {
            append.invoke(text, 1);
            sort.invoke(null, numbers);
            copy.invoke(null, numbers, 0, copied, 0, 3);
            List.class.getMethod("add", Object.class).invoke(list, "element");
            assertEquals("text1", text.toString());
            assertArrayEquals(new int[] {1, 2, 3}, copied);
            assertRefused("AtomicInteger", () -> increment.invoke(number));
            assertRefused("java.util.Locale.setDefault", () -> setDefault.invoke(null, Locale.ROOT));
            assertThrows(IllegalArgumentException.class, () -> sort.invoke(null));
            transaction.rollback();
        }
        assertEquals("text", text.toString());
        assertArrayEquals(new int[] {3, 1, 2}, numbers);
        assertArrayEquals(new int[3], copied);
        assertEquals(List.of(), list);
        assertEquals(0, number.get());
    }

    /// J5.
    @Test
    void staticStateOfTheJdkStays() {
        Consumer<String> clearing = System::clearProperty;
        System.setProperty("cedrat.test", "before");
        try (var transaction = Transaction.begin()) {
            assertRefused("java.lang.System.setProperty", () -> System.setProperty("cedrat.test", "within"));
            assertRefused("java.lang.System.clearProperty", () -> clearing.accept("cedrat.test"));
            assertRefused("java.util.Locale.setDefault", () -> Locale.setDefault(Locale.ROOT));
            transaction.commit();
        }
        assertEquals("before", System.clearProperty("cedrat.test"));
    }

    private static void assertRefused(String named, Executable change) {
        var refused = assertThrows(UnsupportedOperationException.class, change, named);
        assertTrue(refused.getMessage().contains(named), refused.getMessage());
    }

    /// J5.
    @Test
    void subclassIsTreatedAsItsSuperclass() throws IOException {
        ListeningQueue heard = new ListeningQueue();
        assertRefusedInTransaction("java.util.concurrent.ConcurrentLinkedQueue", () -> heard.poll());
        assertRefusedInTransaction("java.util.concurrent.ConcurrentLinkedQueue", () -> heard.offerAnyhow("text"));
        CountingStream counting = new CountingStream();
        DirectExecutor direct = new DirectExecutor();
        try (var transaction = Transaction.begin()) {
            direct.submit(() -> {});
            assertEquals(1, direct.executed);
            heard.offer("text");
            counting.write(1);
            counting.write(new byte[7]);
            assertEquals(8, counting.bytes);
            new PrintWriter(counting, true).println("text");
            assertEquals(1, heard.heard);
            transaction.rollback();
        }
        assertEquals(0, heard.heard);
        assertEquals(0, counting.bytes);
        assertEquals(0, direct.executed);
        assertTrue(heard.isEmpty());
    }

    /// J5.
    @Test
    void transactionChangesItsNewObjects() throws Exception {
        try (var transaction = Transaction.begin()) {
            ByteBuffer.allocateDirect(8).putInt(1).flip();
            Scanner scanner = new Scanner("1 2");
            assertEquals(3, scanner.nextInt() + scanner.nextInt());
            assertEquals("text", new BufferedReader(new StringReader("text")).readLine());
            assertEquals(2, new AtomicInteger(1).incrementAndGet());
            var map = new ConcurrentHashMap<Integer, Integer>();
            map.merge(1, 1, Integer::sum);
            Supplier<AtomicInteger> maker = AtomicInteger::new;
            assertEquals(1, maker.get().incrementAndGet());
            Function<String, Properties> another = text -> new Properties();
            assertEquals(null, another.apply("a").setProperty("a", "b"));
            try (var in = Object.class.getResourceAsStream("Object.class")) {
                assertEquals(0xca, in.read());
            }
            assertEquals(null, Object.class.getResourceAsStream("none"));
            new ListeningQueue().offerAnyhow("text");
            try (Arena arena = Arena.ofConfined()) {
                arena.allocate(8).set(ValueLayout.JAVA_LONG, 0, 1);
            }
            assertTrue(map.keySet().spliterator().tryAdvance(key -> {}));
            assertEquals(1, Stream.builder().add("text").build().count());
            assertEquals(
                    2,
                    CompletableFuture.completedFuture(1)
                            .thenApply(one -> one + 1)
                            .join());
            assertEquals(32, MessageDigest.getInstance("SHA-256").digest(new byte[3]).length);
            AtomicInteger number = new AtomicInteger();
            try (var inner = Transaction.begin()) {
                assertThrows(UnsupportedOperationException.class, number::incrementAndGet);
                inner.commit();
            }
            assertEquals(0, number.get());
            transaction.commit();
        }
    }

    /// J5.
    @Test
    void readingAndLockingAreNotRefused() {
        var map = new ConcurrentHashMap<>(Map.of("a", 1));
        var lock = new ReentrantLock();
        var queue = new ArrayBlockingQueue<>(2, true, List.of(1, 2));
        try (var transaction = Transaction.begin()) {
            lock.lock();
            try {
                int sum = 0;
                for (var entry : map.entrySet()) {
                    sum += entry.getValue();
                }
                assertEquals(1, sum);
                for (int number : queue) {
                    sum += number;
                }
                assertEquals(4, sum);
                assertEquals(1, map.get("a"));
                assertEquals(1, new AtomicInteger(1).get());
                System.out.println("printed");
            } finally {
                lock.unlock();
            }
            transaction.commit();
        }
        assertArrayEquals(new Object[] {"a"}, map.keySet().toArray());
    }
}
