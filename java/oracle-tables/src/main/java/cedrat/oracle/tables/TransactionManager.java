package cedrat.oracle.tables;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/// Begins transactions over the tables of a store, by the timestamps of an oracle.
///
/// ```java
/// Table accounts = tables.table("accounts");
/// TransactionManager manager = new TransactionManager(oracle, tables);
/// manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
///     long balance = transaction.get(accounts, row, BALANCE).orElseThrow().toLong();
///     transaction.put(accounts, row, BALANCE, Bytes.of(balance + 1));
///     return balance;
/// });
/// ```
///
/// It owns neither the client nor the store. The oracle's session is the client's: when the client is closed,
/// or dies, what it has open aborts.
///
/// Rows are cleaned in the background, soon after a commit has returned. [#close] waits for that. Without it, a program
/// that ends leaves the rows of its last transactions to a [Cleaner]; their values are visible all the same.
///
/// **Threads:** any may call.
public final class TransactionManager implements AutoCloseable {
    /// How transactions are run.
    public static final class Options {
        /// A hundred attempts, 1 ms to 1 s apart; threads of the manager clean up; the writes of a
        /// transaction have a buffer of 16 MiB.
        public static final Options DEFAULTS = new Options(
                100, Duration.ofMillis(1), Duration.ofSeconds(1), Optional.empty(), 16 << 20, Optional.empty());

        private final int attempts;
        private final Duration backOffMin;
        private final Duration backOffMax;
        private final Optional<Executor> cleanUp;
        private final long writeBufferBytes;
        private final Optional<Path> spillDirectory;

        /// All options; [#DEFAULTS] and the methods that change one are shorter.
        ///
        /// @param attempts largest number of attempts of [#runInTransaction]
        /// @param backOffMin largest wait before the second attempt; it doubles before each further one.
        ///     Each is random, so that two transactions in conflict do not meet again
        /// @param backOffMax upper bound of these waits
        /// @param cleanUp runs the clean-up of transactions, one task after each; empty for a few threads
        ///     of the manager. While rows wait for it, their readers ask the oracle. A task cleans up after all
        ///     transactions that wait, so with few threads many of them share a request to the store
        /// @param writeBufferBytes approximate number of bytes of writes that a transaction keeps in memory,
        ///     besides the row that it has written last; other writes are in a temporary file until the commit
        /// @param spillDirectory directory of the temporary files; empty for `java.io.tmpdir`
        public Options(
                int attempts,
                Duration backOffMin,
                Duration backOffMax,
                Optional<Executor> cleanUp,
                long writeBufferBytes,
                Optional<Path> spillDirectory) {
            this.attempts = attempts;
            this.backOffMin = backOffMin;
            this.backOffMax = backOffMax;
            this.cleanUp = Objects.requireNonNull(cleanUp);
            this.writeBufferBytes = writeBufferBytes;
            this.spillDirectory = Objects.requireNonNull(spillDirectory);
            if (writeBufferBytes < 0) {
                throw new IllegalArgumentException(
                        "invalid write buffer of " + writeBufferBytes + " bytes: choose 0 or more");
            }
            if (attempts < 1) {
                throw new IllegalArgumentException("invalid number of attempts " + attempts + ": choose 1 or more");
            }
            if (backOffMin.compareTo(Duration.ZERO) <= 0 || backOffMax.compareTo(backOffMin) < 0) {
                throw new IllegalArgumentException("invalid back-off between " + backOffMin + " and " + backOffMax
                        + ": choose a positive minimum and a maximum that is not below it");
            }
        }

        /// Returns the largest number of attempts.
        public int attempts() {
            return attempts;
        }

        /// Returns the longest wait before the second attempt.
        public Duration backOffMin() {
            return backOffMin;
        }

        /// Returns the longest wait before any attempt.
        public Duration backOffMax() {
            return backOffMax;
        }

        /// Returns what runs clean-ups; empty for threads of the manager.
        public Optional<Executor> cleanUp() {
            return cleanUp;
        }

        /// Returns the number of bytes of writes that a transaction keeps in memory.
        public long writeBufferBytes() {
            return writeBufferBytes;
        }

