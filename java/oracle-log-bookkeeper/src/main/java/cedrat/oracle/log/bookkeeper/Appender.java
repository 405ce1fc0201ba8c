package cedrat.oracle.log.bookkeeper;

import cedrat.oracle.log.Log;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.PooledByteBufAllocator;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Appends entries to ledgers, one after the other.
///
/// ```text
///             the next ledger is listed            all of this one is acknowledged
/// Appending ───────────────────────────▶ Draining ─────────────────────────────────┐
///   ▲  ▲ └──────an append fails───────┐     │                                      │
///   │  │                              ▼     ▼                                      │
///   │  └─it is closed, another listed─ Replacing ──replaced, or no quorum─▶ Failed │
///   └──────────────────────────────────────────────────────────────────────────────┘
/// ```
///
/// Appending: entries go to the ledger. Draining: the ledger is full, and entries wait. Replacing: another
/// process closed the ledger, or too many bookies did not answer, and entries wait. Failed: nothing is
/// acknowledged any more (L3).
///
/// - K1  An entry is appended to a ledger only when all those before it are acknowledged, or were appended to
///   the same ledger: so ledgers hold entries without gaps (L2).
/// - K2  An entry is appended to a ledger only when that is in the list.
/// - K3  Entries of a ledger that failed are acknowledged, or appended to the next one, only after the ledger
///   was closed for all, which shows its content, and after the list was changed, which shows that no other
///   server has taken the log (L4).
/// - K4  Ledgers leave the list before they are deleted.
/// - K5  A full ledger is closed. If that fails, it is sealed like a failed one, and this is tried until it
///   succeeds. A standby server passes on to the next ledger only then.
///
/// **Threads:** its methods may be called by any thread. Waits for BookKeeper and ZooKeeper run on a thread of
/// its own, "ledgers", one after the other.
final class Appender {
    /// Largest number of entries in flight to the bookies.
    private static final int SENT_MAX = 64;

    /// So often in a row, without an acknowledgement in between, is a ledger replaced.
    private static final int REPLACEMENTS_MAX = 10;

    private static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(30);
    private static final long TRY_AGAIN_MS = 100;

    /// Time between attempts to seal a ledger that no entry waits for.
    private static final long SEAL_AGAIN_MS = 1000;

    private static final Logger RECORDS = LoggerFactory.getLogger(Appender.class);

    /// A ledger on fewer bookies than it should have is followed by another after this part of its length.
    private static final int DEGRADED_PART = 8;

    private enum State {
        APPENDING,
        DRAINING,
        REPLACING,
        FAILED,
        CLOSED
    }

    private static final class Entry {
        final long number;
        final ByteBuf bytes;

        Entry(long number, ByteBuf bytes) {
            this.number = number;
            this.bytes = bytes;
        }
    }

    private final LedgerStore ledgers;
    private final OwnedList node;
    private final Log.Listener listener;
    private final long ledgerBytesMax;
    private final ExecutorService background = Executors.newSingleThreadExecutor(
            Thread.ofPlatform().name("ledgers").daemon().factory());

    // What follows is guarded by this object's monitor, but for `node`, which is the background's.
    private State state = State.APPENDING;
    private LedgerWriter ledger;
    private long ledgerBytes;
    private final List<Part> parts = new ArrayList<>();
    /// The ledger that comes next, if it is in the list.
    private LedgerWriter next;
    private boolean isRolling;
    private long rollFrom;
    private int replacements;
    private final ArrayDeque<Entry> sent = new ArrayDeque<>();
    private final ArrayDeque<Entry> waiting = new ArrayDeque<>();
    private long numbered;
    private long acknowledged;

    /// An appender behind so many entries, which lie in these parts, of a log that was taken.
    Appender(
            LedgerStore ledgers,
            OwnedList node,
            List<Part> parts,
            long replayed,
            long ledgerBytesMax,
            Log.Listener listener)
            throws IOException {
        this.ledgers = ledgers;
        this.node = node;
        this.ledgerBytesMax = ledgerBytesMax;
        this.listener = listener;
        numbered = replayed;
        acknowledged = replayed;
        List<Long> listed = node.list().ledgers();
        parts.stream().filter(part -> listed.contains(part.ledger())).forEach(this.parts::add);
        delete();
        use(list(ledgers.create(node.origin())));
    }

    /// K2.
    private LedgerWriter list(LedgerWriter created) throws IOException {
        node.change(node.list().with(created.id()));
        return created;
    }

    private void use(LedgerWriter other) {
        ledger = other;
        ledgerBytes = 0;
        rollFrom = other.isDegraded() ? ledgerBytesMax / DEGRADED_PART : ledgerBytesMax;
        parts.add(new Part(other.id(), acknowledged + 1));
    }

    // ---- append -----------------------------------------------------------------------------------------------------

