package cedrat.oracle.hbase;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.TableException;
import java.util.List;
import java.util.function.UnaryOperator;
import org.apache.hadoop.hbase.KeepDeletedCells;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.jupiter.api.Test;

/// O7: which tables are taken, and what is said of others.
class SchemaTest {
    private static final TableName NAME = TableName.valueOf("t");
    private static final TableDescriptor RIGHT = Schema.descriptor(NAME, Granularity.CELL, false, List.of("f"));

    @Test
    void createdTablesAreAccepted() {
        assertEquals(Granularity.CELL, Schema.check(RIGHT));
        assertEquals(Granularity.ROW, Schema.check(Schema.descriptor(NAME, Granularity.ROW, false, List.of("f", "g"))));
        assertFalse(Schema.checksScans(RIGHT));
        assertTrue(Schema.checksScans(Schema.descriptor(NAME, Granularity.ROW, true, List.of("f"))));
        String refused = assertThrows(
                        IllegalArgumentException.class,
                        () -> Schema.descriptor(NAME, Granularity.ROW, false, List.of(Schema.PENDING)))
                .getMessage();
        assertTrue(refused.contains("reserved for markers"), refused);
    }

    private static void assertRefused(TableDescriptor table, String alter) {
        String message =
                assertThrows(TableException.class, () -> Schema.check(table)).getMessage();
        assertTrue(message.startsWith("table t cannot have transactions: "), message);
        assertTrue(message.endsWith(". In HBase's shell: alter 't', " + alter), message);
    }

    private static TableDescriptor with(UnaryOperator<ColumnFamilyDescriptorBuilder> change) {
        return TableDescriptorBuilder.newBuilder(RIGHT)
                .modifyColumnFamily(change.apply(
                                ColumnFamilyDescriptorBuilder.newBuilder(RIGHT.getColumnFamily(Bytes.toBytes("f"))))
                        .build())
                .build();
    }

    /// O7.
    @Test
    void tooShortRetentionIsRefusedWithRemedy() {
        assertRefused(with(family -> family.setMaxVersions(3)), "{NAME => 'f', VERSIONS => 2147483647}");
        assertRefused(with(family -> family.setTimeToLive(60)), "{NAME => 'f', TTL => 'FOREVER'}");
        assertRefused(
                with(family -> family.setKeepDeletedCells(KeepDeletedCells.TRUE)),
                "{NAME => 'f', KEEP_DELETED_CELLS => 'FALSE'}");
        assertRefused(
                with(family -> family.setNewVersionBehavior(true)), "{NAME => 'f', NEW_VERSION_BEHAVIOR => 'false'}");
        for (Durability careless : List.of(Durability.ASYNC_WAL, Durability.SKIP_WAL)) {
            assertRefused(
                    TableDescriptorBuilder.newBuilder(RIGHT)
                            .setDurability(careless)
                            .build(),
                    "DURABILITY => 'USE_DEFAULT'");
        }
        assertRefused(
                TableDescriptorBuilder.newBuilder(NAME)
                        .setColumnFamily(ColumnFamilyDescriptorBuilder.of("f"))
                        .build(),
                "METADATA => {'CEDRAT_CONFLICTS' => 'row', 'CEDRAT_LAYOUT' => '3'}, "
                        + "{NAME => 'pw', VERSIONS => 2147483647}, {NAME => 'f', VERSIONS => 2147483647}");
    }

    /// O7i.
    @Test
    void otherLayoutsAreRefused() {
        TableDescriptor first = TableDescriptorBuilder.newBuilder(RIGHT)
                .removeValue("CEDRAT_LAYOUT")
                .build();
        String message =
                assertThrows(TableException.class, () -> Schema.check(first)).getMessage();
        assertTrue(message.startsWith("table t has the layout 1, "), message);
        for (String layout : List.of("2", "4")) {
            TableDescriptor other = TableDescriptorBuilder.newBuilder(RIGHT)
                    .setValue("CEDRAT_LAYOUT", layout)
                    .build();
            message = assertThrows(TableException.class, () -> Schema.check(other))
                    .getMessage();
            assertTrue(message.startsWith("table t has the layout " + layout + ", "), message);
        }
    }
}
