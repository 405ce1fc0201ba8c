package cedrat.persist;

/// Words that last, in memory of the store that is no part of Java's: 64 bits each, found by their offset in
/// bytes, a multiple of 8.
///
/// They are read and changed in transactions, together with objects and [Records] of the same store: one record
/// of the log decides all of it, a rollback takes all of it back, and so does that of a nested transaction.
///
/// A heap is locked as an object is: shared by readers, or exclusively by one writer.
///
/// **Threads:** any that is in a transaction. **Failure:** [IllegalStateException] outside of one, and once the
/// store is closed; [PersistenceException] if the store refuses: nothing has happened then;
/// [DeadlockException].
public final class Heap {
    private final Recorder recorder;
    private final Engine engine;
    private final long handle;

    Heap(Recorder recorder, Engine engine, long handle) {
        this.recorder = recorder;
        this.engine = engine;
        this.handle = handle;
    }

    /// The word at an offset.
    public long read(long offset) {
        return recorder.transactions.<Long>onFaces(engine, this, false, faces -> faces.load(handle, offset));
    }

    /// Stores a word at an offset.
    public void write(long offset, long value) {
        recorder.transactions.<Void>onFaces(engine, this, true, faces -> {
            faces.store(handle, offset, value);
            return null;
        });
    }

    /// Allocates a block, of zeros.
    ///
    /// @param bytes its size
    /// @return its offset, never 0
    public long allocate(long bytes) {
        return recorder.transactions.<Long>onFaces(engine, this, true, faces -> faces.allocate(handle, bytes));
    }

    /// Frees a block, when the transaction commits.
    ///
    /// @param block as [#allocate] has returned it
    public void free(long block) {
        recorder.transactions.<Void>onFaces(engine, this, true, faces -> {
            faces.release(handle, block);
            return null;
        });
    }

    /// The offset of the block that a name leads to, 0 if there is none.
    public long root(String name) {
        return recorder.transactions.<Long>onFaces(engine, this, false, faces -> faces.root(handle, name));
    }

    /// Lets a name lead to a block, so that it is found when the store is opened again.
    ///
    /// @param block as [#allocate] has returned it; 0 takes the name away
    public void setRoot(String name, long block) {
        recorder.transactions.<Void>onFaces(engine, this, true, faces -> {
            faces.setRoot(handle, name, block);
            return null;
        });
    }
}
