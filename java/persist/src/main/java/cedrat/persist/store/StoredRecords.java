package cedrat.persist.store;

import cedrat.persist.GraphStoreException;
import cedrat.persist.Records;
import cedrat.persist.record.Recorder;

/// A collection of records, in the pages of an open store.
///
/// **Threads:** any that is in a transaction.
final class StoredRecords implements Records {
    private final Recorder recorder;
    private final Engine engine;
    private final long handle;

    StoredRecords(Recorder recorder, Engine engine, long handle) {
        this.recorder = recorder;
        this.engine = engine;
        this.handle = handle;
    }

    private static long known(long number) throws GraphStoreException {
        if (number < 0) {
            throw new GraphStoreException(
                    "invalid record number " + number + ": pass a number as insert or numbers has returned it",
                    null,
                    false);
        }
        return number;
    }

    @Override
    public long insert(byte[] record) {
        return recorder.transactions.<Long>onFaces(engine, this, true, faces -> faces.insert(handle, record));
    }

    @Override
    public byte[] read(long number) {
        return recorder.transactions.onFaces(engine, this, false, faces -> faces.read(handle, known(number)));
    }

    @Override
    public void update(long number, byte[] record) {
        recorder.transactions.<Void>onFaces(engine, this, true, faces -> {
            faces.update(handle, known(number), record);
            return null;
        });
    }

    @Override
    public void delete(long number) {
        recorder.transactions.<Void>onFaces(engine, this, true, faces -> {
            faces.delete(handle, known(number));
            return null;
        });
    }

    @Override
    public long[] numbers() {
        return recorder.transactions.onFaces(engine, this, false, faces -> faces.numbers(handle));
    }
}
