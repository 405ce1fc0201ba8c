package cedrat.oracle.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.state.Decisions;
import cedrat.oracle.state.Keys;
import cedrat.oracle.state.Rows;
import cedrat.oracle.state.StatusOracle;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;

class EntryTest {
    /// Received decisions, as strings.
    private static final class RecordedDecisions implements Decisions {
        final List<String> all = new ArrayList<>();

        @Override
        public void committed(long start, long commit, Rows rows) {
            StringBuilder text = new StringBuilder("committed " + start + " at " + commit + ":");
            for (int at = 0; at < rows.count(); at++) {
                text.append(' ').append(rows.get(at));
            }
            all.add(text.toString());
        }

        @Override
        public void wrote(Keys keys) {
            StringBuilder text = new StringBuilder("wrote");
            for (int at = 0; at < keys.count(); at++) {
                String key = new String(keys.bytes(), keys.begin(at), keys.length(at), StandardCharsets.ISO_8859_1);
                text.append(' ').append(keys.table(at)).append(':').append(key);
            }
            all.add(text.toString());
        }

        @Override
        public void aborted(long start) {
            all.add("aborted " + start);
        }

        @Override
        public void ended(long start) {
            all.add("ended " + start);
        }

        @Override
        public void forgotten(long start) {
            all.add("forgotten " + start);
        }

        @Override
        public void identified(long identity) {
            all.add("identified " + identity);
        }

        @Override
        public void used(long namespace) {
            all.add("used " + namespace);
        }

        @Override
        public void retired(long namespace) {
            all.add("retired " + namespace);
        }

        @Override
        public void pruned(long upTo) {
            all.add("pruned " + upTo);
        }
    }

    private static void both(Decisions one, Decisions other, java.util.function.Consumer<Decisions> call) {
        call.accept(one);
        call.accept(other);
    }

    /// The example on the format's page.
    @Test
    void entryBytesMatchFormatPage() throws DamagedEntryException, IOException {
        EntryWriter writer = new EntryWriter();
        writer.begin(300);
        Rows rows = new Rows();
        rows.add(0x1122334455667788L);
        writer.committed(299, 302, rows);
        Keys keys = new Keys();
        keys.add(9, "ab".getBytes(), 0, 2);
        writer.wrote(keys);
        writer.aborted(10);
        writer.ended(303);
        writer.forgotten(300);
        writer.close(305);
        String page = Files.readString(Path.of("../../docs/formats/oracle-log.md"));
        String expected = page.substring(page.indexOf("## An example"), page.indexOf("## Snapshots"))
                .lines()
                .filter(line -> line.startsWith("| `"))
                .map(line -> line.split("`")[1].replace(" ", ""))
                .collect(Collectors.joining());
        assertEquals(expected, HexFormat.of().formatHex(writer.bytes(), 0, writer.length()));
        EntryReader reader = new EntryReader();
        reader.open(writer.bytes(), 0, writer.length());
        RecordedDecisions decisions = new RecordedDecisions();
        reader.tell(decisions);
        assertEquals(
                List.of(
                        "committed 299 at 302: " + 0x1122334455667788L,
                        "wrote 9:ab",
                        "aborted 10",
                        "ended 303",
                        "forgotten 300"),
                decisions.all);
        assertEquals(300, reader.before());
        assertEquals(305, reader.newest());
    }

