package cedrat.persist.bench.bank;

import cedrat.persist.Persistence;
import cedrat.persist.PersistenceOptions;
import cedrat.persist.PersistenceOptions.Durability;
import cedrat.persist.RwLock;
import cedrat.persist.Transaction;
import java.nio.file.Path;

/// Persistent Java objects, locked and changed as a program would.
public final class Cedrat implements Engine {
    @Override
    public String name() {
        return "cedrat";
    }

    @Override
    public Bank open(Path directory, boolean isDurable) {
        return new Open(directory, isDurable);
    }

    private static class Row {
        long balance;
    }

    /// A branch, with its part of the history, the newest line first.
    private static final class Branch extends Row {
        Line newest;
    }

    private record Line(Line older, long amount, long time, int account, int teller) {}

    private static final class Books {
        final Row[] accounts = rows(new Row[Transfer.ACCOUNTS]);
        final Row[] tellers = rows(new Row[Transfer.TELLERS]);
        final Branch[] branches = new Branch[Transfer.BRANCHES];

        Books() {
            for (int row = 0; row < branches.length; row++) {
                branches[row] = new Branch();
            }
        }

        private static Row[] rows(Row[] rows) {
            for (int row = 0; row < rows.length; row++) {
                rows[row] = new Row();
            }
            return rows;
        }

        static long sum(Row[] rows) {
            long sum = 0;
            for (Row row : rows) {
                sum += row.balance;
            }
            return sum;
        }
    }

    private static final class Open implements Bank {
        private static final String ROOT = "books";

        private final Persistence persistence;
        private final Row[] accounts;
        private final Row[] tellers;
        private final Branch[] branches;
        private final Books books;

        Open(Path directory, boolean isDurable) {
            PersistenceOptions options =
                    new PersistenceOptions().durability(isDurable ? Durability.SYNC : Durability.ASYNC);
            persistence = Persistence.open(directory, options);
            if (persistence.lookup(ROOT) == null) {
                persistence.mark(ROOT, new Books());
            }
            books = persistence.lookup(ROOT);
            accounts = books.accounts;
            tellers = books.tellers;
            branches = books.branches;
        }

        @Override
        public void transact(Transfer transfer) {
            Row account = accounts[transfer.account()];
            Row teller = tellers[transfer.teller()];
            Branch branch = branches[transfer.branch()];
            Transaction.run(() -> {
                add(account, transfer.amount());
                add(teller, transfer.amount());
                add(branch, transfer.amount());
                long now = System.currentTimeMillis();
                branch.newest = new Line(branch.newest, transfer.amount(), now, transfer.account(), transfer.teller());
            });
        }

        private static void add(Row row, long amount) {
            RwLock.acquireWrite(row);
            row.balance += amount;
        }

        @Override
        public Balances balances() {
            long sum = 0;
            long recorded = 0;
            for (Branch branch : branches) {
                for (Line line = branch.newest; line != null; line = line.older) {
                    sum += line.amount;
                    recorded++;
                }
            }
            return new Balances(Books.sum(accounts), Books.sum(tellers), Books.sum(branches), sum, recorded);
        }

        @Override
        public void close() {
            persistence.close();
        }
    }
}
