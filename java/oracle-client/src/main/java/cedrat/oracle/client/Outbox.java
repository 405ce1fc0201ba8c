package cedrat.oracle.client;

import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.function.Supplier;

/// Requests that wait until they are written together, at the end of a round of the event loop: a single one as a frame
/// of its own, several as batches. Transactions that are clean wait for the next batch. For one thread at a time.
final class Outbox<T> {
    /// A batch is ended at this length. The server decides a frame when all of it has arrived, while the next arrives.
    private static final int BATCH_BYTES_MAX = 1 << 15;

    /// With so many clean transactions a batch is written though no other request waits.
    static final int CLEANED_MAX = 512;

    private final FrameWriter out;
    private final Supplier<Slot<T>> batches;
    private final ArrayDeque<Slot<T>> commits = new ArrayDeque<>();
    private final ArrayDeque<Slot<T>> ends = new ArrayDeque<>();
    private final ArrayDeque<Slot<T>> aborts = new ArrayDeque<>();
    private final ArrayDeque<Slot<T>> begins = new ArrayDeque<>();
    private long[] cleaned = new long[16];
    private int cleanedCount;
    private long frames;

    /// Writes frames to `out`, and takes slots for batches from `batches`.
    Outbox(FrameWriter out, Supplier<Slot<T>> batches) {
        this.out = out;
        this.batches = batches;
    }

    /// Adds a request. Returns whether it can be in a batch; otherwise nothing was done.
    boolean add(Slot<T> slot) {
        switch (slot.kind) {
            case Protocol.BEGIN:
                return begins.add(slot);
            case Protocol.END:
                return ends.add(slot);
            case Protocol.ABORT:
                return aborts.add(slot);
            case Protocol.COMMIT:
                return slot.frame.length() <= BATCH_BYTES_MAX && commits.add(slot);
            default:
                return false;
        }
    }

    /// Adds a transaction that is clean.
    void addCleaned(long start) {
        if (cleanedCount == cleaned.length) {
            cleaned = Arrays.copyOf(cleaned, 2 * cleanedCount);
        }
        cleaned[cleanedCount++] = start;
    }

    /// Returns the number of clean transactions that wait.
    int cleaned() {
        return cleanedCount;
    }

    /// Removes all clean transactions, and returns them.
    long[] removeCleaned() {
        long[] all = Arrays.copyOf(cleaned, cleanedCount);
        cleanedCount = 0;
        return all;
    }

    /// Returns the number of requests that wait; clean transactions do not count.
    int requests() {
        return commits.size() + ends.size() + aborts.size() + begins.size();
    }

    /// Forgets the requests: they are sent again over the next connection.
    void clear() {
        commits.clear();
        ends.clear();
        aborts.clear();
        begins.clear();
    }

    /// Returns the number of frames that were written.
    long frames() {
        return frames;
    }

    /// Writes a request as a frame of its own.
    void writeAlone(Slot<T> slot) {
        out.copy(slot.frame.bytes(), 0, slot.frame.length());
        frames++;
    }

    /// Writes all that waits.
    void write() {
        while (requests() + cleanedCount > 0) {
            if (requests() > 1 || cleanedCount > 0) {
                writeBatch(batches.get());
            } else {
                writeAlone(first());
            }
        }
    }

    private Slot<T> first() {
        if (!commits.isEmpty()) {
            return commits.remove();
        }
        if (!ends.isEmpty()) {
            return ends.remove();
        }
        return aborts.isEmpty() ? begins.remove() : aborts.remove();
    }

    private void writeBatch(Slot<T> batch) {
        int commitCount = 0;
        for (int bytes = 0; !commits.isEmpty() && commitCount < Protocol.BATCH_MAX; commitCount++) {
            bytes += commits.peek().frame.length();
            if (bytes > BATCH_BYTES_MAX && commitCount > 0) {
                break;
            }
            batch.addMember(commits.remove());
        }
        int endCount = move(ends, batch);
        int abortCount = move(aborts, batch);
        batch.cleaned = Math.min(cleanedCount, Protocol.BATCH_MAX - batch.memberCount);
        batch.decided = batch.memberCount;
        int beginCount = move(begins, batch);
        int at = out.beginBatch(batch.id(), commitCount, endCount, abortCount, batch.cleaned, beginCount);
        for (int index = commitCount; index < batch.decided; index++) {
            out.batchStart(batch.members[index].start);
        }
        for (int index = 0; index < batch.cleaned; index++) {
            out.batchStart(cleaned[index]);
        }
        for (int index = 0; index < commitCount; index++) {
            out.batchCommit(batch.members[index].frame);
        }
        out.endBatch(at);
        frames++;
        batch.takeCleaned(cleaned);
        cleanedCount -= batch.cleaned;
        System.arraycopy(cleaned, batch.cleaned, cleaned, 0, cleanedCount);
    }

    /// Moves as many requests as there is room for; returns their number.
    private static <T> int move(ArrayDeque<Slot<T>> from, Slot<T> batch) {
        int count = Math.min(from.size(), Protocol.BATCH_MAX - batch.cleaned - batch.memberCount);
        for (int each = 0; each < count; each++) {
            batch.addMember(from.remove());
        }
        return count;
    }
}
