package cedrat.persist.killed;

import cedrat.persist.Persistence;
import cedrat.persist.PersistenceOptions;
import cedrat.persist.Transaction;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;

/// A process that changes worlds in a store, and collects what they have lost, until it is killed: `DIRECTORY
/// SEED THREADS PHASE`.
///
/// It first compares what it finds with what as many steps make of a new world in memory, and says `found
/// THREAD STEPS`; then it goes on, and says `ack THREAD STEPS` of each step that is durable. Whenever it
/// enters the phase in which it is to be killed it says `begin`, and when it has left it `end`.
public final class Killed {
    private static final int ROLLED_BACK_PERCENT = 10;
    /// So few bytes that nearly all is let go of.
    private static final int FEW_BYTES = 4_000;
    /// Of each thread, before the store is closed.
    private static final int STEPS_TO_FLUSH = 15;

    private final Path directory;
    private final long seed;
    private final int threads;
    private final Phase phase;

    private Killed(String[] arguments) {
        directory = Path.of(arguments[0]);
        seed = Long.parseLong(arguments[1]);
        threads = Integer.parseInt(arguments[2]);
        phase = Phase.valueOf(arguments[3]);
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

    /// Opens the store, and has threads change it: to be closed in the end in the phase that is for this,
    /// else for ever.
    private void session() throws InterruptedException {
        PersistenceOptions options = new PersistenceOptions();
        if (phase == Phase.LETTING_GO) {
            options.loadedBytesMax(FEW_BYTES);
        }
        enter(Phase.CLASS_CHANGE);
        Persistence persistence = Persistence.open(directory, options);
        List<World> worlds = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            World world = persistence.lookup("world " + thread);
            if (world == null) {
                world = new World();
                persistence.mark("world " + thread, world);
            }
            compare(world, seed, thread);
            worlds.add(world);
        }
        leave(Phase.CLASS_CHANGE);
        List<Thread> running = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            int number = thread;
            running.add(Thread.ofPlatform().start(() -> run(worlds.get(number), number)));
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

    private void enter(Phase entered) {
        if (entered == phase) {
            say("begin");
        }
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

    private void run(World world, int thread) {
        SplittableRandom chance = new SplittableRandom(System.nanoTime());
        for (int step = 0; phase != Phase.FLUSH || step < STEPS_TO_FLUSH; step++) {
            boolean isRolledBack = chance.nextInt(100) < ROLLED_BACK_PERCENT;
            // The first transactions after a class has changed belong to that.
            Phase part = phase == Phase.LETTING_GO || phase == Phase.CLASS_CHANGE ? phase : Phase.COMMIT;
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
                say("ack " + thread + " " + world.steps);
            }
        }
    }

    private void collect(Persistence persistence) {
        while (true) {
            enter(Phase.COLLECTION);
            persistence.collect();
            leave(Phase.COLLECTION);
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