        /// Returns the directory of temporary files; empty for `java.io.tmpdir`.
        public Optional<Path> spillDirectory() {
            return spillDirectory;
        }

        /// The same, with another number of attempts.
        public Options withAttempts(int other) {
            return new Options(other, backOffMin, backOffMax, cleanUp, writeBufferBytes, spillDirectory);
        }

        /// The same, with other waits.
        public Options withBackOff(Duration min, Duration max) {
            return new Options(attempts, min, max, cleanUp, writeBufferBytes, spillDirectory);
        }

        /// The same, with another way to clean up: `Runnable::run` for the thread that commits.
        public Options withCleanUp(Executor executor) {
            return new Options(
                    attempts, backOffMin, backOffMax, Optional.of(executor), writeBufferBytes, spillDirectory);
        }

        /// The same, with another write buffer: [Long#MAX_VALUE] for transactions that keep all writes in memory.
        public Options withWriteBufferBytes(long max) {
            return new Options(attempts, backOffMin, backOffMax, cleanUp, max, spillDirectory);
        }

        /// The same, with temporary files in another directory, which must exist.
        public Options withSpillDirectory(Path directory) {
            return new Options(attempts, backOffMin, backOffMax, cleanUp, writeBufferBytes, Optional.of(directory));
        }

        @Override
        public boolean equals(Object other) {
            if (!(other instanceof Options)) {
                return false;
            }
            Options options = (Options) other;
            return attempts == options.attempts
                    && backOffMin.equals(options.backOffMin)
                    && backOffMax.equals(options.backOffMax)
                    && cleanUp.equals(options.cleanUp)
                    && writeBufferBytes == options.writeBufferBytes
                    && spillDirectory.equals(options.spillDirectory);
        }

        @Override
        public int hashCode() {
            return Objects.hash(attempts, backOffMin, backOffMax, cleanUp, writeBufferBytes, spillDirectory);
        }

        @Override
        public String toString() {
            return "Options[attempts=" + attempts + ", backOffMin=" + backOffMin + ", backOffMax=" + backOffMax
                    + ", cleanUp=" + cleanUp + ", writeBufferBytes=" + writeBufferBytes + ", spillDirectory="
                    + spillDirectory + "]";
        }
    }

    /// Body of a transaction.
    @FunctionalInterface
    public interface Work<T> {
        /// Reads and writes. Run again after an abort: should touch nothing but the transaction, and keep
        /// nothing of what it has read.
        T run(Transaction transaction);
    }

    private final OracleClient oracle;
    private final Tables tables;
    private final Options options;
    private final Fault fault;
    private final CleanUps cleanUps;
    private final CleanUpQueue queue;
    private final AtomicLong cleanUpsFailed = new AtomicLong();
    /// Whether the oracle knows that this client writes rows of the namespace.
    private volatile boolean usesNamespace;

    /// With [Options#DEFAULTS].
    public TransactionManager(OracleClient oracle, Tables tables) {
        this(oracle, tables, Options.DEFAULTS);
    }

    /// With other options.
    public TransactionManager(OracleClient oracle, Tables tables, Options options) {
        this(oracle, tables, options, Fault.NONE);
    }

    TransactionManager(OracleClient oracle, Tables tables, Options options, Fault fault) {
        this(oracle, tables, options, new CleanUps(oracle, tables, CleanUps.Timer.BACKGROUND, System::nanoTime), fault);
    }

    TransactionManager(OracleClient oracle, Tables tables, Options options, CleanUps cleanUps, Fault fault) {
        this.oracle = Objects.requireNonNull(oracle);
        this.tables = Objects.requireNonNull(tables);
        this.options = Objects.requireNonNull(options);
        this.cleanUps = cleanUps;
        this.fault = fault;
        queue = new CleanUpQueue(oracle, tables, cleanUps, options.cleanUp(), this::later, fault);
    }