    @Property(tries = 200)
    void whatIsReadIsWhatWasWritten(@ForAll @LongRange(min = 1) long seed) throws DamagedEntryException {
        SplittableRandom random = new SplittableRandom(seed);
        EntryWriter writer = new EntryWriter();
        EntryReader reader = new EntryReader();
        long newest = random.nextLong(1L << random.nextInt(1, 60));
        for (int entry = 0; entry < 3; entry++) {
            RecordedDecisions written = new RecordedDecisions();
            long before = newest;
            writer.begin(before);
            for (int count = random.nextInt(200); count > 0; count--) {
                newest += random.nextInt(1, 5);
                long start = random.nextLong(1, newest + 1);
                switch (random.nextInt(8)) {
                    case 7 -> both(written, writer, to -> to.identified(-start));
                    case 6 -> both(written, writer, to -> to.retired(-start));
                    case 5 -> both(written, writer, to -> to.used(-start));
                    case 4 -> both(written, writer, to -> to.pruned(start));
                    case 0 -> both(written, writer, to -> to.aborted(start));
                    case 1 -> both(written, writer, to -> to.ended(start));
                    case 2 -> both(written, writer, to -> to.forgotten(start));
                    default -> {
                        Rows rows = new Rows();
                        for (int row = random.nextInt(30); row > 0; row--) {
                            rows.add(random.nextLong());
                        }
                        newest++;
                        long commit = newest;
                        both(written, writer, to -> to.committed(start, commit, rows));
                        Keys keys = new Keys();
                        for (int key = random.nextInt(4); key > 0; key--) {
                            byte[] bytes = new byte[random.nextInt(300)];
                            random.nextBytes(bytes);
                            keys.add(random.nextLong(), bytes, 0, bytes.length);
                        }
                        if (keys.count() > 0) {
                            both(written, writer, to -> to.wrote(keys));
                        }
                    }
                }
            }
            writer.close(newest);
            reader.open(writer.bytes(), 0, writer.length());
            RecordedDecisions read = new RecordedDecisions();
            reader.tell(read);
            assertEquals(written.all, read.all);
            assertEquals(before, reader.before());
            assertEquals(newest, reader.newest());
            assertEquals(read.all.isEmpty(), writer.isEmpty());
        }
    }

    /// Any bytes are read as an entry, or refused with an error that names the offset.
    @Property(tries = 2_000)
    void bytesThatAreNoEntryAreRefused(@ForAll @Size(max = 200) byte[] bytes) {
        if (bytes.length > 0) {
            bytes[0] = EntryWriter.VERSION;
        }
        for (int zero = EntryWriter.BEFORE_AT; zero < Math.min(bytes.length, EntryWriter.HEADER_BYTES); zero++) {
            bytes[zero] = zero % 8 == 1 ? bytes[zero] : 0;
        }
        EntryReader reader = new EntryReader();
        try {
            reader.open(bytes, 0, bytes.length);
            reader.tell(new RecordedDecisions());
        } catch (DamagedEntryException damaged) {
            assertTrue(damaged.getMessage().contains("at byte "), damaged.getMessage());
        }
    }

    @Test
    void truncatedEntryIsNotReadAsWhole() {
        EntryWriter writer = new EntryWriter();
        writer.begin(1);
        Rows rows = new Rows();
        rows.add(1);
        rows.add(2);
        writer.committed(1, 2, rows);
        int commitEnd = writer.length();
        Keys keys = new Keys();
        keys.add(9, "abc".getBytes(), 0, 3);
        keys.add(9, new byte[0], 0, 0);
        writer.wrote(keys);
        writer.close(2);
        for (int length = 0; length < writer.length(); length++) {
            byte[] cut = Arrays.copyOf(writer.bytes(), length);
            EntryReader reader = new EntryReader();
            if (length == EntryWriter.HEADER_BYTES || length == commitEnd) {
                continue; // nothing was decided: the log says how long its entries are
            }
            assertThrows(
                    DamagedEntryException.class,
                    () -> {
                        reader.open(cut, 0, cut.length);
                        reader.tell(new RecordedDecisions());
                    },
                    "cut to " + length);
        }
    }

