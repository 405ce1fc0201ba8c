package cedrat.persist.bench.bank;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/// The ceiling: so many bytes for each transaction, written to the disk before it returns, and nothing else. The
/// file is preallocated, and written past the system's cache with `O_DSYNC`. Threads that come while a write is
/// under way share the next one.
///
/// Which way of waiting, and how many writes at a time are best depends on disk and processors, so there are
/// several, of which the figure takes the best.
public final class RawLog implements Engine {
    private static final int BLOCK = 4096;
    private static final int FILE_BLOCKS = 32 << 10;

    /// Its name, and the beginning of what [#of] takes.
    static final String NAME = "raw";

    private final int bytes;
    private final int writesMax;
    private final boolean isSpinning;

    private RawLog(int bytes, int writesMax, boolean isSpinning) {
        this.bytes = bytes;
        this.writesMax = writesMax;
        this.isSpinning = isSpinning;
    }

    /// One that is described by `raw:BYTES:WRITES:WAY`: so many bytes a transaction, so many writes under way at
    /// most; a waiting thread looks again and again (`spin`), or sleeps (`sleep`).
    static RawLog of(String description) {
        String[] parts = description.split(":");
        return new RawLog(Integer.parseInt(parts[1]), Integer.parseInt(parts[2]), parts[3].equals("spin"));
    }

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public Bank open(Path directory, boolean isDurable) throws IOException {
        return new Open(directory.resolve("log"));
    }

    /// Bytes of one write: its first block has the count and sum of all transfers up to it.
    private static final class Batch {
        long transfers;
        long sum;
        int count;
        volatile boolean isWritten;
        IOException problem;
    }

    private final class Open implements Bank {
        private final FileChannel file;
        private final ReentrantLock lock = new ReentrantLock();
        private final Condition written = lock.newCondition();
        private final ByteBuffer[] buffers = new ByteBuffer[writesMax];
        /// Read without the lock by spinning threads.
        private volatile int freeBuffers;
        private Batch gathering = new Batch();
        private long transfers;
        private long sum;
        private long nextBlock;

        Open(Path path) throws IOException {
            file = FileChannel.open(
                    path,
                    StandardOpenOption.READ,
                    StandardOpenOption.WRITE,
                    StandardOpenOption.CREATE,
                    StandardOpenOption.DSYNC,
                    pastTheCache());
            for (freeBuffers = 0; freeBuffers < writesMax; freeBuffers++) {
                buffers[freeBuffers] =
                        ByteBuffer.allocateDirect(64 * BLOCK + BLOCK).alignedSlice(BLOCK);
            }
            if (file.size() == 0) {
                ByteBuffer zeros = buffers[0].duplicate().limit(64 * BLOCK);
                for (long block = 0; block < FILE_BLOCKS; block += 64) {
                    file.write(zeros.rewind(), block * BLOCK);
                }
            } else {
                findNewest();
            }
        }

        /// Returns an option of the JDK about which javac warns, and the warning cannot be suppressed.
        private static OpenOption pastTheCache() throws IOException {
            try {
                return (OpenOption) Class.forName("com.sun.nio.file.ExtendedOpenOption")
                        .getField("DIRECT")
                        .get(null);
            } catch (ReflectiveOperationException e) {
                throw new IOException("this JDK cannot write past the system's cache", e);
            }
        }

        private void findNewest() throws IOException {
            ByteBuffer block = buffers[0].duplicate().limit(BLOCK);
            for (long at = 0; at < FILE_BLOCKS; at++) {
                file.read(block.rewind(), at * BLOCK);
                if (block.getLong(0) > transfers) {
                    transfers = block.getLong(0);
                    sum = block.getLong(Long.BYTES);
                }
            }
        }

        @Override
        public void transact(Transfer transfer) throws IOException {
            Batch mine;
            lock.lock();
            try {
                mine = gathering;
                mine.count++;
                mine.transfers = ++transfers;
                mine.sum = sum += transfer.amount();
                while (!mine.isWritten) {
                    if (mine == gathering && freeBuffers > 0) {
                        write();
                    } else if (isSpinning) {
                        spin(mine);
                    } else {
                        written.awaitUninterruptibly();
                    }
                }
            } finally {
                lock.unlock();
            }
            if (mine.problem != null) {
                throw mine.problem;
            }
        }

        private void spin(Batch mine) {
            lock.unlock();
            while (!mine.isWritten && freeBuffers == 0) {
                Thread.onSpinWait();
            }
            lock.lock();
        }

        /// Writes what has gathered, without the lock.
        private void write() {
            Batch batch = gathering;
            gathering = new Batch();
            ByteBuffer buffer = buffers[--freeBuffers];
            int blocks = Math.min(64, (batch.count * bytes + BLOCK - 1) / BLOCK);
            long block = nextBlock + blocks > FILE_BLOCKS ? 0 : nextBlock;
            nextBlock = block + blocks;
            lock.unlock();
            try {
                buffer.putLong(0, batch.transfers).putLong(Long.BYTES, batch.sum);
                file.write(buffer.position(0).limit(blocks * BLOCK), block * BLOCK);
            } catch (IOException e) {
                batch.problem = e;
            } finally {
                lock.lock();
                buffers[freeBuffers++] = buffer;
                batch.isWritten = true;
                written.signalAll();
            }
        }

        @Override
        public Balances balances() {
            return Balances.of(sum, transfers);
        }

        @Override
        public void close() throws IOException {
            file.close();
        }
    }
}
