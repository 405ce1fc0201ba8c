package cedrat.oracle.log.embedded;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.LogAbsentException;
import cedrat.oracle.log.LogExistsException;
import cedrat.oracle.log.OpenMode;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Objects;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/// A log in a directory of this machine, kept by libcedrat within this process: no other service is needed.
///
/// An acknowledged entry survives the end of this process and of the machine's power; not the loss of its
/// disk. A file lock keeps L4: who opens a directory that is open elsewhere is refused, and the system lets
/// the lock go when its holder ends, however it ends.
///
/// Entries go through a queue to one thread. It takes all that wait, appends them to the native log, forces
/// the last one, and acknowledges them together: the more are under way, the more share a write. A short
/// entry that comes when none is under way is written by who appends it: whatever that thread could do
/// meanwhile is less than what waking two others takes.
public final class EmbeddedLog implements Log {
    /// Place and size of the log.
    ///
    /// @param directory its own directory
    /// @param limitBytes its size on disk, of which about three quarters hold entries; 0: 1 GiB. When entries
    ///     do not fit the log fails. So it should be twice the size that is kept at a time, and
    ///     [EmbeddedLog#forgetBefore] be called
    /// @param segmentBytes the length of one of its files, a multiple of 4,096; space is freed by whole files;
    ///     0: 16 MiB. A log keeps the length that it was created with
    /// @param mode whether it has to exist
    public record Options(Path directory, long limitBytes, long segmentBytes, OpenMode mode) {
        /// Checked.
        public Options {
            Objects.requireNonNull(directory);
            Objects.requireNonNull(mode);
            if (limitBytes < 0 || segmentBytes < 0) {
                throw new IllegalArgumentException("a length of the log is negative");
            }
        }

        /// In this directory, all else by default. The log is created if it does not exist.
        public Options(Path directory) {
            this(directory, 0, 0);
        }

        /// A log that is created if it does not exist.
        public Options(Path directory, long limitBytes, long segmentBytes) {
            this(directory, limitBytes, segmentBytes, OpenMode.CREATE);
        }

        /// The same, with another mode.
        public Options withMode(OpenMode other) {
            return new Options(directory, limitBytes, segmentBytes, other);
        }

        /// For a log that is cut to about so many bytes: with room for what comes between two cuts, and for
        /// snapshots as long as all the rest, in files that are short enough to go one by one.
        public static Options keeping(Path directory, long bytes) {
            long segment = Math.clamp(Long.highestOneBit(bytes) / SEGMENTS_KEPT, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
            return new Options(directory, LIMIT_FACTOR * bytes, segment);
        }

        private static final long LIMIT_FACTOR = 4;
        private static final long SEGMENTS_KEPT = 16;
        private static final long SEGMENT_BYTES_MIN = 64 << 10;
        private static final long SEGMENT_BYTES_MAX = 16 << 20;
    }

    /// Largest number of bytes that are appended before they are forced, for they wait in memory.
    private static final long BATCH_BYTES_MAX = 8 << 20;

    /// The log thread looks so often for an entry before it lets the processor go.
    private static final int LOOKS_BEFORE_SLEEPING = 200;

    /// The place of an entry is remembered each time that so many bytes were written, at most: nearer ones
    /// lie in the same segments.
    private static final long MARK_BYTES_MAX = 1 << 20;

    /// Each write fills a block of the log.
    private static final long BLOCK_BYTES = 4096;

    /// Entries up to this length are written at once, if none is under way. Longer ones come of many
    /// requests, and where there are many, others can be decided while these are written.
    private static final int AT_ONCE_BYTES_MAX = 2048;

    private enum State {
        FRESH,
        OPEN,
        CLOSED
    }

    /// Entries up to this number have LSNs up to this one.
    private record Mark(long number, long lsn) {}

    private final Options options;
    private final EntryQueue queue = new EntryQueue();
    private State state = State.FRESH;
    private Thread persisting;
    private NativeLog log;
    private Listener listener;
    /// The number of the newest entry. Written by the thread that appends.
    private volatile long numbered;

    private volatile boolean asleep;
    private volatile boolean closing;
    private volatile long forgetBefore;

    // Guarded by this lock, which the log thread or an appending thread holds.
    private final ReentrantLock writing = new ReentrantLock();
    private final MemorySegment atOnce = Arena.ofAuto().allocate(AT_ONCE_BYTES_MAX);
    private final ArrayDeque<Mark> marks = new ArrayDeque<>();
    private final long markBytes;
    private long markedBytes;
    private long lastLsn;
    /// Written, as the next one, by who holds it.
    private volatile long acknowledged;
    private volatile boolean failed;

    /// Written by the log thread.
    private long heeded;

    /// A fresh one.
    public EmbeddedLog(Options options) {
        this.options = Objects.requireNonNull(options);
        markBytes = options.segmentBytes() == 0 ? MARK_BYTES_MAX : Math.min(MARK_BYTES_MAX, options.segmentBytes() / 4);
    }

    @Override
    public void open(Replay replay, Listener listener) throws IOException, DamagedEntryException {
        Objects.requireNonNull(replay);
        this.listener = Objects.requireNonNull(listener);
        if (state != State.FRESH) {
            throw new IllegalStateException("cannot open a log twice: make another instance");
        }
        state = State.CLOSED; // of no use, unless all goes well
        NativeLog opened = NativeLog.open(Library.load(), options);
        try {
            opened.<DamagedEntryException>read((bytes, length, lsn) -> {
                replay.entry(bytes, 0, length);
                lastLsn = lsn;
                numbered++;
                mark(numbered, length);
            });
            checkMode();
        } catch (DamagedEntryException damaged) {
            try (opened) {
                throw damaged.in("the log in " + options.directory());
            }
        } catch (Throwable problem) {
            try (opened) {
                throw problem;
            }
        }
        log = opened;
        acknowledged = numbered;
        if (numbered > 0) {
            marks.add(new Mark(numbered, lastLsn));
        }
        persisting = Thread.ofPlatform().name("oracle-log").daemon().unstarted(this::persist);
        state = State.OPEN;
        persisting.start();
    }

