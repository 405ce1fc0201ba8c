package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.buffer.Unpooled;
import io.netty.channel.EventLoop;
import io.netty.channel.embedded.EmbeddedChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// D8, with a clock of the test.
@Timeout(120)
class AccountsTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    private long now = Long.MAX_VALUE - 3 * SECOND; // the clock overflows soon
    private final Accounts accounts = new Accounts(() -> now);

    private static Connection connection() {
        EmbeddedChannel channel = new EmbeddedChannel();
        EventLoop loop = channel.eventLoop();
        return new Connection(channel, loop);
    }

    private Connection entered(String name, Limits limits) {
        Connection connection = connection();
        assertNull(accounts.enter(connection, name, limits, null));
        return connection;
    }

    private long limited(Limits.Kind kind) {
        return accounts.limited()[kind.ordinal()];
    }

    @Test
    void connectionTooManyIsRefused() {
        Limits two = Limits.NONE.with(Limits.Kind.CONNECTIONS, 2);
        Connection first = entered("app", two);
        entered("app", two);
        entered("other", two);
        assertEquals(Limits.Kind.CONNECTIONS, accounts.enter(connection(), "app", two, null));
        assertEquals(1, limited(Limits.Kind.CONNECTIONS));
        assertNull(accounts.enter(connection(), "app", two, first), "it takes the place of another one");
        accounts.leave(first);
        accounts.leave(first);
        assertNotNull(accounts.enter(connection(), "app", two, null), "a connection leaves once");
        assertNotNull(accounts.enter(connection(), "app", two, connection()), "that was not its own");
    }

    /// Connections that are made again and again do not escape the rate. A large request keeps none out.
    @Test
    void hellosHaveRate() {
        Limits ten = Limits.NONE.with(Limits.Kind.RATE, 10);
        accounts.decided(entered("app", ten), 1_000);
        for (int round = 0; round < 3; round++) {
            int admitted = 0;
            Connection connection = connection();
            while (admitted <= 10 && accounts.enter(connection, "app", ten, null) == null) {
                accounts.leave(connection);
                admitted++;
                connection = connection();
            }
            assertEquals(10, admitted, "round " + round);
            accounts.forgetUnused();
            now += SECOND;
        }
        assertEquals(3, limited(Limits.Kind.RATE));
    }

    @Test
    void rateAllowsSecondAtOnce() {
        Limits ten = Limits.NONE.with(Limits.Kind.RATE, 10);
        Connection client = entered("app", ten);
        for (int round = 0; round < 7; round++) {
            int taken = 0;
            while (!accounts.holds(client)) {
                accounts.decided(client, 1);
                taken++;
            }
            assertEquals(round == 0 ? 11 : 10, taken, "round " + round);
            client.account.held.clear();
            now += SECOND;
        }
        now += 100 * SECOND;
        int taken = 0;
        while (!accounts.holds(client)) {
            accounts.decided(client, 1);
            taken++;
        }
        assertEquals(11, taken, "a longer silence allows no more");
    }

    @Test
    void batchCountsAsItsRequests() {
        Connection client = entered("app", Limits.NONE.with(Limits.Kind.RATE, 10));
        accounts.decided(client, 30);
        for (int second = 0; second < 2; second++) {
            assertTrue(accounts.holds(client), "after " + second + " s");
            client.account.held.clear();
            now += SECOND;
        }
        assertFalse(accounts.holds(client));
    }

    @Test
    void heldConnectionsTakeTurns() {
        Limits ten = Limits.NONE.with(Limits.Kind.RATE, 10);
        List<Connection> clients = new ArrayList<>();
        for (int count = 0; count < 3; count++) {
            clients.add(entered("app", ten));
        }
        while (!accounts.holds(clients.getFirst())) {
            accounts.decided(clients.getFirst(), 1);
        }
        assertTrue(accounts.holds(clients.get(1)));
        assertTrue(accounts.holds(clients.get(2)));
        Connection other = entered("other", ten);
        assertFalse(accounts.holds(other), "no other identity waits");
        List<Connection> resumed = new ArrayList<>();
        for (int round = 0; round < 6; round++) {
            long wait = accounts.resume(connection -> {
                resumed.add(connection);
                accounts.decided(connection, 1);
                assertTrue(accounts.holds(connection), "its rate is used up again");
            });
            assertTrue(wait > 0 && wait <= SECOND / 10, "wait " + wait);
            now += wait;
        }
        assertEquals(5, resumed.size(), "one request each tenth of a second");
        assertEquals(clients, resumed.subList(0, 3));
        assertEquals(clients.subList(0, 2), resumed.subList(3, 5));
    }

    @Test
    void unansweredRequestsAreCountedTogether() {
        Limits two = Limits.NONE.with(Limits.Kind.OUTSTANDING, 2);
        Connection first = entered("app", two);
        Connection second = entered("app", two);
        first.replied(1);
        assertFalse(accounts.holds(second));
        second.replied(1);
        assertTrue(accounts.holds(first));
        assertTrue(accounts.hasHeld());
        List<Connection> resumed = new ArrayList<>();
        assertEquals(0, accounts.resume(resumed::add));
        assertEquals(List.of(), resumed);
        second.released(1, 0);
        accounts.resume(resumed::add);
        assertEquals(List.of(first), resumed);
        assertFalse(accounts.hasHeld());
    }

    private static void receive(Connection connection, int bytes) {
        connection.input.add(Unpooled.wrappedBuffer(new byte[bytes]));
    }

    /// One of the connections beyond the limit is read from, until its request is there.
    @Test
    void bytesPauseAllButOneConnection() {
        Limits limits = Limits.NONE.with(Limits.Kind.BYTES, 100);
        List<Connection> clients = new ArrayList<>();
        for (int count = 0; count < 4; count++) {
            Connection client = entered("app", limits);
            clients.add(client);
            receive(client, 60);
            accounts.settle(client, false);
        }
        assertEquals(240, clients.getFirst().account.bytes);
        List<Boolean> paused = clients.stream().map(client -> client.paused).toList();
        assertEquals(List.of(false, false, true, true), paused, "the second one has the turn");
        receive(clients.get(1), 500);
        accounts.settle(clients.get(1), false);
        assertFalse(clients.get(1).paused, "the turn stays with it");
        clients.get(1).input.skip(560);
        accounts.settle(clients.get(1), true);
        assertFalse(clients.get(2).paused, "the next one has the turn");
        assertTrue(clients.get(3).paused);
        accounts.leave(clients.get(2));
        assertFalse(clients.get(3).paused, "the turn of a closed connection ends");
        accounts.leave(clients.get(3));
        assertEquals(60, clients.getFirst().account.bytes);
        assertTrue(limited(Limits.Kind.BYTES) >= 3);
    }

    /// Nor does it get more than its rate by connecting again.
    @Test
    void usedAccountsAreNotForgotten() {
        Limits ten = Limits.NONE.with(Limits.Kind.RATE, 10);
        Connection client = entered("app", ten);
        accounts.decided(client, 31);
        accounts.leave(client);
        now += 2 * SECOND;
        accounts.forgetUnused();
        Connection again = entered("app", ten);
        assertTrue(accounts.holds(again), "its rate is used for another second");
        again.replied(1);
        accounts.leave(again);
        now += 5 * SECOND;
        accounts.forgetUnused();
        assertEquals(1, accounts.count(), "a reply is under way");
        again.released(1, 0);
        accounts.forgetUnused();
        assertEquals(0, accounts.count());
    }

    @Test
    void closedConnectionIsNotHeld() {
        Limits one = Limits.NONE.with(Limits.Kind.OUTSTANDING, 1);
        Connection first = entered("app", one);
        first.replied(1);
        for (int round = 0; round < 10; round++) {
            Connection held = entered("app", one);
            assertTrue(accounts.holds(held));
            accounts.leave(held);
        }
        assertEquals(0, first.account.held.size(), "their memory would be kept");
        assertFalse(accounts.hasHeld());
    }

    /// Its place was free before.
    @Test
    void finishedConnectionGivesNoSecondPlace() {
        Limits one = Limits.NONE.with(Limits.Kind.CONNECTIONS, 1);
        Connection first = entered("app", one);
        accounts.leave(first);
        entered("app", one);
        assertNotNull(accounts.enter(connection(), "app", one, first));
    }
}
