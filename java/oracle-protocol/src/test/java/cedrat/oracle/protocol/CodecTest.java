package cedrat.oracle.protocol;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;

class CodecTest {
    private static final int ROWS_MAX = 100;

    private static long timestamp(SplittableRandom random) {
        return random.nextLong(1, 1L << random.nextInt(1, 63));
    }

    private static long[] timestamps(SplittableRandom random, int count) {
        return random.longs(count)
                .map(drawn -> (drawn & Protocol.TIMESTAMP_MAX) | 1)
                .toArray();
    }

    private static long[] rows(SplittableRandom random, int count) {
        return random.longs(count)
                .map(drawn -> Protocol.isReservedRow(drawn) ? 1 : drawn)
                .toArray();
    }

    private static AdminKind adminKind(long drawn) {
        return AdminKind.values()[(int) (drawn % AdminKind.values().length)];
    }

    /// Frames of all kinds, as a client writes them; what is read of them, piece by piece, is what was
    /// written.
    @Property(tries = 300)
    void requestsAreReadAsTheyWereWritten(@ForAll @LongRange(min = 1) long seed) throws ProtocolException {
        SplittableRandom random = new SplittableRandom(seed);
        FrameWriter out = new FrameWriter(16);
        RequestReader in = new RequestReader(ROWS_MAX);
        long id = random.nextLong();
        long start = timestamp(random);
        long[] starts = timestamps(random, random.nextInt(1, 20));
        long[] writes = rows(random, random.nextInt(50));
        long[] reads = rows(random, random.nextInt(50));
        byte kind = (byte) random.nextInt(1, Protocol.AUTHENTICATE + 1);
        switch (kind) {
            case Protocol.HELLO ->
                out.hello(id, 0, random.nextInt(1, random.nextBoolean() ? 5 : 65_536), start, -start, ~start);
            case Protocol.BEGIN, Protocol.PING, Protocol.LOW_WATER, Protocol.CLOSE -> out.plain(kind, id);
            case Protocol.ABORT, Protocol.END, Protocol.RESOLVE -> out.start(kind, id, start);
            case Protocol.COMMIT -> out.commit(id, start, writes, writes.length, reads, reads.length);
            case Protocol.STATUS -> out.status(id, start, starts, starts.length);
            case Protocol.SWEPT -> out.swept(id, -start, start, starts[0]);
            case Protocol.NAMESPACE -> out.namespace(id, -start, random.nextInt(4));
            case Protocol.ADMIN -> out.admin(id, adminKind(start), -start);
            case Protocol.BATCH -> batch(out, id, starts, writes, reads);
            case Protocol.AUTHENTICATE -> out.authenticate(id, Mechanism.GSSAPI, new byte[starts.length]);
            default -> out.starts(kind, 0, id, starts, 0, starts.length);
        }
        int length = out.length();
        out.plain(Protocol.PING, 1); // what follows does not matter
        int from = random.nextInt(10);
        byte[] bytes = new byte[from + out.length()];
        System.arraycopy(out.bytes(), 0, bytes, from, out.length());
        for (int cut = 0; cut < length; cut++) {
            assertEquals(0, in.next(bytes, from, from + cut), "P1: all of it is not there");
        }
        assertEquals(length, in.next(bytes, from, bytes.length));
        assertEquals(kind, in.kind());
        assertEquals(id, in.id());
        switch (kind) {
            case Protocol.HELLO -> assertHello(in, start);
            case Protocol.ABORT, Protocol.END, Protocol.RESOLVE -> assertEquals(start, in.start());
            case Protocol.COMMIT -> {
                assertEquals(start, in.start());
                assertRows(in, writes, reads);
            }
            case Protocol.NAMESPACE -> assertEquals(-start, in.namespace());
            case Protocol.ADMIN -> {
                assertEquals(adminKind(start), in.adminKind());
                assertEquals(-start, in.adminFrom());
            }
            case Protocol.AUTHENTICATE -> {
                assertEquals(Mechanism.GSSAPI, in.mechanism());
                assertArrayEquals(new byte[starts.length], in.message());
            }
            case Protocol.SWEPT -> {
                assertEquals(-start, in.sweptNamespace());
                assertEquals(start, in.mark());
                assertEquals(starts[0], in.from());
            }
            case Protocol.BATCH -> assertBatch(in, starts, writes, reads);
            case Protocol.STATUS, Protocol.CLEANED, Protocol.ANNOUNCE -> {
                assertEquals(starts.length, in.starts());
                assertArrayEquals(
                        starts,
                        IntStream.range(0, starts.length).mapToLong(in::start).toArray());
                assertTrue(kind != Protocol.STATUS || in.reader() == start);
            }
            default -> {
                // nothing else to read
            }
        }
    }