    private void checkMode() throws IOException {
        if (options.mode() == OpenMode.EXISTING && numbered == 0) {
            throw new LogAbsentException("in " + options.directory(), false);
        }
        if (options.mode() == OpenMode.CREATE_NEW && numbered > 0) {
            throw new LogExistsException("in " + options.directory());
        }
    }

    /// While one write is under way, the entries of the next one gather.
    @Override
    public Kind kind() {
        return Kind.EMBEDDED;
    }

    @Override
    public int appendsMax() {
        return 2;
    }

    @Override
    public long append(byte[] bytes, int from, int length) {
        if (state != State.OPEN) {
            throw new IllegalStateException("the log is not open");
        }
        Objects.checkFromIndexSize(from, length, bytes.length);
        Log.checkLength(length);
        long number = numbered + 1;
        if (failed) {
            numbered = number;
        } else if (length > AT_ONCE_BYTES_MAX || acknowledged < numbered || !writing.tryLock()) {
            queue.put(bytes, from, length);
            numbered = number;
            wake();
        } else {
            numbered = number;
            appendAtOnce(bytes, from, length);
        }
        return number;
    }

    private void appendAtOnce(byte[] bytes, int from, int length) {
        try {
            MemorySegment.copy(bytes, from, atOnce, ValueLayout.JAVA_BYTE, 0, length);
            lastLsn = log.append(atOnce.asSlice(0, length));
            force(numbered, length);
        } catch (Throwable problem) {
            fail(problem);
        } finally {
            writing.unlock();
        }
    }

    /// Room comes back by whole segments.
    @Override
    public void forgetBefore(long number) {
        if (state != State.OPEN) {
            throw new IllegalStateException("the log is not open");
        }
        if (number > acknowledged) {
            throw new IllegalArgumentException(
                    "cannot truncate the log before entry " + number + ", which is not acknowledged");
        }
        if (number > forgetBefore) {
            forgetBefore = number;
            wake();
        }
    }

    /// Entries and wishes are seen by the log thread before it sleeps, or it is seen asleep here.
    private void wake() {
        VarHandle.fullFence();
        if (asleep) {
            LockSupport.unpark(persisting);
        }
    }

    private void persist() {
        while (sleepUntilAsked()) {
            writing.lock();
            try {
                if (failed) {
                    return;
                }
                persistWhatWaits();
                forget();
            } catch (Throwable problem) {
                fail(problem);
            } finally {
                writing.unlock();
            }
        }
    }

    /// L3.
    private void fail(Throwable problem) {
        failed = true;
        listener.failed(
                problem instanceof Exception expected
                        ? expected
                        : new IOException("cannot write the log: " + problem.getMessage(), problem));
    }

    /// Returns when there is something to do; `false` when the log is closed and there is not.
    private boolean sleepUntilAsked() {
        for (int looks = 0; !isAsked(); looks++) {
            if (closing && queue.isEmpty()) {
                return false;
            }
            if (looks < LOOKS_BEFORE_SLEEPING) {
                Thread.onSpinWait();
                continue;
            }
            asleep = true;
            if (!isAsked() && !closing) {
                LockSupport.park(this);
            }
            asleep = false;
        }
        return true;
    }

    private boolean isAsked() {
        return !queue.isEmpty() || forgetBefore > heeded;
    }

    /// Appends the entries that wait, forces the last one, and then acknowledges them together.
    private void persistWhatWaits() throws IOException {
        long number = acknowledged;
        long bytes = 0;
        for (MemorySegment entry; bytes < BATCH_BYTES_MAX && (entry = queue.take()) != null; number++) {
            lastLsn = log.append(entry);
            bytes += entry.byteSize();
        }
        if (number == acknowledged) {
            return;
        }
        force(number, bytes);
    }

    /// Makes these appended bytes durable, up to this entry, and acknowledges them.
    private void force(long number, long bytes) throws IOException {
        log.force(lastLsn);
        acknowledged = number;
        listener.acknowledged(number);
        mark(number, bytes);
    }

    /// Records that these bytes were written up to this entry, the last one.
    private void mark(long number, long bytes) {
        markedBytes += bytes + BLOCK_BYTES;
        if (markedBytes >= markBytes) {
            marks.add(new Mark(number, lastLsn));
            markedBytes = 0;
        }
    }

    /// Gives up what is not wanted any more, as far as marks tell where it ends. Those that are made later
    /// lie behind it.
    private void forget() throws IOException {
        long before = forgetBefore;
        Mark newest = null;
        while (!marks.isEmpty() && marks.peek().number() < before) {
            newest = marks.remove();
        }
        if (newest != null) {
            log.truncate(newest.lsn());
        }
        heeded = before;
    }

    @Override
    public void close() throws IOException {
        if (state != State.OPEN) {
            state = State.CLOSED;
            return;
        }
        state = State.CLOSED;
        closing = true;
        wake();
        boolean interrupted = false;
        while (persisting.isAlive()) {
            try {
                persisting.join();
            } catch (InterruptedException later) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        log.close();
    }
}
