package cedrat.persist.memory;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.DoubleAdder;
import java.util.concurrent.atomic.LongAdder;

/// The state of a collection of `java.util.concurrent` before a transaction changes it, or the sum of an adder.
///
/// - It is restored without a call of the program: neither hash codes nor comparisons are needed. A rollback may be
///   that of a deadlock, in the middle of any method.
///
/// Threads outside of transactions may read a collection while it is restored. They find old or new elements. So a
/// structure whose readers unlink removed nodes gets other nodes: a reader may still be at the former ones.
///
/// **Threads:** one at a time, which has locked the collection.
public abstract class ConcurrentState {
    private static final long SET_MAP = Memory.offset(ConcurrentSkipListSet.class, "m");
    private static final long SET_LIST = Memory.offset(CopyOnWriteArraySet.class, "al");

    /// Puts the state back.
    ///
    /// @param inner as [#of] got it
    abstract void restore(Object inner);

    /// Whether objects of a class can be persistent, and have their state saved as a whole.
    public static boolean isKept(Object object) {
        Class<?> type = object.getClass();
        return type == ConcurrentHashMap.class
                || type == ConcurrentSkipListMap.class
                || type == CopyOnWriteArrayList.class
                || type == ConcurrentHashMap.KeySetView.class
                || type == ConcurrentSkipListSet.class
                || type == CopyOnWriteArraySet.class
                || type == LongAdder.class
                || type == DoubleAdder.class
                || isQueue(type);
    }

    private static boolean isQueue(Class<?> type) {
        return type == ConcurrentLinkedQueue.class
                || type == ConcurrentLinkedDeque.class
                || type == LinkedBlockingQueue.class
                || type == LinkedBlockingDeque.class
                || type == ArrayBlockingQueue.class;
    }

    /// Returns the collection that a set has its elements in, or the object itself.
    public static Object inner(Object object) {
        return switch (object) {
            case ConcurrentSkipListSet<?> set -> Memory.getReference(set, SET_MAP);
            case CopyOnWriteArraySet<?> set -> Memory.getReference(set, SET_LIST);
            case ConcurrentHashMap.KeySetView<?, ?> view -> view.getMap();
            default -> object;
        };
    }

    /// Returns the present state.
    ///
    /// @param inner an object of such a class, of a set the inner one
    public static ConcurrentState of(Object inner) {
        return switch (inner) {
            case ConcurrentHashMap<?, ?> map -> new Table(map);
            case ConcurrentSkipListMap<?, ?> map -> new Levels(map);
            case CopyOnWriteArrayList<?> list -> new Snapshot(list);
            case LongAdder adder -> new LongSum(adder.sum());
            case DoubleAdder adder -> new DoubleSum(adder.sum());
            case Queue<?> queue -> new Elements(queue);
            default -> throw new AssertionError(inner.getClass());
        };
    }

    /// A list that never changes an array.
    private static final class Snapshot extends ConcurrentState {
        private static final long ARRAY = Memory.offset(CopyOnWriteArrayList.class, "array");

        private final Object array;

        Snapshot(Object list) {
            array = Memory.getReference(list, ARRAY);
        }

        @Override
        void restore(Object inner) {
            Memory.putReference(inner, ARRAY, array);
        }
    }

    /// A queue.
    private static final class Elements extends ConcurrentState {
        private final Object[] elements;

        Elements(Queue<?> queue) {
            elements = queue.toArray();
        }

        @Override
        @SuppressWarnings("unchecked")
        void restore(Object inner) {
            Collection<Object> queue = (Collection<Object>) inner;
            queue.clear();
            for (Object element : elements) {
                queue.add(element);
            }
        }
    }

    private static final class LongSum extends ConcurrentState {
        private final long sum;

        LongSum(long sum) {
            this.sum = sum;
        }

        @Override
        void restore(Object inner) {
            ((LongAdder) inner).reset();
            ((LongAdder) inner).add(sum);
        }
    }

    private static final class DoubleSum extends ConcurrentState {
        private final double sum;

        DoubleSum(double sum) {
            this.sum = sum;
        }

        @Override
        void restore(Object inner) {
            ((DoubleAdder) inner).reset();
            ((DoubleAdder) inner).add(sum);
        }
    }

    /// A sorted map: a copy, which is made without comparisons, and whose nodes the map gets.
    private static final class Levels extends ConcurrentState {
        private static final long HEAD = Memory.offset(ConcurrentSkipListMap.class, "head");
        private static final long ADDER = Memory.offset(ConcurrentSkipListMap.class, "adder");

        private final ConcurrentSkipListMap<?, ?> copy;

