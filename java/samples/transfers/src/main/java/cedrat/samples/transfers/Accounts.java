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
    /// The number of the last transfer. No two have the same: it is when the transaction began.
    private static final Column LAST = Column.of(FAMILY, "last");

    private static final long FIRST_BALANCE = 1000;

    private final Table current;
    private final Table savings;
    private final int count;
    private final Witness witness;

    /// Opens this number of accounts in each table.
    Accounts(Tables tables, int count, Witness witness) {
        this.witness = witness;
        current = tables.table(CURRENT);
        savings = tables.table(SAVINGS);
        this.count = count;
    }

    /// All begin with as much; what was there before is gone.
    void open(TransactionManager manager) {
        run(manager, transaction -> {
            for (Table table : List.of(current, savings)) {
                try (Rows rows = transaction.scan(table, Scan.ALL)) {
                    rows.forEachRemaining(row -> transaction.delete(table, row.key()));
                }
                for (int account = 0; account < count; account++) {
                    put(transaction, table, Bytes.of(account), FIRST_BALANCE);
                }
            }
            return null;
        });
    }

    private <T> T run(TransactionManager manager, TransactionManager.Work<T> work) {
        witness.begins();
        T result = manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            witness.tries();
            return work.run(transaction);
        });
        witness.commits();
        return result;
    }

    /// Moves some money from somewhere in one table to somewhere in the other.
    void transferSome(TransactionManager manager, SplittableRandom random) {
        boolean isSaving = random.nextBoolean();
        Bytes payer = Bytes.of(random.nextLong(count));
        Bytes payee = Bytes.of(random.nextLong(count));
        long amount = 1 + random.nextLong(100);
        run(manager, transaction -> {
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
    private void transfer(Transaction transaction, Table from, Bytes payer, Table to, Bytes payee, long amount) {
        long there = balance(transaction, from, payer);
        if (there >= amount) {
            long here = balance(transaction, to, payee);
            put(transaction, from, payer, there - amount);
            put(transaction, to, payee, here + amount);
        }
    }

    private void put(Transaction transaction, Table table, Bytes account, long balance) {
        long transfer = transaction.start().value();
        transaction.put(table, account, BALANCE, Bytes.of(balance));
        transaction.put(table, account, LAST, Bytes.of(transfer));
        witness.changes(name(table, account), transfer);
    }

    private long balance(Transaction transaction, Table table, Bytes account) {
        return balance(table, transaction.get(table, account));
    }

    private long balance(Table table, Row account) {
        witness.sees(name(table, account.key()), account.get(LAST).orElseThrow().toLong());
        return account.get(BALANCE).orElseThrow().toLong();
    }

    private static String name(Table table, Bytes account) {
        return table.name() + "/" + account.toLong();
    }

    /// Whether all balances of both tables, at one moment, are what they were in the beginning.
    boolean isTotalRight(TransactionManager manager) {
        return run(manager, this::total) == 2 * FIRST_BALANCE * count;
    }

    private long total(Transaction transaction) {
        long total = 0;
        for (Table table : List.of(current, savings)) {
            try (Rows rows = transaction.scan(table, Scan.ALL)) {
                while (rows.hasNext()) {
                    total += balance(table, rows.next());
                }
            }
        }
        return total;
    }
}
