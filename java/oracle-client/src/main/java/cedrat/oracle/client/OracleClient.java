package cedrat.oracle.client;

import cedrat.oracle.client.Outcome.Visibility;
import cedrat.oracle.protocol.CommitKeys;
import cedrat.oracle.protocol.Protocol;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/// A client of a status oracle: one session, any number of transactions at a time.
///
/// ```java
/// try (OracleClient oracle = OracleClient.open(ClientOptions.of(address))) {
///     StartTimestamp start = oracle.begin();
///     // … read what was committed before `start`, write rows as versions of `start` …
///     Outcome outcome = oracle.commit(start, rows);
///     if (outcome.kind() == Outcome.Kind.ABORTED) {
///         …  // clean up, perhaps run it again
///     }
/// }
/// ```
///
/// Each request is there twice: waiting for the answer, and as a future. A connection that is lost is made
/// anew, and what was not answered is asked again; a commit means the same the second time.
///
/// **Threads:** any may call. Futures complete on the client's own thread: what depends on them must not
/// block there, nor may the waiting methods be called there.
///
/// **Failure:** futures fail, and waiting methods throw, [UnavailableException] when no answer has come for
/// as long as the client has patience: nothing is known then, and [#resolve] tells. [RefusedException] means
/// that nothing was done. [ClientClosedException]: the client is of no use any more, because it was closed, or
/// because a server has refused it: the address leads to another oracle now ([#identity]), or the oracle was
/// restored from a backup, for example. What the client knew of transactions may then not hold any more.
public final class OracleClient implements AutoCloseable {
    private final ClientOptions options;
    private final ClientThreads threads = new ClientThreads(1);
    private final Pipeline<Call<?>> pipeline;

    /// A client; it connects meanwhile.
    ///
    /// @throws UncheckedIOException if a file of [ClientOptions#tls] cannot be used
    public static OracleClient open(ClientOptions options) {
        return new OracleClient(options);
    }

    private OracleClient(ClientOptions options) {
        this.options = options;
        try {
            pipeline = threads.open(options, new Completions());
        } catch (UncheckedIOException problem) {
            threads.close();
            throw problem;
        }
    }

    // ---- waiting ----------------------------------------------------------------------------------------------------

    /// Begins a transaction.
    public StartTimestamp begin() {
        return await(beginAsync());
    }

    /// Commits a transaction that has written these rows: committed or aborted. One that
    /// has written nothing ends, and its commit timestamp is its start timestamp.
    public Outcome commit(StartTimestamp start, long... rows) {
        return await(commitAsync(start, rows));
    }

    /// Commits a transaction that is to be serialisable: it aborts too if a row that it has read was
    /// committed since it began.
    public Outcome commitSerialisable(StartTimestamp start, long[] writes, long[] reads) {
        return await(commitSerialisableAsync(start, writes, reads));
    }

    /// Commits a transaction that has also written these keys, of tables whose scans are checked, and has
    /// scanned these ranges of them, if it is to be serialisable: it aborts too if a key in such a range was
    /// written since it began.
    public Outcome commit(StartTimestamp start, long[] writes, long[] reads, CommitKeys keys) {
        return await(commitAsync(start, writes, reads, keys));
    }

    /// Checks whether one commit can contain these rows, before they are written. Sends no request: the limit is
    /// that of the last connected server.
    ///
    /// @param rows number of rows, written and read together
    /// @param keyBytes number of bytes of keys, as [CommitKeys#length]
    /// @throws RefusedException if the rows or keys are too many
    public void requireCommittable(long rows, long keyBytes) {
        RequestLimits.checkCommit(rows, keyBytes, pipeline.known.rowsMax());
    }

    /// Aborts a transaction: aborted, but committed if it was too late.
    public Outcome abort(StartTimestamp start) {
        return await(abortAsync(start));
    }

    /// Ends a transaction that has written nothing.
    public Outcome end(StartTimestamp start) {
        return await(endAsync(start));
    }

    /// Decides any transaction whose client may be dead: it has committed, or it aborts now.
    public Outcome resolve(StartTimestamp start) {
        return await(resolveAsync(start));
    }

    /// Returns the outcomes of transactions, in their order.
    public List<Outcome> status(StartTimestamp reader, List<StartTimestamp> writers) {
        return await(statusAsync(reader, writers));
    }

    /// Whether the transaction that began at `writer` had committed when the one that began at `reader` did.
    public Visibility isCommitted(StartTimestamp reader, StartTimestamp writer) {
        return status(reader, List.of(writer)).get(0).visibleTo(reader);
    }

    /// Reports that no reader will meet rows of these transactions and request their outcomes: all their versions
    /// have been stamped or removed, and no write of theirs is in flight. Returns the number of transactions that
    /// the oracle has forgotten.
    public long cleaned(List<StartTimestamp> starts) {
        return await(cleanedAsync(starts));
    }

