package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

class InterferenceTest {
    private static final int WRITES = 64;

    /// A store has faults of its own while late writes reach it.
    @Test
    void lateWritesOutliveRefusals() {
        MemoryTables memory = new MemoryTables();
        memory.create("t", Granularity.ROW);
        List<Bytes> refused = new ArrayList<>();
        Tables refusing = new HookedTables(memory, (point, table, row, mutation) -> {
            if (point == HookedTables.Point.BEFORE_MUTATE && refused.isEmpty()) {
                refused.add(row);
                throw new TableException(TableException.Effect.UNKNOWN, "refused", null);
            }
        });
        Interference interference = new Interference(1);
        Table table = new HookedTables(refusing, interference).table("t");
        interference.set(1000, 0);
        for (int number = 0; number < WRITES; number++) {
            Bytes row = Bytes.of("row-" + number);
            Mutation.Version version = new Mutation.Version(World.VALUE, 1, Bytes.of("value"));
            Mutation write = new Mutation(List.of(version), List.of(), List.of(), List.of(), List.of(), List.of());
            assertThrows(TableException.class, () -> table.mutate(row, write));
        }
        interference.deliver();
        assertEquals(1, refused.size());
        try (StoredRows rows = memory.table("t").scan(KeyRange.ALL, Set.of(), Long.MAX_VALUE)) {
            assertTrue(rows.hasNext(), "no late write has come after one that was refused");
        }
    }
}
