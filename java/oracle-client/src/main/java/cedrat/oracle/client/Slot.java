package cedrat.oracle.client;

import cedrat.oracle.protocol.FrameWriter;

/// A request that was not answered, kept so that it can be sent again. Used again and again.
final class Slot<T> {
    private static final int FRAME_BYTES = 256;

    /// Index among the slots: the lower half of the request's number. The upper half counts its uses, so that a
    /// late answer is not taken for the answer to another request.
    final int index;
    int uses;
    /// The kind of the request; 0 if there is none.
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

    Slot(int index) {
        this.index = index;
    }

    long id() {
        return (long) uses << Integer.SIZE | index;
    }
}
