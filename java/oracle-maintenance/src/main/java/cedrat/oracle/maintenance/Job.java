package cedrat.oracle.maintenance;

import cedrat.oracle.tables.Cleaner;
import cedrat.oracle.tables.Pace;
import cedrat.oracle.tables.Pruner;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TableException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.SequencedMap;

/// Kind of work on tables.
enum Job {
    /// What a [Cleaner] does.
    SWEEP(List.of("rows", "committed", "aborted", "open", "forgotten")),
    /// What a [Pruner] does.
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

    private Pass pass(List<Table> tables, List<TableException> refusals, long... values) {
        SequencedMap<String, Long> named = new LinkedHashMap<>();
        for (int index = 0; index < values.length; index++) {
            named.put(figures.get(index), values[index]);
        }
        return new Pass(tables.size(), named, refusals);
    }

    /// A job for one namespace.
    interface Worker {
        /// Returns its namespace.
        Store.Part part();

        /// Goes once over the tables.
        Pass pass();
    }

    /// Tables that are refused keep those of others from being forgotten, not from being cleaned (K3).
    record Sweeping(Store.Part part, Cleaner cleaner) implements Worker {
        @Override
        public Pass pass() {
            List<TableException> refusals = new ArrayList<>();
            List<Table> usable = part.usable(refusals::add);
            Cleaner.Sweep sweep = part.isWhole() && refusals.isEmpty() ? cleaner.sweep() : cleaner.clean(usable);
            return SWEEP.pass(
                    usable,
                    refusals,
                    sweep.rows(),
                    sweep.committed(),
                    sweep.aborted(),
                    sweep.open(),
                    sweep.forgotten());
        }
    }

    private record Pruning(Store.Part part, Pruner pruner) implements Worker {
        @Override
        public Pass pass() {
            List<TableException> refusals = new ArrayList<>();
            List<Table> usable = part.usable(refusals::add);
            Pruner.Pruned pruned = pruner.prune(usable);
            return PRUNE.pass(usable, refusals, pruned.rows(), pruned.versions(), pruned.lowWaterMark());
        }
    }
}
