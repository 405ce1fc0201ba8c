package cedrat.persist.bench.peers;

import cedrat.persist.bench.bank.Balances;
import cedrat.persist.bench.bank.Engine;
import cedrat.persist.bench.bank.Transfer;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.concurrent.locks.ReentrantLock;
import org.eclipse.serializer.persistence.types.Storer;
import org.eclipse.store.afs.nio.types.NioFileSystem;
import org.eclipse.store.afs.nio.types.NioFileWrapper;
import org.eclipse.store.afs.nio.types.NioIoHandler;
import org.eclipse.store.storage.embedded.types.EmbeddedStorage;
import org.eclipse.store.storage.embedded.types.EmbeddedStorageManager;
import org.eclipse.store.storage.types.Storage;
import org.eclipse.store.storage.types.StorageLiveFileProvider;

/// EclipseStore: a graph of plain Java objects. It isolates no threads, so a lock does, and it never forces its
/// files; to be durable, each write is forced here.
public final class EclipseStore implements Engine {
    @Override
    public String name() {
        return "eclipsestore";
    }

    @Override
    public Bank open(Path directory, boolean isDurable) {
        return new Open(directory, isDurable);
    }

    private static final class Row {
        long balance;
    }

    private record Line(Line older, long amount, long time, int account, int teller, int branch) {}

    private static final class Books {
        final Row[] accounts = rows(Transfer.ACCOUNTS);
        final Row[] tellers = rows(Transfer.TELLERS);
        final Row[] branches = rows(Transfer.BRANCHES);
        Line newest;

        private static Row[] rows(int count) {
            Row[] rows = new Row[count];
            for (int row = 0; row < count; row++) {
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
        private final ReentrantLock lock = new ReentrantLock();
        private final EmbeddedStorageManager storage;
        private final Books books;

        Open(Path directory, boolean isDurable) {
            NioFileSystem files = NioFileSystem.New(isDurable ? forcing(NioIoHandler.New()) : NioIoHandler.New());
            StorageLiveFileProvider provider = Storage.FileProviderBuilder(files)
                    .setDirectory(files.ensureDirectoryPath(directory.toString()))
                    .createFileProvider();
            storage = EmbeddedStorage.start(Storage.ConfigurationBuilder()
                    .setStorageFileProvider(provider)
                    .createConfiguration());
            if (storage.root() == null) {
                storage.setRoot(new Books());
                storage.storeRoot();
            }
            books = (Books) storage.root();
        }

        private static NioIoHandler forcing(NioIoHandler files) {
            return (NioIoHandler) Proxy.newProxyInstance(
                    EclipseStore.class.getClassLoader(),
                    new Class<?>[] {NioIoHandler.class},
                    (proxy, method, arguments) -> {
                        try {
                            Object result = method.invoke(files, arguments);
                            if (method.getName().equals("writeBytes")) {
                                ((NioFileWrapper) arguments[0]).fileChannel().force(false);
                            }
                            return result;
                        } catch (InvocationTargetException e) {
                            throw e.getCause();
                        }
                    });
        }

        @Override
        public void transact(Transfer transfer) {
            lock.lock();
            try {
                Row account = books.accounts[transfer.account()];
                Row teller = books.tellers[transfer.teller()];
                Row branch = books.branches[transfer.branch()];
                account.balance += transfer.amount();
                teller.balance += transfer.amount();
                branch.balance += transfer.amount();
                books.newest = new Line(
                        books.newest,
                        transfer.amount(),
                        System.currentTimeMillis(),
                        transfer.account(),
                        transfer.teller(),
                        transfer.branch());
                Storer storer = storage.createStorer();
                storer.store(account);
                storer.store(teller);
                storer.store(branch);
                storer.store(books);
                storer.commit();
            } finally {
                lock.unlock();
            }
        }

        @Override
        public Balances balances() {
            long sum = 0;
            long recorded = 0;
            for (Line line = books.newest; line != null; line = line.older) {
                sum += line.amount;
                recorded++;
            }
            return new Balances(
                    Books.sum(books.accounts), Books.sum(books.tellers), Books.sum(books.branches), sum, recorded);
        }

        @Override
        public void close() {
            storage.shutdown();
        }
    }
}
