package cedrat.oracle.client;

import cedrat.oracle.protocol.FrameWriter;

/// A request that was not answered, kept so that it can be sent again. Used again and again.
final class Slot<T> {
    private static final int FRAME_BYTES = 256;

    /// Where it is among the slots: the lower half of the request's number. The upper half counts its uses,
    /// so that an answer that comes late is not taken for another's.
    final int index;
    int uses;
    /// The kind of the request; 0 if there is none.
    byte kind;
    long start;
    /// Of a sweep: what its parts have had forgotten so far.
    long forgotten;
    T tag;
    final FrameWriter frame = new FrameWriter(FRAME_BYTES);

    Slot(int index) {
        this.index = index;
    }

    long id() {
        return (long) uses << Integer.SIZE | index;
    }
}
