package cedrat.oracle.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.OracleReplay.Fault;
import cedrat.oracle.state.NoDecisions;
import cedrat.oracle.state.StatusOracle;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;

/// Entries of any bytes, in logs whose checksums hold: an oracle is made from them, in bounded time and memory,
/// or a [DamagedEntryException] names entry and byte. No other exception is thrown.
class HostileEntriesTest {
    /// An oracle that was made takes no more; its log has some hundred entries of a few transactions.
    private static final long BYTES_MAX = 128L << 20;

    private static final int ROWS_LOG2 = 8;

    /// Numbers at which arithmetic fails, or which would have to be counted up to.
    private static final long[] NUMBERS = {
        0,
        1,
        -1,
        Long.MIN_VALUE,
        Long.MAX_VALUE,
        Integer.MAX_VALUE,
        1L << 31,
        1L << 32,
        1L << 43,
        1L << 44,
        1L << 48,
        (1L << 60) - 1,
        1L << 60,
    };

    private final SplittableRandom random = new SplittableRandom();

    @Property(tries = 2_000)
    void hostileEntryIsReadOrRefused(@ForAll @LongRange(min = 1) long seed) {
        SnapshotTest.Running running = new SnapshotTest.Running(seed);
        running.run(running.random.nextInt(1, 80));
        SplittableRandom random = running.random;
        List<byte[]> log = running.log;
        for (int changes = random.nextInt(1, 4); changes > 0; changes--) {
            // The last one is followed by none that it would contradict.
            int at = random.nextInt(3) == 0 ? log.size() - 1 : random.nextInt(log.size());
            log.set(at, changed(random, log.get(at)));
        }
        int whole = running.whole.isEmpty() ? 1 : running.whole.get(random.nextInt(running.whole.size()));
        for (int from : new int[] {1, whole}) {
            try {
                assertUsable(running.openedFrom(from, Fault.NONE));
            } catch (DamagedEntryException refused) {
                assertNamed(refused);
            }
        }
    }

    private static byte[] changed(SplittableRandom random, byte[] entry) {
        byte[] changed = entry.clone();
        if (changed.length == 0) {
            return changed;
        }
        switch (random.nextInt(5)) {
            case 0 -> changed[random.nextInt(changed.length)] = (byte) random.nextInt();
            case 1 -> changed[random.nextInt(changed.length)] ^= (byte) (1 << random.nextInt(8));
            case 2 -> changed = Arrays.copyOf(entry, random.nextInt(entry.length + 20));
            case 3 -> {
                // A field of the header.
                int at = 1 + Long.BYTES * random.nextInt(6);
                if (at + Long.BYTES <= changed.length) {
                    EntryBytes.LONG.set(changed, at, number(random));
                }
            }
            default -> {
                // A varint somewhere behind the header.
                int at = random.nextInt(changed.length);
                byte[] varint = new byte[EntryBytes.VARINT_BYTES_MAX];
                int length = EntryBytes.putVarint(varint, 0, number(random));
                changed = Arrays.copyOf(entry, at + length + Math.max(0, entry.length - at - 1));
                System.arraycopy(varint, 0, changed, at, length);
                System.arraycopy(entry, at + 1, changed, at + length, entry.length - at - 1);
            }
        }
        return changed;
    }

    private static long number(SplittableRandom random) {
        return NUMBERS[random.nextInt(NUMBERS.length)] + random.nextInt(-1, 2);
    }

    private static void assertNamed(DamagedEntryException refused) {
        String said = refused.getMessage();
        boolean isNamed = said.matches("(?s)entry \\d+ of the log: .*, at byte \\d+");
        // A changed entry may be one that says this of the whole log.
        boolean isOfWholeLog = said.startsWith("the log lacks its first entry")
                || said.startsWith("the oracle of this log has moved")
                || said.startsWith("the log is an incomplete copy");
        assertTrue(isNamed || isOfWholeLog, said);
    }

    /// It goes on, and takes no more memory than its log allows for.
    private void assertUsable(StatusOracle oracle) {
        assertTrue(oracle.transactionBytes() < BYTES_MAX, oracle.transactionBytes() + " bytes");
        assertTrue(oracle.newestCommit() <= oracle.newest());
        assertTrue(oracle.lowWaterMark() <= oracle.newest() + 1);
        for (int step = 0; step < 200; step++) {
            SnapshotTest.step(random, oracle);
        }
    }

    private static void assertRefused(byte[]... entries) {
        OracleReplay replay = new OracleReplay(new StatusOracle(ROWS_LOG2, new NoDecisions()));
        DamagedEntryException refused = assertThrows(DamagedEntryException.class, () -> {
            for (byte[] entry : entries) {
                replay.entry(entry, 0, entry.length);
            }
            replay.end();
        });
        assertNamed(refused);
    }

