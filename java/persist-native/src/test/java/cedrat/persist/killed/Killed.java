package cedrat.persist.killed;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.InDoubtException;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import cedrat.persist.nativestore.NativeProvider;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/// A process that changes worlds in a store, and collects what they have lost, until it is killed: `DIRECTORY
/// SEED THREADS PHASE BEGINS`.
///
/// It first ends what is in doubt, as the [Coordinator] has decided, and says `doubt COMMITTED ROLLED-BACK`.
/// Then it compares what it finds with what as many steps make of a new world in memory, and says `found
/// THREAD STEPS`; then it goes on, and says `ack THREAD STEPS` of each step that is durable. Whenever it
/// enters the phase in which it is to be killed, and has acknowledged enough, it says `begin`, and when it has
/// left it `end`; it is killed when it has begun BEGINS times.
public final class Killed {
    private static final int ROLLED_BACK_PERCENT = 10;
    /// Percentage of the steps that are done in a branch, if there are branches.
    private static final int BRANCH_PERCENT = 80;
    /// A limit so low that nearly all objects are unloaded.
    private static final int FEW_BYTES = 4_000;
    /// While there are collections, before so many of the steps something is held.
    private static final int HELD_PERCENT = 20;
    private static final long PAGE_BYTES = 64 << 20;
    /// Minimum number of acknowledged commits before the process is killed.
    static final int ACKNOWLEDGED_MIN = 100;
    /// Of each thread, before the store is closed.
    private static final int STEPS_TO_FLUSH = 15;

    private final Path directory;
    private final long seed;
    private final int threads;
    private final Phase phase;
    /// When it is to be killed.
    private final int begins;
    private final Coordinator coordinator;
    /// So often the phase has begun. Its monitor guards it.
    private int begun;
    private final Fault fault = Fault.planted();
    private final AtomicInteger acknowledged = new AtomicInteger();
    /// Number of garbage collections that have ended. This object's monitor guards it.
    private long collections;

    private Killed(String[] arguments) throws IOException {
        directory = Path.of(arguments[0]);
        seed = Long.parseLong(arguments[1]);
        threads = Integer.parseInt(arguments[2]);
        phase = Phase.valueOf(arguments[3]);
        begins = Integer.parseInt(arguments[4]);
        coordinator = Coordinator.open(directory.resolveSibling(directory.getFileName() + ".decisions"));
    }

    /// Runs.
    public static void main(String[] arguments) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> {
            thrown.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        Killed killed = new Killed(arguments);
        while (true) {
            killed.session();
        }
    }

