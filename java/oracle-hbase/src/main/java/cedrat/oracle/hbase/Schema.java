package cedrat.oracle.hbase;

import cedrat.oracle.client.OracleIdentity;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.TableException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.KeepDeletedCells;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;

/// Requirements on a table of HBase for transactions.
final class Schema {
    /// The family of the markers ("pending write"), and of the commit timestamps that replace them. Short, for HBase
    /// repeats it in every cell.
    static final String PENDING = "pw";

    /// The table's attribute that says what conflicts.
    static final String CONFLICTS = "CEDRAT_CONFLICTS";

    /// The table's attribute that says that serialisable transactions may scan it; missing otherwise.
    private static final String SCANS = "CEDRAT_SCANS";

    /// The table's attribute that names the oracle whose timestamps it has.
    static final String ORACLE = "CEDRAT_ORACLE";

    /// The table's attribute that says how rows are laid out; missing in layout 1.
    static final String LAYOUT = "CEDRAT_LAYOUT";

    /// The layout that this version reads and writes: versions keep their start timestamps, commit timestamps
    /// replace markers, and both are versions of one column. In layout 2 each marker had a column of its own, and
    /// in layout 1 markers were removed, and versions written again with their commit timestamps.
    private static final int LAYOUT_NOW = 3;

    private static final String CHECKED = "checked";

    private Schema() {}

    static TableDescriptor descriptor(
            TableName name, Granularity granularity, boolean checksScans, List<String> families) {
        TableDescriptorBuilder table = TableDescriptorBuilder.newBuilder(name)
                .setValue(CONFLICTS, text(granularity))
                .setValue(LAYOUT, "" + LAYOUT_NOW)
                .setColumnFamily(family(PENDING));
        if (checksScans) {
            table.setValue(SCANS, CHECKED);
        }
        for (String family : families) {
            if (family.equals(PENDING)) {
                throw new IllegalArgumentException(
                        "the family name " + PENDING + " is reserved for markers: choose another");
            }
            table.setColumnFamily(family(family));
        }
        return table.build();
    }

    private static ColumnFamilyDescriptor family(String name) {
        return ColumnFamilyDescriptorBuilder.newBuilder(Bytes.toBytes(name))
                .setMaxVersions(Integer.MAX_VALUE)
                .build();
    }

    /// Returns the same description, with this oracle.
    static TableDescriptor bound(TableDescriptor table, OracleIdentity oracle) {
        return TableDescriptorBuilder.newBuilder(table)
                .setValue(ORACLE, oracle.toString())
                .build();
    }

    /// Returns the identity of the table's oracle; `null` for a table that names none.
    static String oracle(TableDescriptor table) {
        return table.getValue(ORACLE);
    }

    static boolean isForTransactions(TableDescriptor table) {
        return table.getValue(CONFLICTS) != null;
    }

    static boolean checksScans(TableDescriptor table) {
        return CHECKED.equals(table.getValue(SCANS));
    }

    static String text(Granularity granularity) {
        return granularity.name().toLowerCase(Locale.ROOT);
    }

    /// Returns what conflicts in the table.
    ///
    /// @throws TableException if the table keeps less than it should: says what, and how that is mended
    static Granularity check(TableDescriptor table) {
        String name = table.getTableName().getNameAsString();
        List<String> wrong = new ArrayList<>();
        List<String> alter = new ArrayList<>();
        List<String> attributes = new ArrayList<>();
        Granularity granularity = null;
        for (Granularity each : Granularity.values()) {
            if (text(each).equals(table.getValue(CONFLICTS))) {
                granularity = each;
            }
        }
        if (granularity == null) {
            wrong.add("it has no attribute for what conflicts, a row or a cell");
            attributes.add("'" + CONFLICTS + "' => 'row'");
        }
        checkLayout(table, attributes);
        if (!attributes.isEmpty()) {
            alter.add("METADATA => {" + String.join(", ", attributes) + "}");
        }
        if (table.getDurability() == Durability.ASYNC_WAL || table.getDurability() == Durability.SKIP_WAL) {
            wrong.add("a crash loses acknowledged writes (durability " + table.getDurability() + ")");
            alter.add("DURABILITY => 'USE_DEFAULT'");
        }
        if (!table.hasColumnFamily(Bytes.toBytes(PENDING))) {
            wrong.add("it has no family " + PENDING + " for markers");
            alter.add("{NAME => '" + PENDING + "', VERSIONS => " + Integer.MAX_VALUE + "}");
        }
        for (ColumnFamilyDescriptor family : table.getColumnFamilies()) {
            check(family, wrong, alter);
        }
        if (!wrong.isEmpty()) {
            throw new TableException(
                    TableException.Effect.NONE,
                    "table " + name + " cannot have transactions: " + String.join("; ", wrong)
                            + ". In HBase's shell: alter '" + name + "', " + String.join(", ", alter),
                    null);
        }
        return granularity;
    }

    private static void checkLayout(TableDescriptor table, List<String> attributes) {
        String layout = table.getValue(LAYOUT);
        if (isLayoutNow(table)) {
            return;
        }
        if (layout != null || isForTransactions(table)) {
            throw new TableException(
                    TableException.Effect.NONE,
                    "table " + table.getTableName() + " has the layout " + (layout == null ? "1" : layout)
                            + ", and this version of Cedrat knows " + LAYOUT_NOW
                            + ": use the version that has created it; rows can be copied to a new table",
                    null);
        }
        attributes.add("'" + LAYOUT + "' => '" + LAYOUT_NOW + "'");
    }

    static boolean isLayoutNow(TableDescriptor table) {
        return ("" + LAYOUT_NOW).equals(table.getValue(LAYOUT));
    }

    private static void check(ColumnFamilyDescriptor family, List<String> wrong, List<String> alter) {
        String name = family.getNameAsString();
        List<String> mended = new ArrayList<>();
        if (family.getMaxVersions() != Integer.MAX_VALUE) {
            wrong.add("its family " + name + " keeps " + family.getMaxVersions() + " versions only");
            mended.add("VERSIONS => " + Integer.MAX_VALUE);
        }
        if (family.getTimeToLive() != HConstants.FOREVER) {
            wrong.add("its family " + name + " forgets after " + family.getTimeToLive() + " s");
            mended.add("TTL => 'FOREVER'");
        }
        if (family.getKeepDeletedCells() != KeepDeletedCells.FALSE) {
            wrong.add("its family " + name + " keeps deleted cells");
            mended.add("KEEP_DELETED_CELLS => 'FALSE'");
        }
        if (family.isNewVersionBehavior()) {
            wrong.add(
                    "its family " + name + " has the new behaviour of version deletes, which Cedrat does not support");
            mended.add("NEW_VERSION_BEHAVIOR => 'false'");
        }
        if (!mended.isEmpty()) {
            alter.add("{NAME => '" + name + "', " + String.join(", ", mended) + "}");
        }
    }
}