    /// Reports the same of one transaction, and waits for no answer: the report goes with the client's next
    /// requests, and again after a reconnection, until a server has received it. If the client is closed before, a
    /// sweep makes the oracle forget the transaction.
    public void cleanedLater(StartTimestamp start) {
        try {
            pipeline.execute(() -> {
                try {
                    pipeline.cleaned(start.value());
                } catch (OracleException closed) {
                    // a sweep
                }
            });
        } catch (RejectedExecutionException ended) {
            // a sweep
        }
    }

    /// Registers a namespace, a set of rows that are swept together. Call it before the first commit of a
    /// row of the namespace: otherwise a sweep of another namespace makes the oracle forget outcomes that
    /// these rows still need. Clients that register none share namespace 0. The oracle remembers namespaces
    /// durably, at most 1,024.
    public void use(long namespace) {
        await(ofNamespace(namespace, 0));
    }

    /// As [#use], of a namespace whose rows end with the clients that use it: the oracle forgets it with the last of
    /// their sessions.
    public void useWhileOpen(long namespace) {
        await(ofNamespace(namespace, Protocol.FLAG_VOLATILE));
    }

    /// Retires a namespace whose tables are dropped, or have moved to another one: the oracle awaits no sweep of it any
    /// more. Outcomes that its rows still need may be forgotten.
    public void retire(long namespace) {
        await(ofNamespace(namespace, Protocol.FLAG_RETIRED));
    }

    /// Reports that a sweep has visited all tables of a namespace, and has cleaned all rows of transactions that had
    /// ended. The sweep began after `mark` was given out (by a [#begin] of its own, for example), and after the
    /// last moment at which a write of a client whose session had expired by then could arrive. Returns the
    /// number of transactions that the oracle has forgotten: those of such sessions, if all other
    /// namespaces were swept since, too.
    public long swept(long namespace, StartTimestamp mark) {
        return await(sweptAsync(namespace, mark));
    }

    /// Returns the low-water mark: no open transaction has a lower start timestamp, nor will one have that
    /// begins later. For pruners: from now on the oracle assumes that older snapshots were pruned.
    public StartTimestamp lowWaterMark() {
        return await(lowWaterMarkAsync());
    }

    /// Returns the identity of the oracle; empty if its server speaks a version of the protocol without identities. The
    /// client keeps it: a server of another oracle refuses the client, which is then closed.
    public Optional<OracleIdentity> identity() {
        long identity = await(ask(new Call<Long>() {
            @Override
            void ask() {
                pipeline.identity(this);
            }
        }));
        return identity == Protocol.IDENTITY_NONE ? Optional.empty() : Optional.of(new OracleIdentity(identity));
    }

    /// Waits until a server of the oracle answers that was not restored from a backup since this client has reached it
    /// first: what the client knows of transactions holds. For programs that act on an earlier outcome, such as
    /// repeated clean-ups.
    ///
    /// @throws ClientClosedException if the oracle was restored: the client knows outcomes that may no longer hold
    public void confirm() {
        identity();
    }

    // ---- futures ----------------------------------------------------------------------------------------------------

    /// As [#begin]. A transaction whose future was cancelled, or has timed out, is ended.
    public CompletableFuture<StartTimestamp> beginAsync() {
        return ask(new Call<StartTimestamp>() {
            @Override
            void ask() {
                pipeline.begin(this);
            }
        });
    }

    /// As [#commit].
    public CompletableFuture<Outcome> commitAsync(StartTimestamp start, long... rows) {
        return commitSerialisableAsync(start, rows, new long[0]);
    }

    /// As [#commitSerialisable].
    public CompletableFuture<Outcome> commitSerialisableAsync(StartTimestamp start, long[] writes, long[] reads) {
        return commitAsync(start, writes, reads, new CommitKeys());
    }

    /// As [#commit(StartTimestamp, long\[\], long\[\], CommitKeys)]; the keys are the client's from now on.
    public CompletableFuture<Outcome> commitAsync(StartTimestamp start, long[] writes, long[] reads, CommitKeys keys) {
        long[] written = writes.clone();
        long[] read = reads.clone();
        return ask(new Call<Outcome>() {
            @Override
            void ask() {
                pipeline.commit(this, start.value(), written, written.length, read, read.length, keys);
            }
        });
    }

    /// As [#abort].
    public CompletableFuture<Outcome> abortAsync(StartTimestamp start) {
        return ask(new Call<Outcome>() {
            @Override
            void ask() {
                pipeline.abort(this, start.value());
            }
        });
    }

    /// As [#end].
    public CompletableFuture<Outcome> endAsync(StartTimestamp start) {
        return ask(new Call<Outcome>() {
            @Override
            void ask() {
                pipeline.end(this, start.value());
            }
        });
    }

    /// As [#resolve].
    public CompletableFuture<Outcome> resolveAsync(StartTimestamp start) {
        return ask(new Call<Outcome>() {
            @Override
            void ask() {
                pipeline.resolve(this, start.value());
            }
        });
    }

