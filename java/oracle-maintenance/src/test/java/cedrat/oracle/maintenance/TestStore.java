package cedrat.oracle.maintenance;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.tables.HookedTables;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TableException;
import cedrat.oracle.tables.Tables;
import java.util.List;
import java.util.SequencedMap;
import java.util.function.Consumer;
import java.util.function.Supplier;

/// Tables in memory, one store for all that open it.
final class TestStore implements Store {
    /// @param tables by namespace
    /// @param hook sees all calls
    /// @param refused names of tables that are refused, at this moment
    record Opener(
            Supplier<ClientOptions> oracle,
            SequencedMap<String, Tables> tables,
            HookedTables.Hook hook,
            Supplier<List<String>> refused)
            implements Store.Opener {
        @Override
        public List<String> namespaces() {
            return List.copyOf(tables.keySet());
        }

        @Override
        public Store open() {
            return new TestStore(this);
        }

        @Override
        public boolean isRefusal(TableException problem) {
            return problem.getCause() == null;
        }
    }

    private record Memory(String name, Tables tables, Supplier<List<String>> refused) implements Part {
        @Override
        public boolean isRefusal(TableException problem) {
            return problem.getCause() == null;
        }

        @Override
        public boolean isWhole() {
            return true;
        }

        @Override
        public List<Table> usable(Consumer<TableException> refusals) {
            List<String> names = refused.get();
            names.forEach(each -> refusals.accept(
                    new TableException(TableException.Effect.NONE, "table " + each + " is refused: alter it", null)));
            return tables.all().stream()
                    .filter(table -> !names.contains(table.name()))
                    .toList();
        }
    }

    private final OracleClient oracle;
    private final List<Part> parts;

    private TestStore(Opener opener) {
        oracle = OracleClient.open(opener.oracle.get());
        parts = opener.tables.entrySet().stream()
                .<Part>map(each ->
                        new Memory(each.getKey(), new HookedTables(each.getValue(), opener.hook), opener.refused))
                .toList();
    }

    @Override
    public OracleClient oracle() {
        return oracle;
    }

    @Override
    public List<Part> parts() {
        return parts;
    }

    @Override
    public void close() {
        oracle.close();
    }
}