    /// A batch that commits each of these transactions, with fewer rows each, ends the first, aborts the second if
    /// there is one, reports the others, and begins as many.
    private static void batch(FrameWriter out, long id, long[] starts, long[] writes, long[] reads) {
        int aborts = Math.min(1, starts.length - 1);
        int at = out.beginBatch(id, starts.length, 1, aborts, starts.length - 1 - aborts, starts.length);
        for (long start : starts) {
            out.batchStart(start);
        }
        FrameWriter commit = new FrameWriter(16);
        for (int index = 0; index < starts.length; index++) {
            commit.clear();
            commit.commit(7, starts[index], writes, writes.length / (index + 1), reads, reads.length, keys(index));
            out.batchCommit(commit);
        }
        out.endBatch(at);
    }

    private static CommitKeys keys(int count) {
        CommitKeys keys = new CommitKeys();
        for (int key = 0; key < count; key++) {
            keys.write(key, new byte[key]);
            keys.scan(key, new byte[key], new byte[1]);
        }
        return keys;
    }

    private static void assertBatch(RequestReader in, long[] starts, long[] writes, long[] reads) {
        assertEquals(starts.length, in.commits());
        assertEquals(starts.length, in.begins());
        assertEquals(starts.length, in.starts());
        assertEquals(1, in.ends());
        assertEquals(Math.min(1, starts.length - 1), in.aborts());
        assertEquals(Arrays.stream(starts).max().getAsLong(), in.newest());
        RequestReader commit = new RequestReader(Protocol.ROWS_MAX);
        for (int index = 0; index < starts.length; index++) {
            assertEquals(starts[index], in.start(index));
            in.nextCommit(commit);
            assertEquals(Protocol.COMMIT, commit.kind());
            assertEquals(starts[index], commit.start());
            assertRows(commit, Arrays.copyOf(writes, writes.length / (index + 1)), reads);
            assertEquals(2 * index, keys(commit).size());
        }
    }

    private static void assertRows(RequestReader commit, long[] writes, long[] reads) {
        assertEquals(writes.length, commit.writes());
        assertEquals(reads.length, commit.reads());
        int count = writes.length + reads.length;
        long[] rows = IntStream.range(0, count).mapToLong(commit::row).toArray();
        assertArrayEquals(writes, Arrays.copyOf(rows, writes.length));
        assertArrayEquals(reads, Arrays.copyOfRange(rows, writes.length, count));
    }

    /// Keys and ranges of a commit, as texts.
    private static List<String> keys(RequestReader request) {
        List<String> all = new ArrayList<>();
        if (request.hasKeys()) {
            request.tellKeys(new RequestReader.KeyListener() {
                @Override
                public void wrote(long table, byte[] bytes, int from, int length) {
                    all.add(table + " " + HexFormat.of().formatHex(bytes, from, from + length));
                }

                @Override
                public void scanned(long table, byte[] bytes, int from, int fromLength, int to, int toLength) {
                    String first = HexFormat.of().formatHex(bytes, from, from + fromLength);
                    all.add(table + " " + first + " to " + HexFormat.of().formatHex(bytes, to, to + toLength));
                }
            });
        }
        return all;
    }

    private static byte[] key(SplittableRandom random) {
        byte[] key = new byte[random.nextInt(100) == 0 ? Protocol.KEY_BYTES_MAX : random.nextInt(40)];
        random.nextBytes(key);
        return key;
    }

