package cedrat.persist.bench.bank;

import cedrat.persist.RwLock;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.StoreOptions.Durability;
import cedrat.persist.Transaction;
import java.nio.file.Path;
import java.util.stream.Stream;

/// Persistent Java objects, locked and changed as a program would; or a part of what that takes.
public final class Cedrat implements Engine {
    /// The stages of Table 1, each without something that the one before has.
    private enum Stage {
        COMPLETE("cedrat"),
        /// Commits are discarded.
        WITHOUT_STORE("cedrat:no-store"),
        /// Nothing is persistent: locks, and an undo log.
        IN_MEMORY("cedrat:memory"),
        /// No transaction: what the program itself does.
        PLAIN("cedrat:plain");

        final String engine;

        Stage(String engine) {
            this.engine = engine;
        }
    }

    private final Stage stage;

    /// All of it.
    public Cedrat() {
        this(Stage.COMPLETE);
    }

    private Cedrat(Stage stage) {
        this.stage = stage;
    }

    /// Its name, and the beginning of what [#of] takes.
    static final String NAME = Stage.COMPLETE.engine;

    /// The stage of this name.
    static Cedrat of(String name) {
        return Stream.of(Stage.values())
                .filter(stage -> stage.engine.equals(name))
                .map(Cedrat::new)
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("there is no stage " + name));
    }

    @Override
    public String name() {
        return stage.engine;
    }

    @Override
    public boolean isLasting() {
        return stage == Stage.COMPLETE;
    }

    @Override
    public Bank open(Path directory, boolean isDurable) {
        return switch (stage) {
            case COMPLETE -> new Persistent(Store.open(directory, options(isDurable)));
            case WITHOUT_STORE ->
                new Persistent(Store.open(new NoStore(), options(isDurable).loadedBytesMax(Long.MAX_VALUE)));
            case IN_MEMORY -> new InMemory(true);
            case PLAIN -> new InMemory(false);
        };
    }

    private static StoreOptions options(boolean isDurable) {
        return new StoreOptions().durability(isDurable ? Durability.SYNC : Durability.ASYNC);
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

    private static final class Persistent implements Bank {
        private static final String ROOT = "books";

        private final Store persistence;
        private final Row[] accounts;
        private final Row[] tellers;
        private final Branch[] branches;

        Persistent(Store persistence) {
            this.persistence = persistence;
            if (persistence.root(ROOT, Object.class) == null) {
                persistence.setRoot(ROOT, new Books());
            }
            Books books = persistence.root(ROOT, Books.class);
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
                branch.newest = line(branch.newest, transfer);
            });
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

    private static void add(Row row, long amount) {
        RwLock.acquireWrite(row);
        row.balance += amount;
    }

    private static Line line(Line older, Transfer transfer) {
        return new Line(older, transfer.amount(), System.currentTimeMillis(), transfer.account(), transfer.teller());
    }

    /// A bank in memory. Only the newest line of each branch's history is kept: all of it would fill memory.
    private static final class InMemory implements Bank {
        private final Books books = new Books();
        private final boolean hasTransactions;

        InMemory(boolean hasTransactions) {
            this.hasTransactions = hasTransactions;
        }

        @Override
        public void transact(Transfer transfer) {
            Row account = books.accounts[transfer.account()];
            Row teller = books.tellers[transfer.teller()];
            Branch branch = books.branches[transfer.branch()];
            if (hasTransactions) {
                Transaction.run(() -> {
                    add(account, transfer.amount());
                    add(teller, transfer.amount());
                    add(branch, transfer.amount());
                    branch.newest = line(null, transfer);
                });
            } else {
                account.balance += transfer.amount();
                teller.balance += transfer.amount();
                branch.balance += transfer.amount();
                branch.newest = line(null, transfer);
            }
        }

        @Override
        public Balances balances() {
            long sum = Books.sum(books.accounts);
            return new Balances(sum, Books.sum(books.tellers), Books.sum(books.branches), sum, 0);
        }

        @Override
        public void close() {}
    }
}
