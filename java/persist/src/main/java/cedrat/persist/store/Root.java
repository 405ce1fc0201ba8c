package cedrat.persist.store;

import cedrat.persist.memory.Slot;
import cedrat.persist.record.Recorder;
import cedrat.persist.record.TransactionLevel;
import cedrat.persist.record.UndoLog;

/// A name in a store, and what it leads to.
///
/// ```text
/// Stored ──set, remove──▶ Changed ──commit──▶ Stored
///    ▲                        └──rollback───┐
///    └──────────────────────────────────────┘
/// ```
///
/// **Threads:** any. Its writer has its write lock.
final class Root {
    /// The slot that marking a name overwrites: the word, as bits, and the object.
    static final Slot SLOT = new Slot() {
        @Override
        public void restore(Object base, int index, long bits, Object value) {
            ((Root) base).set(bits, value);
        }
    };

    final Engine engine;
    final String name;
    /// Its reference in the store; 0 if it leads to nothing, or to an object that is not stored yet.
    private long word;
    /// Its object, if that is not stored yet; otherwise null.
    private Object object;

    Root(Engine engine, String name, long word) {
        this.engine = engine;
        this.name = name;
        this.word = word;
    }

    synchronized void set(long word, Object object) {
        this.word = word;
        this.object = object;
    }

    synchronized long word() {
        return word;
    }

    synchronized Object object() {
        return object;
    }

    synchronized boolean isMarked() {
        return word != 0 || object != null;
    }

    /// Prepares for a change by the transaction of this thread.
    void beforeChange(Recorder recorder) {
        TransactionLevel transaction = recorder.current();
        UndoLog log = transaction.top.log;
        if (!log.has(transaction.logMark, this, SLOT, 0)) {
            transaction.top.changes(engine);
            recorder.transactions.lock(transaction, this, true);
            log.add(this, SLOT, 0, word(), object());
        }
    }
}