    @Property(tries = 300)
    void keysAreReadAsTheyWereWritten(@ForAll @LongRange(min = 1) long seed) throws ProtocolException {
        SplittableRandom random = new SplittableRandom(seed);
        CommitKeys keys = new CommitKeys();
        List<String> expected = new ArrayList<>();
        for (int count = random.nextInt(10); count > 0; count--) {
            long table = random.nextLong();
            byte[] key = key(random);
            keys.write(table, key);
            expected.add(table + " " + HexFormat.of().formatHex(key));
        }
        for (int count = random.nextInt(10); count > 0; count--) {
            long table = random.nextLong();
            byte[] from = key(random);
            byte[] to = key(random);
            keys.scan(table, from, to);
            expected.add(table + " " + HexFormat.of().formatHex(from) + " to "
                    + HexFormat.of().formatHex(to));
        }
        long[] writes = rows(random, random.nextInt(50));
        long[] reads = rows(random, random.nextInt(50));
        FrameWriter out = new FrameWriter(16);
        out.commit(7, 9, writes, writes.length, reads, reads.length, keys);
        RequestReader in = new RequestReader(ROWS_MAX);
        for (int cut = 0; cut < out.length(); cut += 1 + cut / 50) {
            assertEquals(0, in.next(out.bytes(), 0, cut), "P1: all of it is not there");
        }
        assertEquals(out.length(), in.next(out.bytes(), 0, out.length()));
        assertEquals(expected, keys(in));
        assertEquals(!expected.isEmpty(), in.hasKeys());
        assertEquals(writes.length, in.writes());
        assertEquals(reads.length, in.reads());

        // P1: with some bytes turned, it is another commit, or none.
        byte[] turned = Arrays.copyOf(out.bytes(), out.length());
        for (int count = random.nextInt(1, 4); count > 0; count--) {
            turned[random.nextInt(5, turned.length)] = (byte) random.nextInt();
        }
        try {
            if (in.next(turned, 0, turned.length) > 0 && in.kind() == Protocol.COMMIT) {
                keys(in);
            }
        } catch (ProtocolException refused) {
            assertTrue(refused.skip() <= turned.length);
        }
    }

    @Test
    void keysOverCountOrLengthAreRefused() {
        FrameWriter out = new FrameWriter(16);
        CommitKeys keys = new CommitKeys();
        for (int count = 0; count < 5; count++) {
            keys.write(1, new byte[3]);
        }
        out.commit(1, 1, new long[] {1}, 1, new long[0], 0, keys);
        assertEquals(ErrorCode.TOO_MANY_ROWS, refused(out).code());
        assertFalse(refused(out).isFatal());
        keys = new CommitKeys();
        for (int count = 0; count <= Protocol.RANGES_MAX; count++) {
            keys.scan(1, new byte[3], new byte[0]);
        }
        out.clear();
        out.commit(1, 1, new long[] {1}, 1, new long[0], 0, keys);
        assertEquals(ErrorCode.TOO_MANY_ROWS, refused(out).code());
        CommitKeys one = new CommitKeys();
        assertThrows(IllegalArgumentException.class, () -> one.write(1, new byte[Protocol.KEY_BYTES_MAX + 1]));
        assertThrows(
                IllegalArgumentException.class, () -> one.scan(1, new byte[0], new byte[Protocol.KEY_BYTES_MAX + 1]));
        one.write(1, new byte[Protocol.KEY_BYTES_MAX]);
        out.clear();
        out.commit(1, 1, new long[] {1}, 1, new long[0], 0, one);
        Protocol.SHORT.set(out.bytes(), 16 + 16 + 8 + 8 + 8, (short) (Protocol.KEY_BYTES_MAX + 1));
        assertEquals(ErrorCode.MALFORMED, refused(out).code());
    }

