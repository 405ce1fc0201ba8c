package cedrat.samples.transfers;

import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.Row;
import cedrat.oracle.tables.Rows;
import cedrat.oracle.tables.Scan;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.Tables;
import cedrat.oracle.tables.Transaction;
import cedrat.oracle.tables.TransactionManager;
import java.util.List;
import java.util.SplittableRandom;

/// Accounts in two tables: what an application would write. **Threads:** any may call.
final class Accounts {
    static final String CURRENT = "current";
    static final String SAVINGS = "savings";
    static final String FAMILY = "account";

    private static final Column BALANCE = Column.of(FAMILY, "balance");
    private static final long FIRST_BALANCE = 1000;

    private final Table current;
    private final Table savings;
    private final int count;

    /// So many in each table.
    Accounts(Tables tables, int count) {
        current = tables.table(CURRENT);
        savings = tables.table(SAVINGS);
        this.count = count;
    }

    /// All begin with as much; what was there before is gone.
    void open(TransactionManager manager) {
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            for (Table table : List.of(current, savings)) {
                try (Rows rows = transaction.scan(table, Scan.ALL)) {
                    rows.forEachRemaining(row -> transaction.delete(table, row.key(), BALANCE));
                }
                for (int account = 0; account < count; account++) {
                    transaction.put(table, Bytes.of(account), BALANCE, Bytes.of(FIRST_BALANCE));
                }
            }
            return null;
        });
    }

    /// Moves some money from somewhere in one table to somewhere in the other.
    void transferSome(TransactionManager manager, SplittableRandom random) {
        boolean isSaving = random.nextBoolean();
        Bytes payer = Bytes.of(random.nextLong(count));
        Bytes payee = Bytes.of(random.nextLong(count));
        long amount = 1 + random.nextLong(100);
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            transfer(transaction, isSaving ? current : savings, payer, isSaving ? savings : current, payee, amount);
            return null;
        });
    }

    /// Moves all of one account; does not commit.
    void emptyFirst(Transaction transaction) {
        Bytes first = Bytes.of(0);
        transfer(transaction, current, first, savings, first, balance(transaction, current, first));
    }

    /// Moves money from one table to the other, if there is so much.
    private static void transfer(Transaction transaction, Table from, Bytes payer, Table to, Bytes payee, long amount) {
        long there = balance(transaction, from, payer);
        if (there >= amount) {
            transaction.put(from, payer, BALANCE, Bytes.of(there - amount));
            transaction.put(to, payee, BALANCE, Bytes.of(balance(transaction, to, payee) + amount));
        }
    }

    private static long balance(Transaction transaction, Table table, Bytes account) {
        return transaction.get(table, account, BALANCE).orElseThrow().toLong();
    }

    /// Whether all balances of both tables, at one moment, are what they were in the beginning.
    boolean isTotalRight(TransactionManager manager) {
        return manager.runInTransaction(Isolation.SNAPSHOT, this::total) == 2 * FIRST_BALANCE * count;
    }

    private long total(Transaction transaction) {
        long total = 0;
        for (Table table : List.of(current, savings)) {
            try (Rows rows = transaction.scan(table, Scan.ALL)) {
                while (rows.hasNext()) {
                    Row row = rows.next();
                    total += row.get(BALANCE).orElseThrow().toLong();
                }
            }
        }
        return total;
    }
}