    synchronized long append(byte[] bytes, int from, int length) {
        checkOpen();
        long number = ++numbered;
        if (state != State.FAILED) {
            ByteBuf buffer = PooledByteBufAllocator.DEFAULT.directBuffer(length);
            buffer.writeBytes(bytes, from, length);
            waiting.add(new Entry(number, buffer));
            send();
        }
        return number;
    }

    private void checkOpen() {
        if (state == State.CLOSED) {
            throw new IllegalStateException("the log is not open");
        }
    }

    private void send() {
        while (state == State.APPENDING && !waiting.isEmpty() && sent.size() < SENT_MAX) {
            Entry entry = waiting.remove();
            LedgerWriter to = ledger;
            sent.add(entry);
            ledgerBytes += entry.bytes.readableBytes();
            to.append(entry.bytes.retainedDuplicate()).whenComplete((id, failure) -> answered(to, entry, id, failure));
            if (ledgerBytes >= rollFrom && !isRolling) {
                isRolling = true;
                background.execute(this::roll);
            }
        }
    }

    private synchronized void answered(LedgerWriter from, Entry entry, Long id, Throwable failure) {
        if (from != ledger || state != State.APPENDING && state != State.DRAINING) {
            return; // what became of it is asked when the ledger is closed
        }
        if (failure != null) {
            state = State.REPLACING;
            background.execute(() -> replace(from, failure));
            return;
        }
        Entry first = sent.remove();
        if (first != entry || id != entry.number - parts.getLast().firstNumber()) {
            fail(new AssertionError(
                    "ledger " + from.id() + " acknowledged entry " + id + " in place of " + first.number));
            return;
        }
        replacements = 0;
        acknowledge(entry);
        listener.acknowledged(acknowledged);
        if (state == State.DRAINING && sent.isEmpty()) {
            turn();
        }
        send();
        notifyAll();
    }

    private void acknowledge(Entry entry) {
        acknowledged = entry.number;
        entry.bytes.release();
    }

    // ---- ledgers ----------------------------------------------------------------------------------------------------

    /// Makes the next ledger, as this one has grown long.
    private void roll() {
        try {
            synchronized (this) {
                if (state != State.APPENDING) {
                    isRolling = false;
                    return;
                }
            }
            LedgerWriter created;
            try {
                created = ledgers.create(node.origin());
            } catch (IOException later) {
                // There is no need for it yet.
                synchronized (this) {
                    isRolling = false;
                    rollFrom = ledgerBytes + ledgerBytesMax / DEGRADED_PART;
                }
                return;
            }
            list(created);
            synchronized (this) {
                next = created;
                if (state == State.APPENDING) {
                    state = State.DRAINING;
                    if (sent.isEmpty()) {
                        turn();
                        send();
                    }
                }
            }
        } catch (IOException | RuntimeException | Error problem) {
            fail(problem);
        }
    }

    /// Everything in this ledger is acknowledged: goes on with the next one (K1).
    private void turn() {
        LedgerWriter full = ledger;
        long last = acknowledged - parts.getLast().firstNumber();
        use(next);
        next = null;
        isRolling = false;
        state = State.APPENDING;
        full.close().whenComplete((closed, failure) -> {
            if (failure != null) {
                unclosed(full.id(), last, failure);
            }
        });
    }

    /// Seals a full ledger that is not closed (K5).
    private void unclosed(long full, long last, Throwable failure) {
        RECORDS.atWarn().addKeyValue("ledger", full).setCause(failure).log("cannot close a full ledger: it is sealed");
        try {
            background.execute(() -> seal(full, last));
        } catch (RejectedExecutionException closing) {
            // The next opening of the log seals all ledgers.
        }
    }

    /// Its entries are acknowledged, so nothing else waits for it.
    private void seal(long full, long last) {
        synchronized (this) {
            if (state == State.FAILED || state == State.CLOSED) {
                return;
            }
        }
        if (!node.list().ledgers().contains(full)) {
            return; // it is forgotten
        }
        try {
            long sealed = ledgers.seal(full);
            if (sealed != last) {
                fail(new AssertionError("the sealed ledger " + full + " ends after entry " + sealed
                        + ", and entries up to " + last + " were acknowledged"));
            }
        } catch (IOException problem) {
            RECORDS.atWarn()
                    .addKeyValue("ledger", full)
                    .setCause(problem)
                    .log("cannot seal a ledger: it is tried again");
            CompletableFuture.delayedExecutor(SEAL_AGAIN_MS, TimeUnit.MILLISECONDS, background)
                    .execute(() -> seal(full, last));
        }
    }

    /// Goes on in another ledger, as this one takes no entries any more.
    private void replace(LedgerWriter failed, Throwable failure) {
        try {
            long last = patiently(() -> ledgers.seal(failed.id()), failure);
            LedgerWriter other;
            synchronized (this) {
                other = next;
            }
            if (other == null) {
                other = list(patiently(() -> ledgers.create(node.origin()), failure));
            } else {
                node.change(node.list()); // K3: only its owner can
            }
            synchronized (this) {
                if (state == State.REPLACING) {
                    resume(other, last);
                }
            }
        } catch (IOException | RuntimeException | Error problem) {
            if (problem != failure) {
                problem.addSuppressed(failure);
            }
            fail(problem);
        }
    }

