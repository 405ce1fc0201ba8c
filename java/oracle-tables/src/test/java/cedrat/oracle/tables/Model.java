package cedrat.oracle.tables;

import static cedrat.oracle.tables.World.OTHER;
import static cedrat.oracle.tables.World.VALUE;
import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.stream.LongStream;

/// Transactions in any order, beside a model that copies everything when a transaction begins. One seed, one
/// run.
final class Model {
    private static final List<Column> COLUMNS = List.of(VALUE, OTHER);
    private static final int KEYS = 5;
    private static final int STEPS = 250;

    /// Where something is. What conflicts is a row in one table and a place in the other.
    private record Place(Table table, String row, Column column) implements Comparable<Place> {
        String conflict() {
            return table + "/" + row + (table.granularity() == Granularity.ROW ? "" : "/" + column);
        }

        @Override
        public int compareTo(Place other) {
            return toString().compareTo(other.toString());
        }
    }

    /// A savepoint, and what is expected after a return to it.
    private record Saved(Savepoint savepoint, TreeMap<Place, String> seen, TreeMap<Place, String> written) {}

    /// Expected reads and own writes of a transaction.
    private static final class Mine {
        final Transaction transaction;
        TreeMap<Place, String> seen;
        final long commitsAtStart;
        TreeMap<Place, String> written = new TreeMap<>();
        final List<Saved> savepoints = new ArrayList<>();
        final Set<String> read = new HashSet<>();
        /// Of tables, by their names: from a key to a key, or to `null` for the last.
        final List<String[]> scanned = new ArrayList<>();

        Mine(Transaction transaction, TreeMap<Place, String> committed, long commits) {
            this.transaction = transaction;
            this.seen = new TreeMap<>(committed);
            this.commitsAtStart = commits;
        }
    }

    private final SplittableRandom random;
    private final Fault fault;
    private final World world;
    private final List<Runnable> cleanUps = new ArrayList<>();
    private final List<TransactionManager> managers = new ArrayList<>();

    private final TreeMap<Place, String> committed = new TreeMap<>();
    private final Map<String, Long> lastCommit = new HashMap<>();
    /// By table and row.
    private final Map<List<String>, Long> lastWrite = new HashMap<>();
    private long commits;
    private final List<Mine> open = new ArrayList<>();

    private Model(TestStore store, long seed, Fault fault) {
        this.random = new SplittableRandom(seed);
        this.fault = fault;
        world = new World(store);
        managers.add(world.manager(cleanUps::add, (delay, work) -> cleanUps.add(work), fault));
        for (int bytes : List.of(0, 300)) {
            managers.add(world.spilling(bytes, cleanUps::add, (delay, work) -> cleanUps.add(work), fault));
        }
        world.hook = (point, table, row, mutation) -> {
            if (World.isCleanUp(point, mutation) && random.nextInt(20) == 0) {
                throw new TableException(TableException.Effect.NONE, "planted", null);
            }
        };
    }

    /// Fails if the two differ.
    static void run(TestStore store, long seed, Fault fault) {
        Model model = new Model(store, seed, fault);
        try {
            for (int step = 0; step < STEPS; step++) {
                model.step();
            }
            model.end();
        } finally {
            model.world.close();
        }
    }

    private Place place() {
        Table table = random.nextBoolean() ? world.rows : world.cells;
        return new Place(table, "" + random.nextInt(KEYS), COLUMNS.get(random.nextInt(2)));
    }

    private void step() {
        int what = random.nextInt(100);
        if (open.isEmpty() || what < 10 && open.size() < 6) {
            Isolation isolation = random.nextInt(3) == 0 ? Isolation.SERIALISABLE : Isolation.SNAPSHOT;
            open.add(new Mine(begin(isolation), committed, commits));
            return;
        }
        Mine mine = open.get(random.nextInt(open.size()));
        if (what < 40) {
            read(mine);
        } else if (what < 50) {
            scan(mine);
        } else if (what < 72) {
            write(mine);
        } else if (what < 74) {
            TreeMap<Place, String> seen = new TreeMap<>(mine.seen);
            mine.savepoints.add(new Saved(mine.transaction.savepoint(), seen, new TreeMap<>(mine.written)));
        } else if (what < 76) {
            rollBack(mine);
        } else if (what < 85) {
            commit(mine);
        } else if (what < 88) {
            open.remove(mine);
            mine.transaction.abort();
        } else if (what < 95 && !cleanUps.isEmpty()) {
            cleanUps.remove(random.nextInt(cleanUps.size())).run();
        } else if (what < 98) {
            sweep();
        } else {
            new Pruner(world.oracle, world.tables, fault).prune();
        }
    }

    private Transaction begin(Isolation isolation) {
        return managers.get(random.nextInt(managers.size())).begin(isolation);
    }

    private void read(Mine mine) {
        Place place = place();
        String expected = mine.seen.get(place);
        String found = mine.transaction
                .get(place.table, Bytes.of(place.row), place.column)
                .map(Bytes::toText)
                .orElse(null);
        mine.read.add(place.conflict());
        assertEquals(expected, found, () -> place + " in " + mine.transaction);
    }

