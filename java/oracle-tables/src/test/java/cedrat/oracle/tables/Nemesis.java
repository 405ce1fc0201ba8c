package cedrat.oracle.tables;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.server.CrashableServer;
import cedrat.oracle.server.cluster.Journal;
import cedrat.oracle.server.cluster.Links;
import java.io.IOException;
import java.time.Duration;
import java.util.SplittableRandom;

/// Draws faults from a seed, and injects them into a [NemesisWorld], one at a time. What it draws in a step does not
/// depend on what the steps before have met.
final class Nemesis {
    private static final int STEPS_BETWEEN_CALMS = 50;
    private static final Duration JUMP = Duration.ofHours(2);

    private final NemesisWorld world;
    private final SplittableRandom seeds;
    private final NemesisServers servers;
    private final Interference interference;
    private final Journal journal;
    /// Number of the faults of servers, of ten drawn ones, that are injected: outcomes are forgotten only where servers
    /// last.
    private final int serverFaults;
    /// Draws the present step.
    private SplittableRandom random;

    Nemesis(NemesisWorld world, SplittableRandom seeds) {
        this.world = world;
        this.seeds = seeds;
        servers = world.servers();
        interference = world.interference();
        journal = world.journal();
        serverFaults = seeds.nextInt(11);
    }

    /// Injects so many faults, and lets transactions run between them.
    void run(int steps) throws Exception {
        for (int step = 1; step <= steps && !world.hasFailed(); step++) {
            random = seeds.split();
            servers.poll();
            int starts = random.nextInt(24);
            if (servers.isServing() ? world.setting().isShared() && starts < 3 : starts < 8) {
                servers.start();
            }
            if (random.nextInt(100) < world.setting().others().perCent()) {
                injectOther();
            } else {
                inject(random.nextInt(100));
            }
            world.awaitTransactions(random.nextInt(40), 1);
            if (step % STEPS_BETWEEN_CALMS == 0) {
                world.calm();
            }
        }
    }

    private void inject(int drawn) throws Exception {
        if (drawn < 50) {
            injectIntoLink(drawn);
        } else if (drawn < 60) {
            injectIntoServer();
        } else if (drawn < 72) {
            injectIntoDisk(drawn);
        } else if (drawn < 80) {
            world.tick(1);
        } else if (drawn < 81) {
            world.tick(CrashableServer.TICKS + 1);
        } else if (drawn < 84) {
            suspendPastExpiry();
        } else if (drawn < 87) {
            interference.set(random.nextInt(60), random.nextInt(6));
        } else if (drawn < 89) {
            interference.set(0, random.nextInt(6));
        } else if (drawn < 90) {
            deliver();
        } else if (drawn < 92) {
            interference.resume();
        } else if (drawn < 94) {
            journal.record("the clock of clients jumps");
            world.clock().jump(JUMP);
        } else if (drawn < 97) {
            world.access().inject(random, servers);
        } else {
            client().end(random);
        }
    }

    /// Delivers what comes late to stores without faults: the nemesis would wait for a store that only it can heal.
    private void deliver() throws Exception {
        world.setting().others().heal();
        interference.deliver();
    }

    private void injectOther() throws Exception {
        if (world.setting().isShared() && servers.isServing() && random.nextInt(4) == 0) {
            cutOff();
        } else {
            world.setting().others().inject(random);
            journal.record(world.setting().others().toString());
        }
    }

    /// Cuts the server that serves off from what elects, until another one serves. The first one may go on meanwhile,
    /// and append.
    private void cutOff() throws Exception {
        CrashableServer before = servers.serving();
        journal.record("the server is cut off from the election");
        world.setting().others().heal();
        world.setting().others().cutOff(servers.log());
        world.await("another server serves", () -> {
            servers.start();
            return servers.isServing() && servers.serving() != before;
        });
        if (random.nextBoolean()) {
            world.setting().others().heal();
        }
    }

    private NemesisClient client() {
        return world.client(random.nextInt(NemesisWorld.CLIENTS));
    }

    private void injectIntoLink(int drawn) {
        int number = random.nextInt(NemesisWorld.MEMBERS);
        Links.Link link = world.link(number, random);
        int bytes = random.nextInt(1, 200);
        if (link == null) {
            return;
        }
        journal.record("fault " + drawn / 5 + " of " + link);
        switch (drawn / 5) {
            case 0 -> link.cut();
            case 1 -> {
                if (number < NemesisWorld.CLIENTS) {
                    world.misdirect(link);
                } else {
                    link.cut();
                }
            }
            case 2 -> link.cutAfter(bytes);
            case 3 -> link.hold(Links.Direction.REQUESTS);
            case 4 -> link.hold(Links.Direction.REPLIES);
            case 5 -> link.refuse();
            case 6 -> link.release();
            case 7, 8 -> link.heal();
            default -> world.links().heal();
        }
    }

    private void injectIntoDisk(int drawn) {
        if (!servers.isServing()) {
            return;
        }
        if (drawn < 61) {
            journal.record("the disk is full");
            servers.serving().fillDisk();
        } else if (drawn < 65) {
            journal.record("the disk stops");
            servers.serving().holdLog();
        } else if (drawn < 69) {
            journal.record("the disk writes an entry");
            servers.serving().writeOne();
        } else {
            journal.record("the disk goes on");
            servers.serving().releaseLog();
        }
    }

    private void injectIntoServer() throws IOException, DamagedEntryException {
        int drawn = random.nextInt(5);
        if (random.nextInt(10) >= serverFaults || !servers.isServing()) {
            return;
        }
        if (drawn < 2) {
            replace();
        } else if (drawn == 2 && servers.hasReplaced()) {
            servers.endReplaced();
        } else if (drawn == 3 && servers.hasReplaced()) {
            servers.wakeReplaced();
        } else {
            stopDisk();
            servers.crash(random);
        }
    }

    /// Stops the disk in half of the cases, while appends are under way. It may write some of their entries.
    private void stopDisk() {
        if (random.nextBoolean()) {
            servers.serving().holdLog();
            world.awaitTransactions(2, 1);
            for (int entries = random.nextInt(3); entries > 0; entries--) {
                servers.serving().writeOne();
                world.awaitTransactions(2, 1);
            }
        }
    }

    /// Replaces the server, while an append of it may be under way. Its acknowledgement may come late: when others have
    /// committed by the next server, and clients wait for answers of both.
    private void replace() throws IOException, DamagedEntryException {
        stopDisk();
        servers.replace(random);
        if (random.nextBoolean()) {
            world.awaitTransactions(100, 20);
            servers.wakeReplaced();
        }
    }

    /// Suspends a client, or what cleans and prunes a namespace, until its session has expired, no write of it may
    /// arrive any more, and others have gone on.
    private void suspendPastExpiry() {
        int number = random.nextInt(NemesisWorld.MEMBERS);
        Links.Link link = world.link(number, random);
        if (link == null) {
            return;
        }
        journal.record("suspends the thread of " + link + " past the expiry of its session");
        interference.suspend(world.thread(number));
        link.hold(Links.Direction.REQUESTS);
        link.hold(Links.Direction.REPLIES);
        for (int tick = 0; tick <= CrashableServer.TICKS; tick++) {
            world.awaitTransactions(10, 1);
            world.tick(1);
        }
        world.clock().jump(JUMP);
        world.awaitTransactions(120, 12);
        if (number < NemesisWorld.CLIENTS && random.nextBoolean()) {
            world.client(number).end(random);
        }
        if (random.nextBoolean()) {
            link.release();
            interference.resume();
        }
    }
}
