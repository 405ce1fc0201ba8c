package cedrat.persist;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.IntStream;

/// A store in memory that believes nothing: each commit is decoded, checked to its last byte, and applied to a
/// copy. It is opened anew as often as a test likes.
///
/// **Threads:** any.
public final class MemoryGraph {
    private static final int NEW = 0xff;
    private static final int CONSTANT = 9;

    private final Map<Long, byte[]> objects = new HashMap<>();
    private final Map<String, Long> roots = new TreeMap<>();
    /// Null of those that were dropped.
    private final List<byte[]> classes = new ArrayList<>();
    /// Since a collection has begun.
    private final Set<Long> readSince = new HashSet<>();
    /// By their names, in hexadecimal digits.
    private final Map<String, Decoded> branches = new TreeMap<>();
    /// Branches that an operator has ended, and whether each was committed.
    private final Map<String, Boolean> heuristic = new TreeMap<>();
    private long lastIdentity = 1 << 16;
    private long lsn;
    private long durable;
    /// How far was waited for, each time.
    private final List<Long> waits = new ArrayList<>();

    private long written;
    private long reads;
    private boolean refusesCommits;
    private boolean refusesSyncs;
    private boolean refusesClosing;
    private boolean isStopped;
    private Error thrownBehindCommits;
    private Runnable beforeWait = () -> {};
    private Runnable beforeDrop = () -> {};

    /// The name of each.
    public static final String NAME = "a store in memory";

    /// Opens it.
    public GraphStore open() {
        isStopped = false;
        refusesSyncs = false;
        refusesClosing = false;
        refusesCommits = false;
        thrownBehindCommits = null;
        return new Opened();
    }

    /// From here on each commit is refused, or not.
    public synchronized void refuseCommits(boolean refuses) {
        refusesCommits = refuses;
    }

    /// Makes each later commit succeed and throw this error at its caller.
    public synchronized void throwBehindCommits(Error error) {
        thrownBehindCommits = error;
    }

    /// From here on each wait fails, and the store is stopped.
    public synchronized void refuseSyncs() {
        refusesSyncs = true;
    }

    /// From here on closing fails.
    public synchronized void refuseClosing() {
        refusesClosing = true;
    }

    /// Does something at the beginning of the next wait.
    public synchronized void beforeWait(Runnable action) {
        beforeWait = action;
    }

    private synchronized Runnable takeBeforeDrop() {
        Runnable taken = beforeDrop;
        beforeDrop = () -> {};
        return taken;
    }

    private synchronized Runnable takeBeforeWait() {
        Runnable taken = beforeWait;
        beforeWait = () -> {};
        return taken;
    }

    /// Returns the number of bytes of all commits so far.
    public synchronized long written() {
        return written;
    }

    /// Returns the number of objects read so far.
    public synchronized long reads() {
        return reads;
    }

    /// Returns the number of objects.
    public synchronized int size() {
        return objects.size();
    }

    /// Returns the newest commit that a caller has waited for.
    public synchronized long durable() {
        return durable;
    }

    /// Returns the number of waits.
    public synchronized int waits() {
        return waits.size();
    }

    /// The last commit.
    public synchronized long lsn() {
        return lsn;
    }

    /// Returns the number of definitions of classes, dropped ones included.
    public synchronized int classes() {
        return classes.size();
    }

    /// Returns the number of dropped definitions.
    public synchronized int droppedClasses() {
        return Collections.frequency(classes, null);
    }

    /// Does something when the next collection has found the classes without objects.
    public synchronized void beforeDrop(Runnable action) {
        beforeDrop = action;
    }

    /// Returns the numbers of the classes that some objects, or names, have or refer to by a constant.
    private Set<Integer> used(java.util.Collection<byte[]> objects, java.util.Collection<Long> roots) {
        Set<Integer> used = new HashSet<>();
        roots.forEach(word -> addConstant(word, used));
        for (byte[] bytes : objects) {
            ByteBuffer object = wrap(bytes);
            used.add(object.getInt());
            for (int at = 8 + object.getInt(4); at < object.limit(); at += 8) {
                addConstant(object.getLong(at), used);
            }
        }
        return used;
    }

    private static void addConstant(long word, Set<Integer> used) {
        if (word >>> 56 == CONSTANT) {
            used.add((int) (word >>> 24));
        }
    }

    /// From here on no definition of a class of the program says whether that was abstract, as older ones do not.
    public synchronized void clearVersionsOfClasses() {
        for (int i = 0; i < classes.size(); i++) {
            if (classes.get(i) == null) {
                continue;
            }
            byte[] definition = classes.get(i).clone();
            if (definition[1] == 1) {
                definition[2] = 0;
            }
            classes.set(i, definition);
        }
    }