    @Property(tries = 300)
    void repliesAreReadAsTheyWereWritten(@ForAll @LongRange(min = 1) long seed) throws ProtocolException {
        SplittableRandom random = new SplittableRandom(seed);
        FrameWriter out = new FrameWriter(16);
        ReplyReader in = new ReplyReader();
        long id = random.nextLong();
        long value = random.nextInt(4) == 0 ? random.nextLong(Protocol.OUTCOME_MIN, 0) : timestamp(random);
        int count = random.nextInt(20);
        byte kind = (byte) random.nextInt(0, Protocol.AUTHENTICATE + 1);
        writeReply(out, kind, id, count, value);
        for (int cut = 0; cut < out.length(); cut++) {
            assertEquals(0, in.next(out.bytes(), 0, cut), "P1: all of it is not there");
        }
        assertEquals(out.length(), in.next(out.bytes(), 0, out.length()));
        assertEquals(id, in.id());
        assertEquals(kind, in.request());
        switch (kind) {
            case 0 -> {
                assertEquals(ErrorCode.EXPIRED, in.errorCode());
                assertTrue("späť".repeat(400).startsWith(in.errorText()));
            }
            case Protocol.HELLO -> {
                assertEquals(3, in.rowsMax());
                assertEquals(in.version() < Protocol.VERSION_IDENTITY ? 0 : -5, in.identity());
                assertEquals(in.version() < Protocol.VERSION_GENERATION ? 0 : -6, in.generation());
            }
            case Protocol.PING, Protocol.CLOSE, Protocol.NAMESPACE -> assertEquals(0, in.values());
            case Protocol.SWEPT -> {
                assertEquals(count, in.forgotten());
                assertEquals(Math.max(0, value), in.next());
            }
            case Protocol.STATUS, Protocol.ANNOUNCE, Protocol.BATCH -> {
                assertEquals(count, in.values());
                assertTrue(count == 0 || in.value(count - 1) == value);
            }
            case Protocol.ADMIN -> {
                assertEquals(adminKind(Math.abs(value)), AdminKind.of(in.value()));
                assertEquals(value, in.value(2));
            }
            case Protocol.AUTHENTICATE -> {
                assertEquals(Mechanism.PLAIN, in.mechanism());
                assertArrayEquals(new byte[count], in.message());
                assertEquals(value > 0 ? Protocol.FLAG_DONE : 0, in.flags());
            }
            default -> assertEquals(Math.abs(value), Math.abs(in.value()));
        }
    }

    private static void assertHello(RequestReader in, long start) {
        assertEquals(start, in.session());
        assertEquals(in.versionHighest() < Protocol.VERSION_IDENTITY ? 0 : -start, in.identity());
        assertEquals(in.versionHighest() < Protocol.VERSION_GENERATION ? 0 : ~start, in.generation());
    }

    private static void writeReply(FrameWriter out, byte kind, long id, int count, long value) {
        switch (kind) {
            case 0 -> out.error(id, Protocol.FLAG_CLOSING, ErrorCode.EXPIRED, "späť".repeat(20 * count));
            case Protocol.HELLO -> out.welcome(id, 1 + count % 4, 2, 3, 4, -5, -6);
            case Protocol.BEGIN, Protocol.LOW_WATER -> out.value(kind, id, Math.abs(value));
            case Protocol.PING, Protocol.CLOSE, Protocol.NAMESPACE -> out.done(kind, id);
            case Protocol.SWEPT -> out.sweptReply(id, count, Math.max(0, value));
            case Protocol.AUTHENTICATE -> out.authenticateReply(id, Mechanism.PLAIN, new byte[count], value > 0);
            case Protocol.STATUS, Protocol.ANNOUNCE, Protocol.BATCH -> {
                int values = out.values(kind, id, count);
                for (int index = 0; index < count; index++) {
                    out.putValue(values, index, value);
                }
            }
            case Protocol.ADMIN -> {
                AdminKind admin = adminKind(Math.abs(value));
                int entries =
                        switch (admin) {
                            case STATE, END_SESSION -> 1;
                            case BACKUP -> AdminKind.BACKUP_HEAD + count;
                            default -> count;
                        };
                int numbers = AdminKind.HEAD + entries * admin.width();
                int values = out.values(kind, id, numbers);
                out.putValue(values, 0, admin.number());
                out.putValue(values, 1, count % 2);
                for (int index = 2; index < numbers; index++) {
                    out.putValue(values, index, value);
                }
            }
            default -> out.value(kind, id, value);
        }
    }