    private void resume(LedgerWriter other, long last) {
        long kept = parts.getLast().firstNumber() + last;
        if (kept < acknowledged) {
            throw new AssertionError(
                    "the closed ledger ends after entry " + kept + " and lacks acknowledged entry " + acknowledged);
        }
        if (++replacements > REPLACEMENTS_MAX) {
            throw new IllegalStateException(REPLACEMENTS_MAX
                    + " ledgers in a row have failed before they accepted an entry: check the bookies");
        }
        if (kept > acknowledged) {
            while (!sent.isEmpty() && sent.peek().number <= kept) {
                acknowledge(sent.remove());
            }
            listener.acknowledged(acknowledged);
        }
        while (!sent.isEmpty()) {
            waiting.addFirst(sent.removeLast());
        }
        use(other);
        next = null;
        isRolling = false;
        state = State.APPENDING;
        send();
        notifyAll();
    }

    private interface Attempt<T> {
        T make() throws IOException;
    }

    /// Bookies come back; a log that another has taken does not.
    private <T> T patiently(Attempt<T> attempt, Throwable failure) throws IOException {
        long until = System.nanoTime() + PATIENCE_NS;
        while (true) {
            try {
                return attempt.make();
            } catch (IOException problem) {
                if (Thread.currentThread().isInterrupted() || System.nanoTime() > until) {
                    problem.addSuppressed(failure);
                    throw problem;
                }
            }
            try {
                Thread.sleep(TRY_AGAIN_MS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new IOException("the thread was interrupted while a ledger was replaced", interrupted);
            }
        }
    }

    // ---- forget -----------------------------------------------------------------------------------------------------

    synchronized void forgetBefore(long number) {
        checkOpen();
        if (number > acknowledged) {
            throw new IllegalArgumentException(
                    "cannot truncate the log before entry " + number + ", which is not acknowledged");
        }
        int count = 0;
        while (count + 1 < parts.size() && parts.get(count + 1).firstNumber() <= number) {
            count++;
        }
        if (count == 0 || state == State.FAILED) {
            return;
        }
        int forgetting = count;
        parts.subList(0, count).clear();
        background.execute(() -> forget(forgetting));
    }

    private void forget(int count) {
        try {
            node.change(node.list().withoutFirst(count)); // K4
            delete();
        } catch (IOException | RuntimeException | Error problem) {
            fail(problem);
        }
    }

    /// Deletes what left the list; what is not to be deleted now is tried again the next time.
    private void delete() throws IOException {
        List<Long> gone = new ArrayList<>();
        for (long doomed : node.list().doomed()) {
            try {
                ledgers.delete(doomed);
                gone.add(doomed);
            } catch (IOException later) {
                // It is on the list of those to be deleted.
            }
        }
        if (!gone.isEmpty()) {
            node.change(node.list().without(gone));
        }
    }

    /// Deletes ledgers that were made in vain; in steps, so that one that is wanted does not wait for it. What is
    /// not found now is found by the next opening.
    void delete(OrphanLedgers orphans) {
        background.execute(() -> deleteSome(orphans));
    }

    private void deleteSome(OrphanLedgers orphans) {
        try {
            if (orphans.step()) {
                delete(orphans);
            }
        } catch (IOException | RejectedExecutionException later) {
            // Undeleted ledgers do no harm.
        }
    }

    // ---- the end ----------------------------------------------------------------------------------------------------

    /// L3.
    synchronized void fail(Throwable problem) {
        if (state == State.FAILED || state == State.CLOSED) {
            return;
        }
        state = State.FAILED;
        release(sent);
        release(waiting);
        listener.failed(
                problem instanceof Exception expected
                        ? expected
                        : new IOException("an invariant of the log is violated: " + problem.getMessage(), problem));
        notifyAll();
    }

    private static void release(ArrayDeque<Entry> entries) {
        entries.forEach(entry -> entry.bytes.release());
        entries.clear();
    }

    /// Waits until all is acknowledged, or the log has failed. The listener is not called afterwards.
    void close() throws IOException {
        boolean hasFailed;
        boolean interrupted = false;
        synchronized (this) {
            while (state != State.FAILED && !(sent.isEmpty() && waiting.isEmpty())) {
                try {
                    wait();
                } catch (InterruptedException later) {
                    interrupted = true;
                }
            }
            hasFailed = state == State.FAILED;
            state = State.CLOSED;
        }
        background.shutdownNow();
        background.close();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        if (!hasFailed) {
            Ledgers.await("cannot close ledger " + ledger.id(), ledger.close());
        }
    }

    // ---- for tests --------------------------------------------------------------------------------------------------

    /// Waits until what the ledgers' thread was given is done.
    void settle() throws InterruptedException, ExecutionException {
        background.submit(() -> {}).get();
    }
}
