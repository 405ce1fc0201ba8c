package cedrat.persist.killed;

import cedrat.persist.Persistence;
import cedrat.persist.PersistenceOptions;
import cedrat.persist.Transaction;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;

/// A process that changes worlds in a store, and collects what they have lost, until it is killed: `DIRECTORY SEED
/// THREADS`.
///
/// It first compares what it finds with what as many steps make of a new world in memory, and says
/// `found THREAD STEPS`; then it goes on, and says `ack THREAD STEPS` of each step that is durable.
public final class Killed {
    private static final int ROLLED_BACK_PERCENT = 10;

    private Killed() {}

    /// Runs.
    public static void main(String[] arguments) throws Exception {
        long seed = Long.parseLong(arguments[1]);
        int threads = Integer.parseInt(arguments[2]);
        try (Persistence persistence = Persistence.open(Path.of(arguments[0]), new PersistenceOptions())) {
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
            List<Thread> running = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                int number = thread;
                running.add(Thread.ofPlatform().start(() -> run(worlds.get(number), seed, number)));
            }
            running.add(Thread.ofPlatform().start(() -> collect(persistence)));
            for (Thread thread : running) {
                thread.join();
            }
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

    private static void run(World world, long seed, int thread) {
        SplittableRandom chance = new SplittableRandom(System.nanoTime());
        while (true) {
            boolean isRolledBack = chance.nextInt(100) < ROLLED_BACK_PERCENT;
            Transaction.run(transaction -> {
                world.step(random(seed, thread, world.steps));
                if (isRolledBack) {
                    world.step(chance.split());
                    transaction.rollback();
                }
            });
            if (!isRolledBack) {
                say("ack " + thread + " " + world.steps);
            }
        }
    }

    private static void collect(Persistence persistence) {
        while (true) {
            persistence.collect();
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