    /// Several short entries report the same as one that would be too long.
    @Property(tries = 50)
    void boundedEntriesReplayTheSame(@ForAll @LongRange(min = 1) long seed) throws DamagedEntryException {
        SplittableRandom random = new SplittableRandom(seed);
        int bound = random.nextInt(EntryWriter.HEADER_BYTES + 1, 200);
        RecordedDecisions written = new RecordedDecisions();
        RecordedDecisions read = new RecordedDecisions();
        EntryReader reader = new EntryReader();
        EntryWriter writer = new EntryWriter();
        long[] newest = {1};
        List<byte[]> entries = new ArrayList<>();
        Runnable close = () -> {
            writer.close(newest[0]);
            entries.add(Arrays.copyOf(writer.bytes(), writer.length()));
            writer.begin(newest[0]);
        };
        writer.whenFull(bound, close);
        writer.begin(newest[0]);
        for (int count = random.nextInt(300); count > 0; count--) {
            newest[0] += random.nextInt(3);
            long start = random.nextLong(1, newest[0] + 1);
            switch (random.nextInt(4)) {
                case 0 -> both(written, writer, to -> to.aborted(start));
                case 1 -> both(written, writer, to -> to.ended(start));
                case 2 -> both(written, writer, to -> to.forgotten(start));
                default -> {
                    Rows rows = new Rows();
                    rows.add(random.nextLong());
                    long commit = ++newest[0];
                    both(written, writer, to -> to.committed(start, commit, rows));
                }
            }
        }
        close.run();
        long before = 1;
        for (byte[] entry : entries) {
            reader.open(entry, 0, entry.length);
            assertEquals(before, reader.before(), "each goes on where the one before has ended");
            reader.tell(read);
            before = reader.newest();
        }
        assertEquals(written.all, read.all);
        int commits = (int) written.all.stream()
                .filter(decision -> decision.startsWith("committed"))
                .count();
        int longest = entries.stream().mapToInt(entry -> entry.length).max().orElseThrow();
        assertTrue(commits > 0 || longest < bound + 1 + EntryBytes.VARINT_BYTES_MAX, longest + " bytes");
    }

    @Test
    void keysOfNoCommitAreRefused() throws DamagedEntryException {
        EntryWriter writer = new EntryWriter();
        writer.begin(7);
        writer.aborted(3);
        writer.wrote(new Keys());
        writer.close(7);
        EntryReader reader = new EntryReader();
        reader.open(writer.bytes(), 0, writer.length());
        assertThrows(DamagedEntryException.class, () -> reader.tell(new RecordedDecisions()));
    }

    /// O5: what the entries keep is enough to come back.
    @Property(tries = 20)
    void anOracleComesBackFromItsEntries(@ForAll @LongRange(min = 1) long seed) throws DamagedEntryException {
        SplittableRandom random = new SplittableRandom(seed);
        EntryWriter writer = new EntryWriter();
        StatusOracle oracle = new StatusOracle(10, writer);
        StatusOracle again = new StatusOracle(10, new RecordedDecisions());
        Decisions replay = again.replay();
        EntryReader reader = new EntryReader();
        Rows rows = new Rows();
        Rows none = new Rows();
        for (int entry = 0; entry < 50; entry++) {
            writer.begin(oracle.newest());
            for (int step = 0; step < 40; step++) {
                oracle.begin(1);
                long start = random.nextLong(Math.max(1, oracle.newest() - 20), oracle.newest() + 1);
                rows.clear();
                for (int count = random.nextInt(5); count > 0; count--) {
                    rows.add(random.nextInt(500));
                }
                switch (random.nextInt(4)) {
                    case 0 -> oracle.resolve(start);
                    case 1 -> oracle.cleaned(start);
                    default -> oracle.commit(start, rows, none);
                }
            }
            writer.close(oracle.newest());
            reader.open(writer.bytes(), 0, writer.length());
            reader.tell(replay);
            again.replayGivenOut(reader.newest());
            assertEquals(oracle.newest(), again.newest());
            assertEquals(oracle.open(), again.open());
            assertEquals(oracle.lowWaterMark(), again.lowWaterMark());
            assertEquals(oracle.halfAborted(), again.halfAborted());
            assertEquals(oracle.forgottenTimestamp(), again.forgottenTimestamp());
        }
        for (long start = 1; start <= oracle.newest(); start++) {
            assertEquals(oracle.status(start), again.status(start));
        }
    }
}
