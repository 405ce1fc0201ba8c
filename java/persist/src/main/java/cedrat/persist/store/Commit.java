package cedrat.persist.store;

import cedrat.persist.DeadlockException;
import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.StoreException;
import cedrat.persist.codec.Change;
import cedrat.persist.codec.Layout;
import cedrat.persist.event.CommitEvent;
import cedrat.persist.record.Changes;
import cedrat.persist.record.Faces;
import cedrat.persist.record.TransactionLevel;
import java.util.Arrays;
import java.util.List;

/// The end of a transaction that has changed persistent objects, or names that lead to objects (Transactions
/// for Java, §3.3.2).
///
/// A [ChangeSet] has what the transaction has stored to, and a [CommitWriter] writes it, with the [NewObjects] that are
/// reachable from there.
///
/// - Only the changed parts of an object are stored, with their neighbours; nothing is compared or copied.
///   Afterwards the new arrays, tables and nodes of a collection are known as its parts, even if there was
///   nothing to store.
///
/// **Threads:** that of the transaction. Others see what it makes persistent as persistent from when it is
/// locked on.
final class Commit implements Changes {
    private static final long[] NOTHING_MADE = {};

    private final Engine engine;
    private final TransactionLevel transaction;
    private final ChangeSet changes;
    private final NewObjects made = new NewObjects();
    private final CommitWriter writer;
    /// The identities of what was prepared, or null.
    private long[] prepared;
    /// Size of what was prepared.
    private int preparedBytes;

    /// Finds what was changed.
    Commit(Engine engine, TransactionLevel transaction) {
        this.engine = engine;
        this.transaction = transaction;
        changes = new ChangeSet(engine, transaction, this);
        writer = new CommitWriter(engine, transaction, this, changes, made);
    }

    boolean isEmpty() {
        return changes.isEmpty();
    }

    /// Returns why an object, and what is reachable from it, cannot be stored.
    List<String> check(Object root) {
        try {
            return writer.check(root);
        } finally {
            abandon();
            made.forget();
            writer.buffer.give(transaction.top.context);
        }
    }

    @Override
    public void commit() {
        engine.check();
        CommitEvent event = new CommitEvent();
        event.begin();
        boolean isStored = false;
        boolean isAsked = false;
        try {
            GraphStore.Committed committed;
            try {
                writer.write();
                Faces faces = Faces.changed(transaction.top, engine);
                isAsked = writer.buffer.size() != 0 || faces != null;
                committed = isAsked ? append(faces) : null;
                isStored = true;
            } finally {
                writer.undefined.end(isStored);
            }
            // Collections may have new parts though nothing of them has to be stored.
            attach(committed == null ? NOTHING_MADE : committed.identities());
            if (committed != null) {
                engine.appended(committed.lsn());
            }
        } catch (GraphStoreException e) {
            throw refused(e);
        } catch (RuntimeException | Error e) {
            if (isStored || isAsked) {
                // Memory is not as the store is, or may not be: of what the store was asked only it knows the outcome.
                throw engine.stop(e);
            }
            throw e;
        } finally {
            int changed = changes.size();
            int created = made.size();
            int bytes = writer.buffer.size();
            abandon();
            if (!isStored) {
                made.forget();
            }
            writer.buffer.give(transaction.top.context);
            event.end(engine.name, changed, created, bytes, isStored);
            if (!isStored) {
                engine.counters.refusedCommit();
            } else if (isAsked) {
                engine.counters.committed(created, bytes);
            }
        }
    }

    @Override
    public boolean prepare(byte[] branch) {
        engine.check();
        boolean isPrepared = false;
        boolean isAsked = false;
        try {
            writer.write();
            if (writer.buffer.size() == 0) {
                attach(NOTHING_MADE);
                return false;
            }
            isAsked = true;
            preparedBytes = writer.buffer.size();
            prepared = engine.graph.prepare(writer.buffer.bytes(), writer.buffer.size(), branch);
            check(prepared.length);
            isPrepared = true;
            writer.undefined.end(true);
            return true;
        } catch (GraphStoreException e) {
            writer.undefined.end(false);
            throw refused(e);
        } catch (RuntimeException | Error e) {
            writer.undefined.end(false);
            if (isAsked) {
                rollBackIfPrepared(branch, e);
            }
            throw e;
        } finally {
            if (!isPrepared) {
                rolledBack();
            }
        }
    }

    private RuntimeException refused(GraphStoreException e) {
        if (!e.isConflict()) {
            return engine.refused(e);
        }
        // It may use a class that is just being dropped: the next attempt defines the class again.
        engine.schema.awaitDrop();
        return new DeadlockException();
    }

    /// An error hides whether the store has prepared the branch, which is said to be rolled back.
    private void rollBackIfPrepared(byte[] branch, Throwable why) {
        try {
            for (byte[] name : engine.graph.inDoubt()) {
                if (Arrays.equals(name, branch)) {
                    engine.graph.rollbackPrepared(branch);
                }
            }
        } catch (GraphStoreException | RuntimeException | Error e) {
            // First of all: where memory has run out it may not suffice for the rest.
            StoreException stopped = engine.stop(why);
            // The virtual machine throws one instance again and again when memory has run out.
            if (e != why) {
                why.addSuppressed(e);
            }
            throw stopped;
        }
    }

    @Override
    public void committed() {
        transaction.top.endsHere(true);
        try {
            attach(prepared);
            engine.counters.committed(prepared.length, preparedBytes);
        } catch (RuntimeException | Error e) {
            // Memory is not as the store is.
            throw engine.stop(e);
        } finally {
            transaction.top.endsHere(false);
            abandon();
        }
    }

    @Override
    public void rolledBack() {
        abandon();
        made.forget();
    }

    private GraphStore.Committed append(Faces faces) throws GraphStoreException {
        GraphStore.Committed committed = faces == null
                ? engine.graph.commit(writer.buffer.bytes(), writer.buffer.size())
                : faces.commit(writer.buffer.bytes(), writer.buffer.size());
        check(committed.identities().length);
        return committed;
    }

    private void check(int identities) throws GraphStoreException {
        if (identities != made.size()) {
            throw new GraphStoreException(
                    "the store made " + identities + " of the commit's " + made.size()
                            + " new objects: close it and open it again",
                    null,
                    true);
        }
    }

    private void attach(long[] stored) {
        made.attach(engine, stored);
        for (int i = 0; i < changes.size(); i++) {
            Change change = changes.get(i);
            if (change.isWhole() && change.identity.shape instanceof Layout layout) {
                change.identity.shape = layout.current();
            } else if (change.shape != null) {
                change.identity.shape = change.shape;
            }
            engine.table.changed(change.identity.id);
            if (change.written != null) {
                change.written.run();
            } else {
                engine.attachParts(change.identity, change.object);
            }
        }
        made.attachParts(engine);
        for (Root changed : changes.roots()) {
            Object object = changed.object();
            if (object != null) {
                changed.set(writer.stored(object), null);
            }
        }
    }

    @Override
    public void abandon() {
        changes.abandon();
    }
}