    /// P1 and P2, for bytes that are nearly frames: a true one with some bytes turned, or none at all.
    @Property(tries = 20_000)
    void whateverTheBytesAre(
            @ForAll @Size(max = 120) byte[] bytes,
            @ForAll @IntRange(max = 17) int kind,
            @ForAll @LongRange(min = 1) long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        if (bytes.length >= Protocol.HEADER_BYTES) {
            boolean isReply = random.nextBoolean();
            bytes[4] = (byte) (isReply ? kind | Protocol.REPLY : kind);
            if (random.nextInt(4) != 0) {
                Protocol.INT.set(bytes, 0, bytes.length - 4 - random.nextInt(3) / 2);
                Arrays.fill(bytes, 5, 8, (byte) 0);
            }
            if (kind == Protocol.HELLO && bytes.length >= 24 && random.nextBoolean()) {
                Protocol.LONG.set(bytes, 16, Protocol.MAGIC);
                if (bytes.length >= 28 && random.nextBoolean()) {
                    Protocol.INT.set(bytes, 24, 1 | random.nextInt(1, 5) << 16); // versions
                }
            }
            if (kind == Protocol.BATCH && bytes.length >= 48 && random.nextInt(4) != 0) {
                makeNearlyBatch(bytes, random);
            }
            if (kind == Protocol.COMMIT && bytes.length >= 32 && random.nextBoolean()) {
                Protocol.INT.set(bytes, 24, (bytes.length - 32) / 8 + random.nextInt(2));
                Protocol.INT.set(bytes, 28, -random.nextInt(2));
                if (random.nextInt(3) != 0 && bytes.length >= 64) {
                    bytes[5] = Protocol.FLAG_KEYS;
                    Protocol.INT.set(bytes, 24, 1);
                    Protocol.INT.set(bytes, 28, 0);
                    Protocol.INT.set(bytes, 40, random.nextInt(2));
                    Protocol.INT.set(bytes, 44, random.nextInt(2));
                    Protocol.SHORT.set(bytes, 56, (short) random.nextInt(70));
                    Protocol.SHORT.set(bytes, 58, (short) random.nextInt(70));
                }
            }
        }
        RequestReader requests = new RequestReader(4);
        try {
            int length = requests.next(bytes, 0, bytes.length);
            assertTrue(length <= bytes.length);
            if (length > 0) {
                touch(requests);
            }
        } catch (ProtocolException refused) {
            assertTrue(refused.skip() <= bytes.length && refused.skip() >= 0);
            assertEquals(refused.isFatal(), refused.skip() == 0);
            requests.id();
        }
        ReplyReader replies = new ReplyReader();
        try {
            int length = replies.next(bytes, 0, bytes.length);
            assertTrue(length <= bytes.length);
            if (length > 0 && replies.kind() == Protocol.ERROR) {
                replies.errorText();
            }
            if (length > 0 && replies.kind() != Protocol.ERROR) {
                for (int index = 0; index < replies.values(); index++) {
                    replies.value(index);
                }
            }
        } catch (ProtocolException refused) {
            assertTrue(refused.skip() <= bytes.length);
        }
    }

    /// Makes bytes of a batch nearly those of one.
    private static void makeNearlyBatch(byte[] bytes, SplittableRandom random) {
        int starts = random.nextInt(4);
        for (int at = 16; at < 40; at += 4) {
            Protocol.INT.set(bytes, at, at > 16 && at < 36 ? random.nextInt(2) : random.nextInt(9) / 4);
        }
        Protocol.INT.set(bytes, 36, -random.nextInt(2) * random.nextInt(2));
        for (int at = 40; at + 8 <= bytes.length && starts > 0; at += 8, starts--) {
            Protocol.LONG.set(bytes, at, 1 + random.nextLong(9));
        }
        int commit = 40 + 8 * random.nextInt(4);
        if (commit + 32 <= bytes.length) {
            int rows = (bytes.length - commit - 24) / 8;
            Protocol.INT.set(bytes, commit, bytes.length - commit - 8 - random.nextInt(9) / 8);
            Protocol.INT.set(bytes, commit + 4, random.nextInt(5) / 4);
            Protocol.LONG.set(bytes, commit + 8, 1 + random.nextLong(9));
            Protocol.INT.set(bytes, commit + 16, rows - random.nextInt(5) / 4);
            Protocol.INT.set(bytes, commit + 20, random.nextInt(5) / 4);
        }
    }

