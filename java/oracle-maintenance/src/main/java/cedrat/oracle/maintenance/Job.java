package cedrat.oracle.maintenance;

import cedrat.oracle.tables.Cleaner;
import cedrat.oracle.tables.Pace;
import cedrat.oracle.tables.Pruner;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TableException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.SequencedMap;

/// Kind of work on tables.
enum Job {
    /// Work of a [Cleaner].
    SWEEP(List.of("rows", "committed", "aborted", "open", "forgotten")),
    /// Work of a [Pruner].
    PRUNE(List.of("rows", "versions", "low-water-mark"));

    /// The names of its figures.
    private final List<String> figures;

    Job(List<String> figures) {
        this.figures = figures;
    }

    List<String> figures() {
        return figures;
    }

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }

    /// Returns the worker for a namespace, which is kept for its next passes.
    Worker worker(Store store, Store.Part part, Pace pace) {
        return switch (this) {
            case SWEEP -> new Sweeping(part, new Cleaner(store.oracle(), part.tables(), pace));
            case PRUNE -> new Pruning(part, new Pruner(store.oracle(), part.tables(), pace));
        };
    }

    /// A job for one namespace.
    abstract static class Worker {
        private final Job job;
        final Store.Part part;

        Worker(Job job, Store.Part part) {
            this.job = job;
            this.part = part;
        }

        /// Goes once over the tables. One that is refused, also in the middle, does not keep it from the others.
        Pass pass() {
            List<TableException> refusals = new ArrayList<>();
            List<Table> usable = part.usable(refusals::add);
            if (part.isWhole() && refusals.isEmpty()) {
                try {
                    return new Pass(usable.size(), named(visitAll(usable)), List.of());
                } catch (TableException problem) {
                    if (!part.isRefusal(problem)) {
                        throw problem;
                    }
                    // It is met again below, at its table.
                }
            }
            long[] sums = new long[job.figures.size()];
            int tables = 0;
            for (Table table : usable) {
                try {
                    add(visit(table), sums);
                    tables++;
                } catch (TableException problem) {
                    if (!part.isRefusal(problem)) {
                        throw problem;
                    }
                    refusals.add(problem);
                }
            }
            return new Pass(tables, named(sums), refusals);
        }

        /// Visits all tables of the namespace, which are these.
        abstract long[] visitAll(List<Table> tables);

        /// Visits one of the tables.
        abstract long[] visit(Table table);

        /// Adds the figures of a table.
        void add(long[] figures, long[] sums) {
            for (int index = 0; index < sums.length; index++) {
                sums[index] += figures[index];
            }
        }

        private SequencedMap<String, Long> named(long[] values) {
            SequencedMap<String, Long> named = new LinkedHashMap<>();
            for (int index = 0; index < values.length; index++) {
                named.put(job.figures.get(index), values[index]);
            }
            return named;
        }
    }

    /// Tables that are left out keep all outcomes from being forgotten (O4h).
    static final class Sweeping extends Worker {
        private final Cleaner cleaner;

        Sweeping(Store.Part part, Cleaner cleaner) {
            super(SWEEP, part);
            this.cleaner = cleaner;
        }

        @Override
        long[] visitAll(List<Table> tables) {
            return figures(cleaner.sweep());
        }

        @Override
        long[] visit(Table table) {
            return figures(cleaner.clean(List.of(table)));
        }

        private static long[] figures(Cleaner.Sweep sweep) {
            return new long[] {sweep.rows(), sweep.committed(), sweep.aborted(), sweep.open(), sweep.forgotten()};
        }

        /// Returns the time until a sweep has the oracle forget outcomes.
        Duration untilForgetting() {
            return cleaner.untilForgetting();
        }
    }

    private static final class Pruning extends Worker {
        private final Pruner pruner;

        Pruning(Store.Part part, Pruner pruner) {
            super(PRUNE, part);
            this.pruner = pruner;
        }

        @Override
        long[] visitAll(List<Table> tables) {
            return figures(pruner.prune(tables));
        }

        @Override
        long[] visit(Table table) {
            return figures(pruner.prune(List.of(table)));
        }

        private static long[] figures(Pruner.Pruned pruned) {
            return new long[] {pruned.rows(), pruned.versions(), pruned.lowWaterMark()};
        }

        @Override
        void add(long[] figures, long[] sums) {
            sums[0] += figures[0];
            sums[1] += figures[1];
            sums[2] = figures[2];
        }
    }
}
