package cedrat.oracle.client;

import cedrat.oracle.protocol.FrameWriter;
import java.util.Arrays;

/// A request that was not answered, kept so that it can be sent again. Used again and again.
final class Slot<T> {
    private static final int FRAME_BYTES = 256;
    private static final int MEMBERS = 16;

    /// Index among the slots: the lower half of the request's number. The upper half counts its uses, so that a
    /// late answer is not taken for the answer to another request.
    final int index;
    int uses;
    /// The kind of the request, [cedrat.oracle.protocol.Protocol#BATCH] for several; 0 if there is none.
    byte kind;
    long start;
    /// Namespace of a sweep or of a registration.
    long namespace;
    /// Flags of a registration of a namespace.
    int flags;
    /// Number of transactions that the parts of a sweep have forgotten so far.
    long forgotten;
    T tag;
    /// Whether it is the pipeline's own: no answer of it is reported.
    boolean isInternal;
    /// The outage during which the request was sent; `null` if a server answered then. `askedNanos` is the
    /// time, by `System.nanoTime`.
    Outage outage;
    long askedNanos;
    final FrameWriter frame = new FrameWriter(FRAME_BYTES);
    /// Requests of a batch, in the order of their answers, and their numbers: one that has failed since has another.
    Slot<T>[] members;
    long[] memberIds;
    int memberCount;
    /// Number of those that are answered by an outcome; the others begin.
    int decided;
    /// Number of clean transactions in a batch, and their start timestamps.
    int cleaned;
    long[] cleanedStarts;

    Slot(int index) {
        this.index = index;
    }

    long id() {
        return (long) uses << Integer.SIZE | index;
    }

    /// Adds a request to a batch.
    @SuppressWarnings("unchecked")
    void addMember(Slot<T> slot) {
        if (members == null) {
            members = (Slot<T>[]) new Slot<?>[MEMBERS];
            memberIds = new long[MEMBERS];
        } else if (memberCount == members.length) {
            members = Arrays.copyOf(members, 2 * memberCount);
            memberIds = Arrays.copyOf(memberIds, 2 * memberCount);
        }
        members[memberCount] = slot;
        memberIds[memberCount++] = slot.id();
    }

    /// Returns a request of a batch; `null` if it was answered, or has failed.
    Slot<T> member(int which) {
        Slot<T> member = members[which];
        return member.kind != 0 && member.id() == memberIds[which] ? member : null;
    }

    /// Keeps the first `cleaned` of these start timestamps.
    void takeCleaned(long[] starts) {
        if (cleanedStarts == null || cleanedStarts.length < cleaned) {
            cleanedStarts = new long[starts.length];
        }
        System.arraycopy(starts, 0, cleanedStarts, 0, cleaned);
    }
}