    /// Everything that a server would read of it can be read, and is what P2 says.
    private static void touch(RequestReader request) {
        switch (request.kind()) {
            case Protocol.COMMIT -> {
                assertTrue(request.writes() >= 0 && request.reads() >= 0 && request.writes() + request.reads() <= 4);
                for (int row = 0; row < request.writes() + request.reads(); row++) {
                    assertFalse(Protocol.isReservedRow(request.row(row)), "P2");
                }
                assertTrue(Protocol.isTimestamp(request.start()), "P2");
                keys(request);
            }
            case Protocol.ABORT, Protocol.END, Protocol.RESOLVE ->
                assertTrue(Protocol.isTimestamp(request.start()), "P2");
            case Protocol.STATUS, Protocol.CLEANED, Protocol.ANNOUNCE -> {
                for (int index = 0; index < request.starts(); index++) {
                    assertTrue(Protocol.isTimestamp(request.start(index)), "P2");
                }
            }
            case Protocol.SWEPT ->
                assertTrue(Protocol.isTimestamp(request.mark()) && Protocol.isTimestamp(request.from()), "P2");
            case Protocol.HELLO -> {
                assertTrue(request.session() != 0 && request.version() >= Protocol.VERSION_LOWEST, "P2");
                request.identity();
                request.generation();
            }
            case Protocol.ADMIN -> assertNotNull(request.adminKind(), "P2");
            case Protocol.BATCH -> {
                assertTrue(request.commits() + request.starts() + request.begins() <= Protocol.BATCH_MAX, "P2");
                assertTrue(request.ends() + request.aborts() <= request.starts(), "P2");
                for (int index = 0; index < request.starts(); index++) {
                    assertTrue(Protocol.isTimestamp(request.start(index)), "P2");
                }
                RequestReader commit = new RequestReader(4);
                for (int left = request.commits(); left > 0; left--) {
                    request.nextCommit(commit);
                    touch(commit);
                }
            }
            case Protocol.AUTHENTICATE -> {
                assertNotNull(request.mechanism(), "P2");
                assertTrue(request.message().length < Protocol.FIRST_FRAME_BYTES_MAX, "P2");
            }
            default -> assertTrue(request.kind() > 0 && request.kind() <= Protocol.NAMESPACE);
        }
    }

    private static ProtocolException refused(FrameWriter frames) {
        RequestReader reader = new RequestReader(4);
        return assertThrows(ProtocolException.class, () -> reader.next(frames.bytes(), 0, frames.length()));
    }

    @Test
    void invalidFramesAreRefusedWithReason() {
        FrameWriter out = new FrameWriter(16);
        for (long row : new long[] {Protocol.ROW_NONE, Protocol.ROW_HIGHEST}) {
            out.clear();
            out.commit(1, 1, new long[] {1}, 1, new long[] {row}, 1);
            assertEquals(ErrorCode.RESERVED_ROW, refused(out).code());
            assertEquals(out.length(), refused(out).skip(), "the connection goes on");
        }
        for (long start : new long[] {0, -1, Protocol.ABORTED, Protocol.OPEN, Protocol.TIMESTAMP_MAX + 1}) {
            out.clear();
            out.start(Protocol.RESOLVE, 1, start);
            assertEquals(ErrorCode.TIMESTAMP, refused(out).code());
            out.clear();
            out.status(1, 1, new long[] {1, start}, 2);
            assertEquals(ErrorCode.TIMESTAMP, refused(out).code());
            out.clear();
            out.status(1, start, new long[] {1}, 1);
            assertEquals(ErrorCode.TIMESTAMP, refused(out).code());
            out.clear();
            out.swept(1, 0, start, 1);
            assertEquals(ErrorCode.TIMESTAMP, refused(out).code());
            out.clear();
            out.swept(1, 0, 1, start);
            assertEquals(ErrorCode.TIMESTAMP, refused(out).code());
        }
        out.clear();
        out.commit(1, 1, new long[] {1, 2, 3}, 3, new long[] {4, 5}, 2);
        assertEquals(ErrorCode.TOO_MANY_ROWS, refused(out).code());
        assertFalse(refused(out).isFatal());
        out.clear();
        out.hello(1, Protocol.VERSION + 1, Protocol.VERSION + 2, 4);
        assertEquals(ErrorCode.VERSION, refused(out).code());
        assertTrue(refused(out).isFatal());
        out.clear();
        out.hello(1, 0, 0, 4);
        assertEquals(ErrorCode.VERSION, refused(out).code());
        out.clear();
        out.hello(1, 1, 1, 0);
        assertEquals(ErrorCode.MALFORMED, refused(out).code());
        out.clear();
        out.plain((byte) (Protocol.AUTHENTICATE + 1), 1);
        assertEquals(ErrorCode.UNSUPPORTED, refused(out).code());
        assertFalse(refused(out).isFatal());
        out.clear();
        out.starts(Protocol.ANNOUNCE, 2, 1, new long[0], 0, 0);
        assertEquals(ErrorCode.UNSUPPORTED, refused(out).code());
        out.clear();
        out.plain(Protocol.PING, 1);
        Protocol.INT.set(out.bytes(), 0, Protocol.FRAME_BYTES_MAX - 3);
        assertEquals(ErrorCode.TOO_LONG, refused(out).code());
        Protocol.INT.set(out.bytes(), 0, -1);
        assertEquals(ErrorCode.TOO_LONG, refused(out).code());
        Protocol.INT.set(out.bytes(), 0, 11);
        assertEquals(ErrorCode.MALFORMED, refused(out).code());
    }