    /// Opens the store, and has threads change it: the store is closed in the end in the phase that is for this;
    /// otherwise the threads go on without end.
    private void session() throws InterruptedException, GraphStoreException, XAException {
        StoreOptions options = new StoreOptions();
        if (phase == Phase.LETTING_GO) {
            options.loadedBytesMax(FEW_BYTES);
        }
        enter(Phase.CLASS_CHANGE);
        GraphStore store = new NativeProvider().open(directory, PAGE_BYTES);
        Store persistence = Store.open(fault.in(store), options);
        Map<Integer, Long> decided = endWhatIsInDoubt(persistence);
        List<World> worlds = new ArrayList<>();
        List<Drawer> drawers = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            World world = persistence.root("world " + thread, World.class);
            if (world == null) {
                world = new World();
                persistence.setRoot("world " + thread, world);
            }
            long steps = decided.getOrDefault(thread, world.steps);
            if (world.steps != steps) {
                throw new AssertionError("thread " + thread + " has made " + world.steps + " steps, not " + steps);
            }
            compare(world, seed, thread);
            worlds.add(world);
            drawers.add(drawer(persistence, "drawer " + thread));
        }
        leave(Phase.CLASS_CHANGE);
        List<Thread> running = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            int number = thread;
            running.add(Thread.ofPlatform()
                    .start(() -> run(persistence.xaResource(), worlds.get(number), drawers.get(number), number)));
        }
        if (phase != Phase.FLUSH) {
            running.add(Thread.ofPlatform().start(() -> collect(persistence)));
        }
        for (Thread thread : running) {
            thread.join();
        }
        enter(Phase.FLUSH);
        persistence.close();
        leave(Phase.FLUSH);
    }

    /// Ends the branches in doubt: before, the objects that they changed are of the threads' worlds and cannot be read;
    /// afterwards none is in doubt. Returns the expected number of steps of each thread that had a branch in doubt.
    private Map<Integer, Long> endWhatIsInDoubt(Store persistence) throws XAException {
        XAResource resource = persistence.xaResource();
        Map<Integer, Long> decided = new HashMap<>();
        int committed = 0;
        int rolledBack = 0;
        for (Xid found : resource.recover(XAResource.TMSTARTRSCAN)) {
            Coordinator.Id branch = Coordinator.Id.of(found);
            String name = "world " + branch.thread();
            try {
                throw new AssertionError(name + " is in doubt, and there is " + persistence.root(name, Object.class));
            } catch (InDoubtException expected) {
                // Which branch it is, the store knows as well as we do.
            }
            if (coordinator.end(resource, branch)) {
                decided.put(branch.thread(), branch.steps());
                committed++;
            } else {
                decided.put(branch.thread(), branch.steps() - 1);
                rolledBack++;
            }
        }
        int left = resource.recover(XAResource.TMSTARTRSCAN).length;
        if (left != 0) {
            throw new AssertionError(left + " branches are in doubt after all have ended");
        }
        if (committed + rolledBack != 0) {
            // Nothing is loaded yet: what it leaves is what the store alone knows to be needed.
            persistence.collect();
        }
        say("doubt " + committed + " " + rolledBack);
        return decided;
    }

    private Drawer drawer(Store persistence, String name) {
        Drawer drawer = persistence.root(name, Drawer.class);
        if (drawer == null) {
            drawer = new Drawer();
            persistence.setRoot(name, drawer);
        }
        drawer.open(fault);
        return drawer;
    }

    /// Returns whether it is here that the process is killed.
    private boolean enter(Phase entered) {
        if (entered != phase || !isEnoughAcknowledged()) {
            return false;
        }
        say("begin");
        synchronized (this) {
            return ++begun == begins;
        }
    }

    /// Before a store is opened, those of the processes before have to do.
    private boolean isEnoughAcknowledged() {
        return acknowledged.get() >= ACKNOWLEDGED_MIN || phase == Phase.CLASS_CHANGE;
    }

    private void acknowledge(int thread, long steps) {
        say("ack " + thread + " " + steps);
        // In this order: the test has read as many as are counted when a thread says that a phase begins.
        acknowledged.incrementAndGet();
    }

    private void leave(Phase left) {
        if (left == phase) {
            say("end");
        }
    }

    private static void compare(World world, long seed, int thread) {
        World model = new World();
        while (model.steps < world.steps) {
            model.step(random(seed, thread, model.steps));
        }
        String expected = Canonical.of(model);
        String found = Canonical.of(world);
        if (!expected.equals(found)) {
            throw new AssertionError("after " + world.steps + " steps of thread " + thread + " there is\n" + found
                    + "\ninstead of\n" + expected);
        }
        say("found " + thread + " " + world.steps);
    }

    private static SplittableRandom random(long seed, int thread, long step) {
        return new SplittableRandom(seed * 31 + thread * 1_000_003L + step * 65_537);
    }

    private void run(XAResource resource, World world, Drawer drawer, int thread) {
        SplittableRandom chance = new SplittableRandom(System.nanoTime());
        for (int step = 0; phase != Phase.FLUSH || step < STEPS_TO_FLUSH; step++) {
            if (phase == Phase.COLLECTION && chance.nextInt(100) < HELD_PERCENT) {
                hold(drawer);
            }
            if (phase.hasBranches() && chance.nextInt(100) < BRANCH_PERCENT) {
                try {
                    branch(resource, world, thread, chance);
                } catch (XAException | IOException | InterruptedException e) {
                    throw new AssertionError("a branch fails", e);
                }
            } else {
                transaction(world, thread, chance);
            }
        }
    }

    private void transaction(World world, int thread, SplittableRandom chance) {
        boolean isRolledBack = isRolledBack(chance);
        // The first transactions after a class has changed belong to that.
        Phase part = phase == Phase.LETTING_GO || phase == Phase.CLASS_CHANGE ? phase : Phase.APPEND;
        enter(part);
        Transaction.run(transaction -> {
            world.step(random(seed, thread, world.steps));
            if (isRolledBack) {
                world.step(chance.split());
                transaction.rollback();
            }
        });
        leave(part);
        if (!isRolledBack) {
            acknowledge(thread, world.steps);
        }
    }

    /// A step as a branch, which commits if that was written down. Nothing is left of it if it is rolled back to end a
    /// deadlock, which a branch is as any transaction: the threads share pages of the store.
    private void branch(XAResource resource, World world, int thread, SplittableRandom chance)
            throws XAException, IOException, InterruptedException {
        boolean isRolledBack = isRolledBack(chance);
        boolean waitsUndecided = chance.nextBoolean();
        Coordinator.Id id = new Coordinator.Id(UUID.randomUUID(), thread, world.steps + 1);
        resource.start(id, XAResource.TMNOFLAGS);
        Transaction.run(() -> world.step(random(seed, thread, world.steps)));
        resource.end(id, XAResource.TMSUCCESS);
        enter(Phase.PREPARE);
        int vote;
        try {
            vote = resource.prepare(id);
        } catch (XAException e) {
            if (e.errorCode != XAException.XA_RBDEADLOCK) {
                throw e;
            }
            return;
        } finally {
            leave(Phase.PREPARE);
        }
        if (vote != XAResource.XA_OK) {
            throw new AssertionError("a step is a change, and the vote was " + vote);
        }
        boolean isLast = enter(Phase.PREPARED);
        if (isLast && waitsUndecided) {
            awaitTheEnd();
        }
        if (!isRolledBack) {
            coordinator.commits(id.number());
            // Whatever happens from here on.
            acknowledge(thread, id.steps());
        }
        if (isLast) {
            awaitTheEnd();
        }
        leave(Phase.PREPARED);
        enter(Phase.OUTCOME);
        if (isRolledBack) {
            resource.rollback(id);
        } else {
            resource.commit(id, false);
        }
        leave(Phase.OUTCOME);
    }

    private static boolean isRolledBack(SplittableRandom chance) {
        return chance.nextInt(100) < ROLLED_BACK_PERCENT;
    }

    private static void awaitTheEnd() throws InterruptedException {
        new CountDownLatch(1).await();
    }

    /// Removes the content of a drawer, and puts it back after a garbage collection during which only this thread has
    /// held it.
    private void hold(Drawer drawer) {
        Drawer.Content held = drawer.take();
        try {
            awaitCollection();
        } catch (InterruptedException e) {
            throw new AssertionError("unexpected interrupt", e);
        }
        drawer.put(held);
    }

    private synchronized void awaitCollection() throws InterruptedException {
        // That which is under way has begun before.
        for (long enough = collections + 2; collections < enough; ) {
            wait();
        }
    }

    private void collect(Store persistence) {
        while (true) {
            enter(Phase.COLLECTION);
            persistence.collect();
            leave(Phase.COLLECTION);
            synchronized (this) {
                collections++;
                notifyAll();
            }
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