    private static ByteBuffer wrap(byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static int padded(int length) {
        return length + 7 & -8;
    }

    /// A commit that is being decoded.
    private final class Decoded {
        /// New bytes of the objects that the commit writes.
        private final Map<Long, byte[]> objects = new HashMap<>();
        /// The names that the commit gives, and takes away by 0.
        private final Map<String, Long> roots = new TreeMap<>();
        private final List<Long> identities = new ArrayList<>();
        private final List<byte[]> classes = new ArrayList<>();
        private final ByteBuffer in;
        /// Number of classes that there are with those of the commit.
        private int allClasses;

        Decoded(byte[] buffer, int length) {
            check(length > 0 && length % 8 == 0, "a buffer of " + length + " bytes");
            in = wrap(Arrays.copyOf(buffer, length));
            countNew();
            in.position(0);
            int next = 0;
            while (in.hasRemaining()) {
                int kind = in.getInt();
                int bytes = in.getInt();
                switch (kind) {
                    case 1 -> objects.put(identities.get(next++), object(take(bytes)));
                    case 2 -> patch(bytes);
                    case 3 -> {
                        long identity = known(in.getLong());
                        objects.put(identity, object(take(bytes)));
                    }
                    case 4 -> root(bytes);
                    case 5 -> define(bytes);
                    default -> throw new AssertionError("an entry of kind " + kind);
                }
            }
        }

        private void countNew() {
            int defined = 0;
            while (in.hasRemaining()) {
                int kind = in.getInt();
                int bytes = in.getInt();
                check(bytes >= 0, "an entry of " + bytes + " bytes");
                if (kind == 1) {
                    identities.add(lastIdentity + 1 + identities.size());
                }
                defined += kind == 5 ? 1 : 0;
                int more = kind == 1 ? 0 : kind == 2 ? 16 : 8;
                in.position(in.position() + more + padded(bytes));
            }
            allClasses = MemoryGraph.this.classes.size() + defined;
        }

        private byte[] take(int length) {
            byte[] bytes = new byte[length];
            in.get(bytes);
            for (int i = length; i < padded(length); i++) {
                check(in.get() == 0, "the padding of an entry is no zeros");
            }
            return bytes;
        }

        private long known(long identity) {
            check(MemoryGraph.this.objects.containsKey(identity), "an object " + identity + " that is not there");
            return identity;
        }

        private long reference(long word) {
            int tag = (int) (word >>> 56);
            if (tag == NEW) {
                return identities.get((int) word);
            }
            check(tag != 0 || word == 0 || MemoryGraph.this.objects.containsKey(word), "a reference to " + word);
            return word;
        }

        private byte[] object(byte[] bytes) {
            ByteBuffer object = wrap(bytes);
            check(bytes.length >= 8 && bytes.length % 8 == 0, "an object of " + bytes.length + " bytes");
            int number = object.getInt();
            check(number > 0 && number <= allClasses, "class " + number + " of " + allClasses);
            int data = object.getInt();
            check(data >= 0 && data % 8 == 0 && data <= bytes.length - 8, "data of " + data + " bytes");
            for (int at = 8 + data; at < bytes.length; at += 8) {
                object.putLong(at, reference(object.getLong(at)));
            }
            return bytes;
        }

        private void patch(int length) {
            long identity = known(in.getLong());
            int offset = in.getInt();
            check(in.getInt() == 0, "no zero in a patch");
            byte[] bytes = take(length);
            byte[] old = objects.getOrDefault(identity, MemoryGraph.this.objects.get(identity));
            byte[] changed = Arrays.copyOf(old, padded(Math.max(old.length, offset + length)));
            int references = 8 + wrap(old).getInt(4);
            check(offset >= 8 && length > 0, "a patch of " + length + " bytes at " + offset);
            if (offset + length > references) {
                check((offset + length) % 8 == 0 && (offset < references || offset % 8 == 0), "a part of a reference");
            }
            System.arraycopy(bytes, 0, changed, offset, length);
            ByteBuffer words = wrap(changed);
            for (int at = Math.max(references, offset); at < offset + length; at += 8) {
                words.putLong(at, reference(words.getLong(at)));
            }
            objects.put(identity, changed);
        }

        private void root(int length) {
            long word = reference(in.getLong());
            String name = new String(take(length), StandardCharsets.UTF_8);
            roots.put(name, word);
        }

        private void define(int length) {
            int number = in.getInt();
            check(in.getInt() == 0, "no zero in a definition");
            classes.add(take(length));
            int expected = MemoryGraph.this.classes.size() + classes.size();
            check(number == expected, "class " + number + " is defined in place of class " + expected);
        }

        /// Its classes are there from now on.
        void defineClasses() {
            MemoryGraph.this.classes.addAll(classes);
            classes.clear();
        }

        /// Its new objects have their identities from now on.
        long[] promise() {
            lastIdentity += identities.size();
            return identities.stream().mapToLong(identity -> identity).toArray();
        }

        void apply() {
            defineClasses();
            MemoryGraph.this.objects.putAll(objects);
            MemoryGraph.this.roots.putAll(roots);
            MemoryGraph.this.roots.values().removeIf(word -> word == 0);
        }

        /// The objects that were there before.
        Set<Long> changed() {
            Set<Long> changed = new HashSet<>(objects.keySet());
            identities.forEach(changed::remove);
            return changed;
        }

        void refuse() throws GraphStoreException {
            for (int used : used(objects.values(), roots.values())) {
                if (used <= MemoryGraph.this.classes.size() && MemoryGraph.this.classes.get(used - 1) == null) {
                    throw GraphStoreException.conflict("class " + used + " was dropped");
                }
            }
            refuseIfInDoubt();
        }

        private void refuseIfInDoubt() throws GraphStoreException {
            for (Map.Entry<String, Decoded> branch : branches.entrySet()) {
                boolean meets = !Collections.disjoint(branch.getValue().objects.keySet(), objects.keySet())
                        || !Collections.disjoint(branch.getValue().roots.keySet(), roots.keySet());
                if (meets) {
                    throw GraphStoreException.inDoubt("the branch " + branch.getKey() + " is in doubt");
                }
            }
        }
    }

    /// The store that one opening returns.
    /// Ends all branches in doubt, as an operator would.
    public synchronized void resolve(boolean commits) {
        branches.forEach((branch, changes) -> {
            if (commits) {
                changes.apply();
            }
            heuristic.put(branch, commits);
        });
        branches.clear();
    }

    private final class Opened implements GraphStore {
        private boolean isClosed;

        private void enter() throws GraphStoreException {
            check(!isClosed, "the store is used although it is closed");
            if (isStopped) {
                throw new GraphStoreException("it has stopped", null, true);
            }
        }

        @Override
        public String name() {
            return NAME;
        }

        @Override
        public List<byte[]> classes(int first) throws GraphStoreException {
            synchronized (MemoryGraph.this) {
                enter();
                return new ArrayList<>(classes.subList(first - 1, classes.size()));
            }
        }

        @Override
        public Map<String, Long> roots() throws GraphStoreException {
            synchronized (MemoryGraph.this) {
                enter();
                return Map.copyOf(roots);
            }
        }

        /// Marks when it begins, marks again and removes all at once when it is sealed.
        @Override
        public Collection collect(long[] alive) throws GraphStoreException {
            synchronized (MemoryGraph.this) {
                enter();
                readSince.clear();
                Set<Long> marked = new HashSet<>();
                roots.values().forEach(word -> mark(word, marked));
                Arrays.stream(alive).forEach(word -> mark(word, marked));
                long newest = lastIdentity;
                int defined = classes.size();
                int before = objects.size();
                return new Collection() {
                    private Stage stage = Stage.MARKED;
                    private long removed;

                    @Override
                    public Stage step(int budget) {
                        return stage = stage == Stage.SWEEPING ? Stage.DONE : stage;
                    }

                    @Override
                    public Stage seal(long[] alive) {
                        synchronized (MemoryGraph.this) {
                            Arrays.stream(alive).forEach(word -> mark(word, marked));
                            readSince.forEach(word -> mark(word, marked));
                            objects.keySet().stream()
                                    .filter(word -> word > newest)
                                    .toList()
                                    .forEach(word -> mark(word, marked));
                            int all = objects.size();
                            objects.keySet().removeIf(word -> !marked.contains(word));
                            removed = all - objects.size();
                            check(before >= removed, "more was removed than there was");
                        }
                        return stage = Stage.SWEEPING;
                    }

                    @Override
                    public long removed() {
                        return removed;
                    }

                    @Override
                    public int[] unusedClasses() {
                        synchronized (MemoryGraph.this) {
                            Set<Integer> used = used(objects.values(), roots.values());
                            return IntStream.rangeClosed(1, branches.isEmpty() ? defined : 0)
                                    .filter(number -> classes.get(number - 1) != null && !used.contains(number))
                                    .toArray();
                        }
                    }

                    @Override
                    public boolean dropClasses(int[] unused) {
                        takeBeforeDrop().run();
                        synchronized (MemoryGraph.this) {
                            Set<Integer> all = new HashSet<>();
                            Arrays.stream(unusedClasses()).forEach(all::add);
                            boolean drops = Arrays.stream(unused).allMatch(all::contains);
                            if (drops) {
                                Arrays.stream(unused).forEach(number -> classes.set(number - 1, null));
                            }
                            return drops;
                        }
                    }

                    @Override
                    public void close() {}
                };
            }
        }

        private void mark(long first, Set<Long> marked) {
            ArrayDeque<Long> waiting = new ArrayDeque<>(List.of(first));
            for (Long word; (word = waiting.poll()) != null; ) {
                if (word == 0 || word >>> 56 != 0 || !marked.add(word)) {
                    continue;
                }
                ByteBuffer object = wrap(objects.get(word));
                for (int at = 8 + object.getInt(4); at < object.limit(); at += 8) {
                    waiting.add(object.getLong(at));
                }
            }
        }

        @Override
        public byte[] read(long identity) throws GraphStoreException {
            synchronized (MemoryGraph.this) {
                enter();
                reads++;
                readSince.add(identity);
                byte[] bytes = objects.get(identity);
                check(bytes != null, "an object " + identity + " is read that is not there");
                return bytes.clone();
            }
        }

        @Override
        public Committed commit(byte[] buffer, int length) throws GraphStoreException {
            synchronized (MemoryGraph.this) {
                enter();
                if (refusesCommits) {
                    throw new GraphStoreException("the disk is full", null, false);
                }
                Decoded decoded = new Decoded(buffer, length);
                decoded.refuse();
                decoded.apply();
                written += length;
                Committed committed = new Committed(decoded.promise(), ++lsn);
                if (thrownBehindCommits != null) {
                    throw thrownBehindCommits;
                }
                return committed;
            }
        }

        @Override
        public long[] prepare(byte[] buffer, int length, byte[] branch) throws GraphStoreException {
            synchronized (MemoryGraph.this) {
                enter();
                if (refusesCommits) {
                    throw new GraphStoreException("the disk is full", null, false);
                }
                Decoded decoded = new Decoded(buffer, length);
                decoded.refuse();
                decoded.defineClasses();
                check(branches.putIfAbsent(HexFormat.of().formatHex(branch), decoded) == null, "a branch twice");
                durable = ++lsn;
                return decoded.promise();
            }
        }

        @Override
        public void commitPrepared(byte[] branch) throws GraphStoreException {
            synchronized (MemoryGraph.this) {
                enter();
                branches.remove(HexFormat.of().formatHex(branch)).apply();
                durable = ++lsn;
            }
        }

        @Override
        public void rollbackPrepared(byte[] branch) throws GraphStoreException {
            synchronized (MemoryGraph.this) {
                enter();
                check(branches.remove(HexFormat.of().formatHex(branch)) != null, "no such branch");
                durable = ++lsn;
            }
        }

        @Override
        public List<byte[]> inDoubt() throws GraphStoreException {
            synchronized (MemoryGraph.this) {
                enter();
                return branches.keySet().stream().map(HexFormat.of()::parseHex).toList();
            }
        }

        @Override
        public List<Heuristic> heuristic() throws GraphStoreException {
            synchronized (MemoryGraph.this) {
                enter();
                return heuristic.entrySet().stream()
                        .map(ended -> new Heuristic(HexFormat.of().parseHex(ended.getKey()), ended.getValue()))
                        .toList();
            }
        }

        @Override
        public void forget(byte[] branch) throws GraphStoreException {
            synchronized (MemoryGraph.this) {
                enter();
                check(heuristic.remove(HexFormat.of().formatHex(branch)) != null, "no such outcome");
            }
        }

        @Override
        public Changed changedBy(byte[] branch) throws GraphStoreException {
            synchronized (MemoryGraph.this) {
                enter();
                Decoded found = branches.get(HexFormat.of().formatHex(branch));
                long[] identities =
                        found.changed().stream().mapToLong(identity -> identity).toArray();
                return new Changed(identities, List.copyOf(found.roots.keySet()));
            }
        }

        @Override
        public void waitDurable(long upTo) throws GraphStoreException {
            check(!Thread.currentThread().isVirtual(), "a virtual thread keeps its carrier");
            takeBeforeWait().run();
            synchronized (MemoryGraph.this) {
                if (isClosed) {
                    throw new GraphStoreException("the store is closed", null, false);
                }
                enter();
                check(upTo <= lsn, "a wait for what was not committed");
                if (refusesSyncs) {
                    isStopped = true;
                    throw new GraphStoreException("a sync has failed", null, true);
                }
                durable = Math.max(durable, upTo);
                waits.add(upTo);
            }
        }

        @Override
        public void close() throws GraphStoreException {
            synchronized (MemoryGraph.this) {
                boolean fails = refusesClosing && !isClosed;
                isClosed = true;
                if (fails) {
                    throw new GraphStoreException("a sync has failed", null, true);
                }
                durable = lsn;
            }
        }
    }
}