    /// P1: identity and generation of a hello, and of its reply, lie within its frame.
    @Test
    void helloWithoutItsIdentityIsRefused() throws ProtocolException {
        assertTruncatedHelloIsRefused(Protocol.VERSION_IDENTITY);
        assertTruncatedHelloIsRefused(Protocol.VERSION_GENERATION);
    }

    private static void assertTruncatedHelloIsRefused(int version) throws ProtocolException {
        FrameWriter out = new FrameWriter(64);
        out.hello(1, 1, version, 4, 5, 6);
        byte[] hello = Arrays.copyOf(out.bytes(), out.length());
        out.clear();
        out.welcome(1, version, 30_000, 10, 10, 5, 6);
        byte[] welcome = Arrays.copyOf(out.bytes(), out.length());
        for (int missing = 1; missing <= Long.BYTES; missing++) {
            Protocol.INT.set(hello, 0, hello.length - 4 - missing);
            assertMalformed(new RequestReader(4), hello, hello.length - missing);
            Protocol.INT.set(welcome, 0, welcome.length - 4 - missing);
            assertMalformed(new ReplyReader(), welcome, welcome.length - missing);
        }
        out.clear();
        out.welcome(1, version, 30_000, 10, 10, version == Protocol.VERSION_IDENTITY ? 0 : 5, 0);
        assertMalformed(new ReplyReader(), out.bytes(), out.length());
        out.clear();
        out.welcome(1, version - 1, 30_000, 10, 10, 5, 6);
        Protocol.SHORT.set(out.bytes(), 16, (short) version);
        assertMalformed(new ReplyReader(), out.bytes(), out.length());
        out.clear();
        out.hello(1, 1, version - 1, 4, 5, 6);
        RequestReader reader = new RequestReader(4);
        assertEquals(out.length(), reader.next(out.bytes(), 0, out.length()));
        assertEquals(version == Protocol.VERSION_IDENTITY ? Protocol.IDENTITY_NONE : 5, reader.identity());
        assertEquals(Protocol.IDENTITY_NONE, reader.generation());
    }

    private static void assertMalformed(FrameReader reader, byte[] bytes, int length) {
        ProtocolException why = assertThrows(ProtocolException.class, () -> reader.next(bytes, 0, length));
        assertEquals(ErrorCode.MALFORMED, why.code());
        assertTrue(why.isFatal());
    }

