package cedrat.persist.store;

import cedrat.persist.Heap;
import cedrat.persist.record.Recorder;

/// A heap of words, in the pages of an open store.
///
/// **Threads:** any that is in a transaction.
final class StoredHeap implements Heap {
    private final Recorder recorder;
    private final Engine engine;
    private final long handle;

    StoredHeap(Recorder recorder, Engine engine, long handle) {
        this.recorder = recorder;
        this.engine = engine;
        this.handle = handle;
    }

    @Override
    public long read(long offset) {
        return recorder.transactions.<Long>onFaces(engine, this, false, faces -> faces.load(handle, offset));
    }

    @Override
    public void write(long offset, long value) {
        recorder.transactions.<Void>onFaces(engine, this, true, faces -> {
            faces.store(handle, offset, value);
            return null;
        });
    }

    @Override
    public long allocate(long bytes) {
        return recorder.transactions.<Long>onFaces(engine, this, true, faces -> faces.allocate(handle, bytes));
    }

    @Override
    public void free(long block) {
        recorder.transactions.<Void>onFaces(engine, this, true, faces -> {
            faces.release(handle, block);
            return null;
        });
    }

    @Override
    public long root(String name) {
        return recorder.transactions.<Long>onFaces(engine, this, false, faces -> faces.root(handle, name));
    }

    @Override
    public void setRoot(String name, long block) {
        recorder.transactions.<Void>onFaces(engine, this, true, faces -> {
            faces.setRoot(handle, name, block);
            return null;
        });
    }
}
