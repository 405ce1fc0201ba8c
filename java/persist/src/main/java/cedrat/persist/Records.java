package cedrat.persist;

/// A collection of records in pages of the store: bytes each, at most 3,800, found by a number that stays.
///
/// They are read and changed in transactions, together with objects and [Heap]s of the same store: one record of
/// the log decides all of it, a rollback takes all of it back, and so does that of a nested transaction.
///
/// A collection is locked as an object is: shared by readers, or exclusively by one writer.
///
/// **Threads:** any that is in a transaction. **Failure:** [IllegalStateException] outside of one, and once the
/// store is closed; [PersistenceException] if the store refuses, because there is no such record for example:
/// nothing has happened then; [DeadlockException].
public final class Records {
    private final Recorder recorder;
    private final Engine engine;
    private final long handle;

    Records(Recorder recorder, Engine engine, long handle) {
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

    /// Adds a record.
    ///
    /// @return its number
    public long insert(byte[] record) {
        return recorder.transactions.<Long>onFaces(engine, this, true, faces -> faces.insert(handle, record));
    }

    /// A copy of a record's bytes.
    public byte[] read(long number) {
        return recorder.transactions.onFaces(engine, this, false, faces -> faces.read(handle, known(number)));
    }

    /// Gives a record other bytes. Longer ones need room in its page: if they are refused, delete the record, and
    /// insert it anew.
    public void update(long number, byte[] record) {
        recorder.transactions.<Void>onFaces(engine, this, true, faces -> {
            faces.update(handle, known(number), record);
            return null;
        });
    }

    /// Deletes a record.
    public void delete(long number) {
        recorder.transactions.<Void>onFaces(engine, this, true, faces -> {
            faces.delete(handle, known(number));
            return null;
        });
    }

    /// The numbers of all records.
    public long[] numbers() {
        return recorder.transactions.onFaces(engine, this, false, faces -> faces.numbers(handle));
    }
}