    /// Each timestamp that no decision names began a transaction, which takes memory.
    @Test
    void entryOfTooManyTimestampsIsRefused() throws DamagedEntryException {
        for (long newest : new long[] {EntryWriter.TIMESTAMPS_MAX + 1, 1L << 40, Long.MAX_VALUE}) {
            assertRefused(batch(newest));
        }
        StatusOracle oracle = new StatusOracle(ROWS_LOG2, new NoDecisions());
        byte[] most = batch(EntryWriter.TIMESTAMPS_MAX);
        new OracleReplay(oracle).entry(most, 0, most.length);
        assertEquals(EntryWriter.TIMESTAMPS_MAX, oracle.open());
    }

    /// O5e.
    @Test
    void entryOfAnotherIdentityIsRefused() {
        for (long identity : new long[] {0, 8}) {
            assertRefused(identified(7), identified(identity));
            assertRefused(part(7), identified(identity));
            assertRefused(part(0));
        }
        byte[] cut = identified(7);
        assertRefused(Arrays.copyOf(cut, cut.length - 1));
        cut = part(7);
        assertRefused(Arrays.copyOf(cut, cut.length - 1));
    }

    private static byte[] identified(long identity) {
        EntryWriter writer = new EntryWriter();
        writer.begin(0);
        writer.identified(identity);
        writer.close(0);
        return Arrays.copyOf(writer.bytes(), writer.length());
    }

    /// A snapshot of no transaction, with this identity.
    private static byte[] part(long identity) {
        byte[] part = new byte[SnapshotWriter.HEADER_BYTES + 1 + Long.BYTES];
        part[0] = SnapshotWriter.VERSION;
        EntryBytes.LONG.set(part, SnapshotWriter.FROM_AT, 1);
        EntryBytes.LONG.set(part, SnapshotWriter.END_AT, 1);
        part[SnapshotWriter.HEADER_BYTES] = SnapshotWriter.IDENTIFIED;
        EntryBytes.LONG.set(part, SnapshotWriter.HEADER_BYTES + 1, identity);
        return part;
    }

    private static byte[] batch(long newest) {
        byte[] entry = new byte[EntryWriter.HEADER_BYTES];
        entry[0] = EntryWriter.VERSION;
        EntryBytes.LONG.set(entry, EntryWriter.BEFORE_AT + Long.BYTES, newest);
        return entry;
    }

    /// The distance from an open transaction takes memory as well.
    @Test
    void snapshotOfDistantOpenTransactionIsRefused() {
        for (int log2 = 43; log2 < 60; log2++) {
            assertRefused(part(SnapshotWriter.OPEN, 1L << log2));
            assertRefused(Arrays.copyOf(part(SnapshotWriter.OPEN, 1L << log2), SnapshotWriter.HEADER_BYTES + 3));
        }
    }

    /// O5h: an oracle that was restored remembers such transactions.
    @Test
    void distanceBetweenOutcomesTakesNoMemory() throws DamagedEntryException {
        for (int log2 = 20; log2 < 60; log2++) {
            for (byte kind : new byte[] {SnapshotWriter.COMMITTED, SnapshotWriter.ABORTED}) {
                StatusOracle oracle = new StatusOracle(ROWS_LOG2, new NoDecisions());
                OracleReplay replay = new OracleReplay(oracle);
                byte[] part = part(kind, 1L << log2);
                replay.entry(part, 0, part.length);
                replay.end();
                assertUsable(oracle);
            }
        }
    }

    /// A snapshot of two transactions, of which one began so much later.
    private static byte[] part(byte kind, long distance) {
        byte[] part = new byte[SnapshotWriter.HEADER_BYTES + 4 * EntryBytes.VARINT_BYTES_MAX];
        part[0] = SnapshotWriter.VERSION;
        long taken = distance + 2;
        long[] header = {taken, 1, 0, 1, taken + 1, taken};
        for (int field = 0; field < header.length; field++) {
            EntryBytes.LONG.set(part, 1 + field * Long.BYTES, header[field]);
        }
        int at = SnapshotWriter.HEADER_BYTES;
        for (long step : new long[] {1, distance}) {
            part[at++] = kind;
            at = EntryBytes.putVarint(part, at, step);
            if (kind != SnapshotWriter.ABORTED) {
                at = EntryBytes.putVarint(part, at, 1);
            }
        }
        return Arrays.copyOf(part, at);
    }
}