    /// As [#status].
    public CompletableFuture<List<Outcome>> statusAsync(StartTimestamp reader, List<StartTimestamp> writers) {
        long[] starts = numbers(writers);
        return ask(new Call<List<Outcome>>() {
            @Override
            void ask() {
                pipeline.status(this, reader.value(), starts, starts.length);
            }
        });
    }

    /// As [#cleaned].
    public CompletableFuture<Long> cleanedAsync(List<StartTimestamp> transactions) {
        long[] starts = numbers(transactions);
        return ask(new Call<Long>() {
            @Override
            void ask() {
                pipeline.cleaned(this, starts, starts.length);
            }
        });
    }

    /// As [#swept].
    public CompletableFuture<Long> sweptAsync(long namespace, StartTimestamp mark) {
        return ask(new Call<Long>() {
            @Override
            void ask() {
                pipeline.swept(this, namespace, mark.value());
            }
        });
    }

    /// As [#lowWaterMark].
    public CompletableFuture<StartTimestamp> lowWaterMarkAsync() {
        return ask(new Call<Long>() {
                    @Override
                    void ask() {
                        pipeline.lowWaterMark(this);
                    }
                })
                .thenApply(StartTimestamp::new);
    }

    /// Ends the session: its open transactions abort, and what was not answered fails. A second call does
    /// nothing.
    @Override
    public void close() {
        CompletableFuture<Void> closing = new CompletableFuture<>();
        try {
            pipeline.execute(() -> pipeline.close().thenRun(() -> closing.complete(null)));
        } catch (RejectedExecutionException ended) {
            return;
        }
        closing.join();
        threads.close();
    }

    // ---- within -----------------------------------------------------------------------------------------------------

    /// A request, as a future and as what the pipeline's thread is to do.
    private abstract static class Call<V> extends CompletableFuture<V> implements Runnable {
        abstract void ask();

        @Override
        public final void run() {
            try {
                ask();
            } catch (OracleException refused) {
                completeExceptionally(refused);
            } catch (IllegalStateException tooMany) {
                completeExceptionally(
                        new UnavailableException("cannot send the request: " + tooMany.getMessage(), null));
            }
        }

        @SuppressWarnings("unchecked")
        final boolean answer(Object value) {
            return complete((V) value);
        }
    }

    private final class Completions implements Replies<Call<?>> {
        @Override
        public void begun(Call<?> call, long start) {
            if (!call.answer(new StartTimestamp(start))) {
                endAsync(new StartTimestamp(start)); // the caller has cancelled the call
            }
        }

        @Override
        public void decided(Call<?> call, long start, long outcome) {
            call.answer(Outcome.of(outcome));
        }

        @Override
        public void outcomes(Call<?> call, long[] outcomes) {
            call.answer(Arrays.stream(outcomes).mapToObj(Outcome::of).collect(Collectors.toUnmodifiableList()));
        }

        @Override
        public void number(Call<?> call, long number) {
            call.answer(number);
        }

        @Override
        public void failed(Call<?> call, OracleException why) {
            call.completeExceptionally(why);
        }
    }

    private CompletableFuture<Long> ofNamespace(long namespace, int flags) {
        return ask(new Call<Long>() {
            @Override
            void ask() {
                pipeline.use(this, namespace, flags);
            }
        });
    }

    private <V> CompletableFuture<V> ask(Call<V> call) {
        try {
            pipeline.execute(call);
        } catch (RejectedExecutionException ended) {
            call.completeExceptionally(
                    new ClientClosedException(null, "the client is closed: make another one", ended));
        }
        return call;
    }

    private static long[] numbers(List<StartTimestamp> timestamps) {
        return timestamps.stream().mapToLong(StartTimestamp::value).toArray();
    }

    private <V> V await(CompletableFuture<V> future) {
        return await(future, options.patience(), pipeline::noAnswer);
    }

    /// Waits for an answer. One that arrives as the wait ends is returned: a transaction that has begun would
    /// stay open.
    static <V> V await(CompletableFuture<V> future, Duration patience, Supplier<String> noAnswer) {
        try {
            return future.get(patience.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
            if (!future.cancel(false)) {
                return await(future, patience, noAnswer);
            }
            throw new UnavailableException(noAnswer.get() + "; whether the request took effect is unknown", late);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            if (!future.cancel(false)) {
                return await(future, patience, noAnswer);
            }
            throw new UnavailableException(
                    "the thread was interrupted before the oracle answered; whether the request took effect is unknown",
                    interrupted);
        } catch (ExecutionException failed) {
            // With the stack of the caller, not of the thread that has read the answer.
            throw again(failed.getCause());
        }
    }

    private static RuntimeException again(Throwable why) {
        if (why instanceof RefusedException) {
            return new RefusedException(((RefusedException) why).code(), why.getMessage(), why);
        }
        if (why instanceof UnavailableException) {
            return new UnavailableException(why.getMessage(), why);
        }
        if (why instanceof ClientClosedException) {
            return new ClientClosedException(((ClientClosedException) why).code(), why.getMessage(), why);
        }
        return new IllegalStateException(why);
    }
}