        Levels(ConcurrentSkipListMap<?, ?> map) {
            copy = map.clone();
        }

        @Override
        void restore(Object inner) {
            Memory.putReference(inner, HEAD, Memory.getReference(copy, HEAD));
            Memory.putReference(inner, ADDER, Memory.getReference(copy, ADDER));
        }
    }

    /// A hash table: its array, and what its nodes lead to.
    private static final class Table extends ConcurrentState {
        private static final long TABLE = Memory.offset(ConcurrentHashMap.class, "table");
        private static final long NEXT_TABLE = Memory.offset(ConcurrentHashMap.class, "nextTable");
        private static final long SIZE_CONTROL = Memory.offset(ConcurrentHashMap.class, "sizeCtl");
        private static final long BASE_COUNT = Memory.offset(ConcurrentHashMap.class, "baseCount");
        private static final long COUNTER_CELLS = Memory.offset(ConcurrentHashMap.class, "counterCells");

        private static final Class<?> NODE = nested("Node");
        private static final long NEXT = Memory.offset(NODE, "next");
        private static final long[] OF_NODE = {Memory.offset(NODE, "val"), NEXT};

        private static final Class<?> TREE_NODE = nested("TreeNode");
        private static final long RED = Memory.offset(TREE_NODE, "red");
        private static final long[] OF_TREE_NODE = {
            Memory.offset(TREE_NODE, "parent"),
            Memory.offset(TREE_NODE, "left"),
            Memory.offset(TREE_NODE, "right"),
            Memory.offset(TREE_NODE, "prev")
        };

        /// Its lock is that of threads that read meanwhile, and stays as it is.
        private static final Class<?> TREE_BIN = nested("TreeBin");

        private static final long FIRST = Memory.offset(TREE_BIN, "first");
        private static final long[] OF_TREE_BIN = {Memory.offset(TREE_BIN, "root"), FIRST};

        /// Some fields of an object, and what they lead to.
        private record References(Object object, long[] fields, Object[] values) {
            static References of(Object object, long[] fields) {
                Object[] values = new Object[fields.length];
                for (int i = 0; i < fields.length; i++) {
                    values[i] = Memory.getReference(object, fields[i]);
                }
                return new References(object, fields, values);
            }

            void restore() {
                for (int i = 0; i < fields.length; i++) {
                    Memory.putReference(object, fields[i], values[i]);
                }
            }
        }

        private final Object[] table;
        private final Object[] bins;
        private final List<References> references = new ArrayList<>();
        private final List<Object> redNodes = new ArrayList<>();
        private final List<Object> blackNodes = new ArrayList<>();
        private final long sizeControl;
        private final long size;

        Table(ConcurrentHashMap<?, ?> map) {
            table = (Object[]) Memory.getReference(map, TABLE);
            bins = table == null ? null : table.clone();
            sizeControl = Memory.getBits(map, SIZE_CONTROL, 'I');
            size = map.mappingCount();
            for (int i = 0; bins != null && i < bins.length; i++) {
                if (bins[i] != null) {
                    add(bins[i]);
                }
            }
        }

        private void add(Object bin) {
            Object node = bin;
            if (TREE_BIN.isInstance(bin)) {
                references.add(References.of(bin, OF_TREE_BIN));
                node = Memory.getReference(bin, FIRST);
            }
            while (node != null) {
                references.add(References.of(node, OF_NODE));
                if (TREE_NODE.isInstance(node)) {
                    references.add(References.of(node, OF_TREE_NODE));
                    (Memory.getBits(node, RED, 'Z') == 0 ? blackNodes : redNodes).add(node);
                }
                node = Memory.getReference(node, NEXT);
            }
        }

        @Override
        void restore(Object inner) {
            references.forEach(References::restore);
            redNodes.forEach(node -> Memory.putBits(node, RED, 'Z', 1));
            blackNodes.forEach(node -> Memory.putBits(node, RED, 'Z', 0));
            if (table != null) {
                System.arraycopy(bins, 0, table, 0, bins.length);
            }
            Memory.putReference(inner, TABLE, table);
            Memory.putReference(inner, NEXT_TABLE, null);
            Memory.putBits(inner, SIZE_CONTROL, 'I', sizeControl);
            Memory.putReference(inner, COUNTER_CELLS, null);
            Memory.putBits(inner, BASE_COUNT, 'J', size);
        }

        private static Class<?> nested(String name) {
            try {
                return Class.forName(ConcurrentHashMap.class.getName() + "$" + name, false, null);
            } catch (ClassNotFoundException e) {
                throw new AssertionError(e);
            }
        }
    }
}
