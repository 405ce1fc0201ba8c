package cedrat.persist.store;

import cedrat.persist.GraphStoreException;
import cedrat.persist.StoreException;
import cedrat.persist.codec.IdentityEntry;
import cedrat.persist.codec.MapPart;
import cedrat.persist.codec.ObjectIdentity;
import cedrat.persist.codec.PartIdentity;
import cedrat.persist.codec.Parts;
import cedrat.persist.codec.Words;
import cedrat.persist.form.FormShape;
import cedrat.persist.form.PartedForm;
import java.lang.ref.WeakReference;

/// Loading and unloading of the parts of large maps and sets.
///
/// - Who reads an empty bucket asks whether it is loaded, after the read: so a part can be unloaded at any time, unless
///   a transaction has locked the collection.
///
/// - Between two loads of a part the program may keep nodes of it, which are its entries again.
///
/// **Threads:** any. Locks are taken in the order load, identity, parts, table.
final class LoadedParts {
    /// Approximate size in memory of a key or a value, with its share of the node and of the node's identity.
    private static final int REFERENCE_BYTES = 72;

    private final Engine engine;
    /// The store is about to be closed: it is known which parts are loaded.
    private volatile boolean isClosing;
    /// The table that was asked for last, because a walk asks again and again; or null.
    private volatile Last last;

    private record Last(WeakReference<Object> table, Parts parts) {
        boolean isOf(Object object) {
            return table.refersTo(object) && parts.owner.stored == parts;
        }
    }

    LoadedParts(Engine engine) {
        this.engine = engine;
    }

    /// Nothing is unloaded from now on.
    void close() {
        isClosing = true;
    }

    private static PartedForm form(Parts parts) {
        return (PartedForm) ((FormShape) parts.owner.shape).form;
    }

    /// The element of an array, which is loaded if the array is the table of a collection of this store.
    Object read(Object[] array, int index) {
        Last known = last;
        Parts parts = known != null && known.isOf(array) ? known.parts : partsOf(array);
        if (known == null || known.parts != parts) {
            last = parts == null ? known : new Last(new WeakReference<>(array), parts);
        }
        if (parts == null || array.length != parts.buckets) {
            return array[index];
        }
        int number = Parts.part(index);
        MapPart loaded = null;
        while (true) {
            boolean isLoaded;
            Object element;
            synchronized (parts) {
                isLoaded = parts.isLoaded(number);
                element = array[index];
            }
            if (isLoaded) {
                // From here on it may be unloaded, at once if little may be loaded.
                count(loaded);
                return element;
            }
            loaded = loadNow(parts, number, array);
        }
    }

    private void count(MapPart part) {
        if (part != null) {
            engine.loaded.add(part.identity);
        }
    }

    /// The parts of the collection that an object is a part of, or null.
    private Parts partsOf(Object object) {
        IdentityEntry known = engine.entry(object);
        return known != null && known.owner().stored instanceof Parts parts ? parts : null;
    }

    /// Loads the bucket of a hash of a map.
    void loadBucket(Object map, int hash) {
        Parts parts = partsOf(map);
        if (parts != null) {
            Object collection = parts.owner.get();
            Object[] table = collection == null ? null : form(parts).table(collection);
            if (table != null && table.length == parts.buckets) {
                load(parts, Parts.part(hash & parts.buckets - 1));
            }
        }
    }

    /// Loads a part of a collection that is locked, unless it is loaded.
    void load(Parts parts, int number) {
        count(loadNow(parts, number, form(parts).table(parts.owner.get())));
    }

    /// Loads a part, unless it is loaded.
    ///
    /// @return the part, which is to be counted; null if it was loaded
    private MapPart loadNow(Parts parts, int number, Object[] table) {
        boolean isLoaded = false;
        while (!isLoaded) {
            long word;
            int unloads;
            synchronized (parts) {
                if (parts.isLoaded(number)) {
                    return null;
                }
                word = parts.words[number];
                unloads = parts.unloads();
            }
            Object[] entries = word == 0 ? new Object[0] : read(word);
            isLoaded = install(parts, number, table, entries, unloads);
        }
        return parts.get(number);
    }

    private Object[] read(long word) {
        engine.check();
        try {
            return engine.loader.part(word);
        } catch (GraphStoreException e) {
            throw engine.refused(e);
        }
    }

    /// @return false if it has to be read again, because a part was unloaded since, which may have been this one
    private boolean install(Parts parts, int number, Object[] table, Object[] entries, int unloads) {
        synchronized (parts) {
            if (parts.isLoaded(number)) {
                return true;
            }
            if (parts.unloads() != unloads) {
                return false;
            }
            MapPart part = parts.get(number);
            if (part == null) {
                part = new MapPart(number, parts.hasValues);
                part.identity = new ObjectIdentity(engine, part, parts.words[number], null);
            }
            boolean isWithin =
                    form(parts).install(table, part, entries, node -> engine.attachPart(parts.owner, node, null, -1));
            if (!isWithin) {
                throw new StoreException(
                        "the object " + Words.show(parts.words[number]) + " is damaged, it has a key of "
                                + "another part: run `cedrat verify`, and restore the store from a copy");
            }
            part.identity.bytes = REFERENCE_BYTES * (1 + entries.length);
            part.left = new PartIdentity[0];
            parts.loaded(part);
            return true;
        }
    }

    /// Lets a collection lead to a part that a commit has made.
    void attach(MapPart part, ObjectIdentity identity) {
        Parts parts = partsOf(part.collection);
        synchronized (parts) {
            part.identity = identity;
            parts.words[part.number] = identity.id;
            parts.loaded(part);
            part.collection = null;
        }
        engine.loaded.add(identity);
    }

    /// Unloads a part, unless its collection is locked.
    ///
    /// @return whether it was unloaded; null if its collection is locked
    Boolean unload(MapPart part) {
        Parts parts = part.parts;
        Object collection = parts == null ? null : parts.owner.get();
        if (collection == null) {
            return parts == null ? null : Boolean.FALSE;
        }
        synchronized (parts.owner) {
            if (engine.recorder.transactions.isLocked(collection)) {
                return null;
            }
            synchronized (parts) {
                Object[] table = form(parts).table(collection);
                boolean isCurrent = !isClosing
                        && parts.owner.stored == parts
                        && parts.get(part.number) == part
                        && parts.isLoaded(part.number)
                        && table.length == parts.buckets;
                if (!isCurrent) {
                    return false;
                }
                Object[] nodes = form(parts).takeOut(collection, part);
                PartIdentity[] left = new PartIdentity[nodes.length];
                for (int i = 0; i < left.length; i++) {
                    left[i] = (PartIdentity) engine.table.find(nodes[i]);
                }
                parts.unloaded(part, left);
                return true;
            }
        }
    }
}