    /// Begins a transaction. Who begins it ends it, or [Transaction#close]s it: while one is open, no version
    /// that it could read is pruned.
    ///
    /// @throws OracleException if the oracle does not answer
    /// @throws TableException if the tables belong to another oracle ([Tables#bind])
    public Transaction begin(Isolation isolation) {
        if (!usesNamespace && fault != Fault.FORGET_NAMESPACES) {
            oracle.identity().filter(known -> fault != Fault.IGNORE_BINDING).ifPresent(tables::bind);
            if (tables.isVolatile()) { // twice does no harm
                oracle.useWhileOpen(tables.namespace());
            } else {
                oracle.use(tables.namespace());
            }
            usesNamespace = true;
        }
        return new Transaction(this, oracle.begin(), Objects.requireNonNull(isolation));
    }

    /// Runs `work` in a transaction, commits, and returns its result; runs it again if the transaction has
    /// aborted.
    ///
    /// **Promise:** when this returns, the transaction has committed, and every transaction that begins later sees
    /// it. When `work` throws, the transaction has aborted. `work` may itself end the transaction: if it commits,
    /// nothing more happens; if it aborts, its result is returned.
    ///
    /// @throws AbortedException after [Options#attempts], or when interrupted in between; nothing was kept, and a
    ///     later call may succeed
    /// @throws OutcomeUnknownException as [Transaction#commit]: it is not run again, for it may have committed
    /// @throws TableException if the store fails; the transaction has aborted
    /// @throws OracleException if the oracle does not answer; the transaction has aborted, or will
    public <T> T runInTransaction(Isolation isolation, Work<T> work) {
        for (int attempt = 1; ; attempt++) {
            try (Transaction transaction = begin(isolation)) {
                T result = work.run(transaction);
                if (transaction.state() == Transaction.State.OPEN) {
                    transaction.commit();
                }
                return result;
            } catch (AbortedException again) {
                if (attempt >= options.attempts()) {
                    throw new AbortedException(
                            "the transaction was aborted in each of " + attempt + " attempts, in the last one because: "
                                    + again.getMessage(),
                            again);
                }
                backOff(attempt, again);
            }
        }
    }

    private void backOff(int attempt, AbortedException last) {
        long min = options.backOffMin().toNanos();
        long doubled = min << Math.min(attempt - 1, 30);
        long bound = doubled < min ? Long.MAX_VALUE : doubled;
        try {
            TimeUnit.NANOSECONDS.sleep(ThreadLocalRandom.current()
                    .nextLong(1 + Math.min(bound, options.backOffMax().toNanos())));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new AbortedException(
                    "the thread was interrupted before the next attempt of an aborted transaction", last);
        }
    }

    /// Returns the number of clean-ups that were given up, as too many wait to be tried again: their rows are left to
    /// a [Cleaner], and the oracle keeps the outcomes of these transactions as long as the client lives.
    public long cleanUpsFailed() {
        return cleanUpsFailed.get();
    }

    /// Returns the number of clean-ups that have failed, or wait until no write of theirs can arrive any more, and
    /// will be tried again.
    public int cleanUpsPending() {
        return cleanUps.count();
    }

    /// Cleans up after the transactions that have ended, as far as the store and the oracle let it; what fails is not
    /// tried again. To be called before the client and the store are closed. The manager remains usable.
    ///
    /// When the thread is interrupted, it returns at once, and stays interrupted.
    @Override
    public void close() {
        try {
            queue.drain();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    OracleClient oracle() {
        return oracle;
    }

    Options options() {
        return options;
    }

    Fault fault() {
        return fault;
    }

    Calls calls() {
        return cleanUps.calls();
    }

    int callsMax() {
        return tables.callsMax();
    }

    /// Cleans up, now or later. The transaction has its outcome already, and keeps it whatever happens here. A clean-up
    /// for which no thread had time soon waits until the oracle has confirmed that it was not restored (O6j).
    void cleanUp(CleanUp ended) {
        queue.add(ended);
    }

    /// Tries a clean-up later, and again until it succeeds.
    void later(CleanUp left) {
        if (!cleanUps.add(left)) {
            cleanUpsFailed.incrementAndGet();
        }
    }

    /// The time by the clock that delays clean-ups.
    long nowNanos() {
        return cleanUps.nowNanos();
    }
}