    /// Requests and replies of an administrator that are nearly right.
    @Test
    void invalidAdminFramesAreRefused() {
        FrameWriter out = new FrameWriter(16);
        for (int number : new int[] {0, AdminKind.values().length + 1, 0xffff}) {
            out.clear();
            out.admin(1, AdminKind.STATE, 7);
            Protocol.SHORT.set(out.bytes(), Protocol.HEADER_BYTES, (short) number);
            assertEquals(ErrorCode.UNSUPPORTED, refused(out).code());
            assertFalse(refused(out).isFatal());
        }
        out.clear();
        out.admin(1, AdminKind.STATE, 7);
        out.bytes()[Protocol.HEADER_BYTES + 7] = 1;
        assertEquals(ErrorCode.UNSUPPORTED, refused(out).code());
        out.clear();
        out.start(Protocol.ADMIN, 1, AdminKind.STATE.number());
        assertEquals(ErrorCode.MALFORMED, refused(out).code(), "too short");

        assertReply(true, AdminKind.OPEN.number(), 1, 9, 8, 7);
        assertReply(false, AdminKind.OPEN.number(), 1, 9, 8);
        assertReply(false, AdminKind.OPEN.number(), 2, 9, 8, 7);
        assertReply(false, AdminKind.OPEN.number(), -1, 9, 8, 7);
        assertReply(false, AdminKind.OPEN.number(), 1);
        assertReply(false, 0, 0, 0);
        assertReply(false, AdminKind.values().length + 1, 0, 0);
        assertReply(false, (1L << 32) + AdminKind.OPEN.number(), 0, 0);
        assertReply(false, AdminKind.END_SESSION.number(), 0, 0);
        assertReply(false, AdminKind.STATE.number(), 0, 0, 5);
        long[] most = new long[Protocol.ADMIN_VALUES_MAX];
        most[0] = AdminKind.STATE.number();
        assertReply(true, most);
        assertReply(false, Arrays.copyOf(most, most.length + 1));
    }

    private static void assertReply(boolean isValid, long... numbers) {
        FrameWriter out = new FrameWriter(16);
        int values = out.values(Protocol.ADMIN, 1, numbers.length);
        for (int index = 0; index < numbers.length; index++) {
            out.putValue(values, index, numbers[index]);
        }
        ReplyReader reader = new ReplyReader();
        if (isValid) {
            assertDoesNotThrow(() -> reader.next(out.bytes(), 0, out.length()));
        } else {
            assertThrows(ProtocolException.class, () -> reader.next(out.bytes(), 0, out.length()));
        }
    }

    /// A batch is checked before any of it is decided, and refused as a whole.
    @Test
    void invalidBatchesAreRefused() {
        FrameWriter out = new FrameWriter(16);
        assertBatchRefused(ErrorCode.MALFORMED, true, out, 0, 0, new long[0]);
        assertBatchRefused(ErrorCode.MALFORMED, true, out, 0, Protocol.BATCH_MAX + 1, new long[0]);
        assertBatchRefused(ErrorCode.MALFORMED, true, out, 0, -1, new long[0]);
        assertBatchRefused(ErrorCode.MALFORMED, true, out, 1, 1, new long[0]);
        assertBatchRefused(ErrorCode.TIMESTAMP, false, out, 1, 1, new long[] {0});
        FrameWriter commit = new FrameWriter(16);
        commit.commit(1, 5, new long[] {1, 2, 3, 4, Protocol.ROW_NONE}, 4, new long[0], 0);
        int at = out.beginBatch(1, 2, 0, 0, 0, 0);
        out.batchCommit(commit);
        commit.clear();
        commit.commit(1, 5, new long[] {1, Protocol.ROW_NONE}, 2, new long[0], 0);
        out.batchCommit(commit);
        out.endBatch(at);
        assertEquals(ErrorCode.RESERVED_ROW, refused(out).code());
        assertEquals(out.length(), refused(out).skip(), "the connection goes on");
        Protocol.INT.set(out.bytes(), 36, 1);
        assertEquals(ErrorCode.UNSUPPORTED, refused(out).code());
    }

    private static void assertBatchRefused(
            ErrorCode code, boolean isFatal, FrameWriter out, int ends, int begins, long[] starts) {
        int at = out.beginBatch(1, 0, ends, 0, 0, begins);
        for (long start : starts) {
            out.batchStart(start);
        }
        out.endBatch(at);
        assertEquals(code, refused(out).code());
        assertEquals(isFatal, refused(out).isFatal());
        out.clear();
    }

    /// A longer hello is one of a later version that speaks this one too.
    @Test
    void aHelloMayGrow() throws ProtocolException {
        FrameWriter out = new FrameWriter(64);
        out.hello(1, 1, 9, 4);
        int length = out.length() + 8;
        byte[] longer = Arrays.copyOf(out.bytes(), length);
        Protocol.INT.set(longer, 0, length - 4);
        RequestReader reader = new RequestReader(4);
        assertEquals(length, reader.next(longer, 0, length));
        assertEquals(9, reader.versionHighest());
        assertEquals(Protocol.VERSION, reader.version());
        assertNull(ErrorCode.of(999));
    }
}