    private void scan(Mine mine) {
        Table table = place().table;
        String from = "" + random.nextInt(KEYS);
        int limit = 1 + random.nextInt(KEYS);
        boolean isReversed = random.nextBoolean();
        TreeMap<String, Map<Column, String>> expected = new TreeMap<>();
        mine.seen.forEach((place, value) -> {
            if (place.table.equals(table) && place.row.compareTo(from) >= 0) {
                expected.computeIfAbsent(place.row, none -> new TreeMap<>()).put(place.column, value);
            }
        });
        while (expected.size() > limit) {
            expected.remove(isReversed ? expected.firstKey() : expected.lastKey());
        }
        TreeMap<String, Map<Column, String>> found = new TreeMap<>();
        Scan forward =
                Scan.ALL.withRange(new KeyRange(Bytes.of(from), Bytes.EMPTY)).withLimit(limit);
        try (Rows rows = mine.transaction.scan(table, isReversed ? forward.reversed() : forward)) {
            rows.forEachRemaining(row -> row.cells()
                    .forEach((column, value) -> found.computeIfAbsent(row.key().toText(), none -> new TreeMap<>())
                            .put(column, value.toText())));
        }
        assertEquals(expected, found, () -> "scan of " + table + " in " + mine.transaction);
        boolean isCut = found.size() == limit;
        mine.scanned.add(new String[] {
            table.name(), isCut && isReversed ? found.firstKey() : from, isCut && !isReversed ? found.lastKey() : null
        });
    }

    private void write(Mine mine) {
        Place place = place();
        if (random.nextInt(4) == 0) {
            mine.transaction.delete(place.table, Bytes.of(place.row), place.column);
            mine.seen.remove(place);
            mine.written.put(place, "");
        } else {
            String value = mine.transaction.start().value() + "." + random.nextInt(100);
            mine.transaction.put(place.table, Bytes.of(place.row), place.column, Bytes.of(value));
            mine.seen.put(place, value);
            mine.written.put(place, value);
        }
    }

    private void rollBack(Mine mine) {
        if (!mine.savepoints.isEmpty()) {
            int index = random.nextInt(mine.savepoints.size());
            Saved saved = mine.savepoints.get(index);
            mine.transaction.rollBackTo(saved.savepoint);
            mine.savepoints.subList(index + 1, mine.savepoints.size()).clear();
            mine.seen = new TreeMap<>(saved.seen);
            mine.written = new TreeMap<>(saved.written);
        }
    }

    private void commit(Mine mine) {
        open.remove(mine);
        Set<String> checked = new HashSet<>();
        mine.written.keySet().forEach(place -> checked.add(place.conflict()));
        if (mine.transaction.isolation() == Isolation.SERIALISABLE && !mine.written.isEmpty()) {
            checked.addAll(mine.read);
        }
        boolean mustAbort = checked.stream().anyMatch(each -> lastCommit.getOrDefault(each, 0L) > mine.commitsAtStart);
        if (mine.transaction.isolation() == Isolation.SERIALISABLE && !mine.written.isEmpty()) {
            mustAbort |= mine.scanned.stream().anyMatch(range -> lastWrite.entrySet().stream()
                    .anyMatch(write -> isIn(write.getKey(), range) && write.getValue() > mine.commitsAtStart));
        }
        boolean expected = mustAbort;
        boolean aborted = false;
        try {
            mine.transaction.commit();
        } catch (AbortedException conflict) {
            aborted = true;
        }
        assertEquals(expected, aborted, () -> mine.transaction + " that wrote " + mine.written.keySet());
        if (!aborted) {
            commits++;
            mine.written.forEach((place, value) -> {
                lastCommit.put(place.conflict(), commits);
                lastWrite.put(List.of(place.table.name(), place.row), commits);
                if (value.isEmpty()) {
                    committed.remove(place);
                } else {
                    committed.put(place, value);
                }
            });
        }
    }

    private static boolean isIn(List<String> key, String[] range) {
        return key.getFirst().equals(range[0])
                && key.getLast().compareTo(range[1]) >= 0
                && (range[2] == null || key.getLast().compareTo(range[2]) <= 0);
    }

    private void sweep() {
        try {
            new Cleaner(world.oracle, world.tables, System::nanoTime, fault).sweep();
        } catch (TableException planted) {
            // the next one goes on
        }
    }

    /// O4g: when all clean-ups have succeeded, the oracle knows no outcome any more.
    private void cleanUp() {
        while (!cleanUps.isEmpty()) {
            cleanUps.removeFirst().run();
        }
        List<StartTimestamp> all = LongStream.rangeClosed(
                        1, world.oracle.begin().value() - 1)
                .mapToObj(StartTimestamp::new)
                .toList();
        for (Outcome outcome : world.oracle.status(all.getFirst(), all)) {
            assertEquals(Outcome.Kind.UNKNOWN, outcome.kind());
        }
    }

    /// When all is cleaned and pruned, what is there is what was committed, and nothing else.
    private void end() {
        open.forEach(mine -> mine.transaction.abort());
        world.hook = (point, table, row, mutation) -> {};
        sweep();
        new Pruner(world.oracle, world.tables, fault).prune();
        assertEquals(0, world.contents().pending());
        assertEquals(committed.size(), world.contents().versions());
        cleanUp();
        open.clear();
        new Pruner(world.oracle, world.tables, fault).prune();
        assertEquals(0, world.contents().stamps(), "late ones are pruned");
        open.add(new Mine(begin(Isolation.SNAPSHOT), committed, commits));
        for (int count = 0; count < 20; count++) {
            read(open.getFirst());
            scan(open.getFirst());
        }
    }
}
