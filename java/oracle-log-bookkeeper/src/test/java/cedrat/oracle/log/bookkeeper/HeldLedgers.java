package cedrat.oracle.log.bookkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.buffer.ByteBuf;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/// Ledgers in memory, and their list, which answer when the test says so.
///
/// An entry is one long. Ledgers are numbered from 1 on. What waits for an answer of the store or the list
/// can be held up ([#hold]); appends are always answered by hand.
final class HeldLedgers implements LedgerStore, OwnedList {
    /// Step at which calls can be held.
    enum Step {
        CREATE,
        SEAL,
        CHANGE,
        DELETE
    }

    private static final class Ledger implements LedgerWriter {
        final long id;
        final List<Long> entries = new ArrayList<>();
        final List<CompletableFuture<Long>> answers = new ArrayList<>();
        boolean isClosed;
        private final HeldLedgers of;

        Ledger(HeldLedgers of, long id) {
            this.of = of;
            this.id = id;
        }

        @Override
        public long id() {
            return id;
        }

        @Override
        public boolean isDegraded() {
            return false;
        }

        @Override
        public CompletableFuture<Long> append(ByteBuf entry) {
            synchronized (of) {
                assertTrue(of.list.ledgers().contains(id), "K2: ledger " + id + " is not in the list");
                entries.add(entry.readLong());
                entry.release();
                CompletableFuture<Long> answer = new CompletableFuture<>();
                answers.add(answer);
                of.notifyAll();
                return answer;
            }
        }

        @Override
        public CompletableFuture<Void> close() {
            synchronized (of) {
                if (of.refusesCloses) {
                    return CompletableFuture.failedFuture(new IOException("a bookie is away"));
                }
                isClosed = true;
                of.notifyAll();
            }
            return CompletableFuture.completedFuture(null);
        }
    }

    private final Map<Long, Ledger> ledgers = new TreeMap<>();
    private final Map<Step, CompletableFuture<Void>> held = new HashMap<>();
    private final Set<Step> reached = new HashSet<>();
    private final Map<Long, Long> sealed = new HashMap<>();
    private final List<Long> deleted = new ArrayList<>();
    private LedgerList list = LedgerList.EMPTY.takenBy(7);
    private IOException refused;
    private boolean refusesCloses;
    private long newest;

    // ---- what the appender asks -------------------------------------------------------------------------------------

    private void pass(Step step) throws IOException {
        CompletableFuture<Void> gate;
        synchronized (this) {
            gate = held.get(step);
            if (gate == null) {
                return;
            }
            reached.add(step);
            notifyAll();
        }
        try {
            gate.join();
        } catch (CompletionException failed) {
            throw new IOException(failed.getCause());
        }
    }

    @Override
    public LedgerWriter create(Origin origin) throws IOException {
        pass(Step.CREATE);
        synchronized (this) {
            Ledger made = new Ledger(this, ++newest);
            ledgers.put(made.id, made);
            return made;
        }
    }

    @Override
    public long seal(long ledger) throws IOException {
        pass(Step.SEAL);
        synchronized (this) {
            ledgers.get(ledger).isClosed = true;
            notifyAll();
            return sealed.get(ledger);
        }
    }

    @Override
    public void delete(long ledger) throws IOException {
        synchronized (this) {
            assertTrue(!list.ledgers().contains(ledger), "K4: ledger " + ledger + " is in the list");
        }
        pass(Step.DELETE);
        synchronized (this) {
            deleted.add(ledger);
            notifyAll();
        }
    }

    @Override
    public synchronized Origin origin() {
        return new Origin("/held", 1, list.openings());
    }

    @Override
    public synchronized LedgerList list() {
        return list;
    }

    @Override
    public void change(LedgerList other) throws IOException {
        pass(Step.CHANGE);
        synchronized (this) {
            if (refused != null) {
                throw refused;
            }
            list = other;
            notifyAll();
        }
    }

    // ---- what the test does -----------------------------------------------------------------------------------------

    /// Holds callers at this step from now on.
    synchronized void hold(Step step) {
        held.put(step, new CompletableFuture<>());
        reached.remove(step);
    }

    /// Returns when a caller waits at this step.
    synchronized void awaitReached(Step step) throws InterruptedException {
        while (!reached.contains(step)) {
            wait();
        }
    }

    /// Releases the callers at this step.
    void go(Step step) {
        CompletableFuture<Void> gate;
        synchronized (this) {
            gate = held.remove(step);
        }
        gate.complete(null);
    }

    /// Fails the callers at this step.
    void fail(Step step, IOException problem) {
        CompletableFuture<Void> gate;
        synchronized (this) {
            gate = held.remove(step);
        }
        gate.completeExceptionally(problem);
    }

    /// The list is changed no more.
    synchronized void refuseChanges(IOException problem) {
        refused = problem;
    }

    /// No ledger is closed any more, unless it is sealed.
    synchronized void refuseCloses() {
        refusesCloses = true;
    }

    /// Returns when the ledger is closed or sealed.
    synchronized void awaitClosed(long ledger) throws InterruptedException {
        while (!ledgers.get(ledger).isClosed) {
            wait();
        }
    }

    /// Another process seals the ledger, or will: it holds this number of entries.
    synchronized void sealedBehind(long ledger, int entries) {
        sealed.put(ledger, entries - 1L);
    }

    private synchronized CompletableFuture<Long> answer(long ledger, int entry) {
        return ledgers.get(ledger).answers.get(entry);
    }

    /// The next entries of a ledger are acknowledged, from one up to another, that one not.
    void acknowledge(long ledger, int from, int to) {
        for (int entry = from; entry < to; entry++) {
            answer(ledger, entry).complete((long) entry);
        }
    }

    /// An entry of a ledger is refused.
    void refuse(long ledger, int entry) {
        answer(ledger, entry).completeExceptionally(new IOException("the ledger is fenced"));
    }

    /// Returns the entries that were appended to a ledger.
    synchronized List<Long> entries(long ledger) {
        return ledgers.containsKey(ledger) ? List.copyOf(ledgers.get(ledger).entries) : List.of();
    }

    /// Returns when so many entries were appended to a ledger.
    synchronized void awaitEntries(long ledger, int count) throws InterruptedException {
        while (entries(ledger).size() < count) {
            wait();
        }
        assertEquals(count, entries(ledger).size());
    }

    /// Returns when the list is this.
    synchronized void awaitList(List<Long> doomed, List<Long> wanted) throws InterruptedException {
        while (!list.doomed().equals(doomed) || !list.ledgers().equals(wanted)) {
            wait();
        }
    }

    synchronized boolean isClosed(long ledger) {
        return ledgers.get(ledger).isClosed;
    }

    synchronized List<Long> deleted() {
        return List.copyOf(deleted);
    }
}
