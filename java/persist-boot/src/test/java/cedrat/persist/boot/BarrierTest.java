package cedrat.persist.boot;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Calls of the handler for assignments.
class BarrierTest {
    /// Names of the called methods.
    private static final List<String> CALLS = new ArrayList<>();

    /// The calls of [#use] for arrays and objects of the JDK.
    private static final List<String> OF_PARTS = List.of(
            "beforeFields",
            "beforeLink",
            "beforeMark",
            "beforeElement",
            "beforeElementInJdk",
            "beforeLinkInTable",
            "beforeLinkInTable",
            "beforeElements",
            "beforeElementsInJdk",
            "beforeArgument",
            "beforeArgumentInJdk",
            "beforeCall",
            "beforeInherited");

    private static final class Stored implements Persistable {
        private Identity identity;

        @Override
        public Identity cedrat$identity() {
            return identity;
        }

        @Override
        public void cedrat$identity(Identity identity) {
            this.identity = identity;
        }
    }

    @BeforeAll
    static void install() {
        Barrier.install(
                (Handler) Proxy.newProxyInstance(
                        Handler.class.getClassLoader(), new Class<?>[] {Handler.class}, (proxy, method, arguments) -> {
                            CALLS.add(method.getName());
                            return method.getReturnType() == boolean.class ? false : null;
                        }),
                (owner, name, isStatic) -> (owner + "." + name + isStatic).length());
    }

    @BeforeEach
    void open() {
        Barrier.storeOpened();
        Barrier.lockingOpened();
        CALLS.clear();
    }

    @AfterEach
    void close() {
        Barrier.lockingClosed();
        Barrier.storeClosed();
    }

    private static <T> T hashed(T object) {
        System.identityHashCode(object);
        return object;
    }

    /// Assigns to and reads all kinds of objects.
    private static void use(Object object, int[] array, Object[] references) {
        Barrier.beforeField(object, 0);
        Barrier.beforeFields(object);
        Barrier.beforeLink(object, "part");
        Barrier.beforeMark(object);
        Barrier.beforeElement(array, 0);
        Barrier.beforeElementInJdk(array, 0);
        Barrier.beforeLinkInTable(references, 0, "part");
        Barrier.store(references, 0, "part");
        Barrier.arraycopy(new int[1], 0, array, 0, 1);
        Barrier.arraycopyInJdk(new int[1], 0, array, 0, 1);
        Barrier.beforeArgument(array);
        Barrier.beforeArgumentInJdk(array);
        Barrier.beforeCall(array, "method");
        Barrier.beforeInherited("receiver", "method", array);
        Barrier.beforeStatic("method");
        Barrier.beforeHandle("handle", object);
        Barrier.made(object);
        Barrier.lockToRead(object);
        Barrier.lockToRead(array);
        Barrier.lockDeeplyToRead(references);
    }

    /// J2e
    @Test
    void ordinaryObjectsConcernNoStore() {
        use(new Stored(), new int[1], new Object[1]);
        Barrier.beforeField(hashed(BarrierTest.class), 0);
        assertEquals(List.of(), CALLS);
    }

    /// J2e
    @Test
    void otherThreadsTransactionLetsOrdinaryObjectsPass() throws InterruptedException {
        AtomicInteger entered = new AtomicInteger();
        Thread other = Thread.ofPlatform().start(() -> {
            entered.set(Barrier.entered());
            Barrier.opened();
        });
        other.join();
        use(new Stored(), new int[1], new Object[1]);
        Barrier.closed();
        Barrier.left(entered.get());
        assertEquals(List.of(), CALLS);
    }

    /// J2e
    @Test
    void threadWithTransactionTellsAll() {
        int thread = Barrier.entered();
        Barrier.opened();
        use(new Stored(), new int[1], new Object[1]);
        Barrier.closed();
        Barrier.left(thread);
        List<String> calls = new ArrayList<>(List.of("beforeField"));
        calls.addAll(OF_PARTS);
        calls.addAll(List.of("beforeStatic", "beforeHandle", "made", "lockToRead", "lockToRead", "lockDeeplyToRead"));
        assertEquals(calls, CALLS);
    }

    /// J2e
    @Test
    void hashedObjectsMayBePersistentOrLocked() {
        use(hashed(new Stored()), hashed(new int[1]), hashed(new Object[1]));
        List<String> calls = new ArrayList<>(OF_PARTS);
        calls.add("beforeHandle");
        assertEquals(calls, CALLS, "what an object of the program belongs to, its field says");
        CALLS.clear();
        Barrier.opened();
        Stored locked = new Stored();
        Barrier.beforeField(hashed(locked), 0);
        assertEquals(List.of(), CALLS);
        Barrier.locked(locked);
        Barrier.beforeField(locked, 0);
        Barrier.unlocked(locked);
        Barrier.beforeField(locked, 0);
        Barrier.closed();
        assertEquals(List.of("beforeField"), CALLS, "another transaction has locked it");
    }

    /// J2e
    @Test
    void identityMakesPersistent() {
        Stored stored = new Stored();
        stored.cedrat$identity(new Identity(stored) {});
        Barrier.beforeField(stored, 0);
        Barrier.beforeHandle("handle", stored);
        Barrier.opened();
        Barrier.beforeField(stored, 0);
        Barrier.closed();
        assertEquals(List.of("beforeField", "beforeHandle", "beforeField"), CALLS);
    }
}
