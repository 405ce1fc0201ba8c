package cedrat.persist.woven.branch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.Clock;
import cedrat.persist.GraphStore;
import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.Transaction;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicReference;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/// A store of accounts in memory, and what drives branches of transactions over it.
abstract class BranchFixture {
    static final class Account {
        long balance;
        Account friend;

        Account(long balance) {
            this.balance = balance;
        }
    }

    interface Step {
        void run() throws Exception;
    }

    static final TestXid ONE = new TestXid(7, new byte[] {1, 2}, new byte[] {3});
    static final TestXid OTHER = new TestXid(7, new byte[] {1, 2}, new byte[0]);

    final MemoryGraph graph = new MemoryGraph();
    final Clock clock = new Clock();
    /// By names of methods of [GraphStore].
    final Map<String, Throwable> failures = new ConcurrentHashMap<>();
    /// By the same names, what hides the answer.
    final Map<String, Throwable> lost = new ConcurrentHashMap<>();
    /// Steps before calls of the methods of [GraphStore].
    final Map<String, Step> before = new ConcurrentHashMap<>();
    Store store;
    XAResource resource;

    @BeforeEach
    void open() {
        store = Store.open(graph.open(), clock.options());
        resource = store.xaResource();
        if (store.isNew()) {
            store.setRoot("accounts", new TreeMap<>(Map.of("here", new Account(100), "there", new Account(1000))));
            store.setRoot("alone", new Account(5));
        }
    }

    @AfterEach
    void close() {
        store.close();
    }

    void reopen() {
        store.close();
        open();
    }

    /// Opens the store anew, as one whose methods throw what is put into [#failures] and [#lost].
    void openFailing() {
        store.close();
        store = Store.open(failing(graph.open()), clock.options());
        resource = store.xaResource();
    }

    Account account(String name) {
        return store.<Map<String, Account>>root("accounts", Map.class).get(name);
    }

    /// A store whose methods throw what is put into [#failures] and [#lost].
    private GraphStore failing(GraphStore within) {
        InvocationHandler handler = (_, method, arguments) -> {
            Throwable failure = failures.get(method.getName());
            if (failure != null) {
                throw failure;
            }
            before.getOrDefault(method.getName(), () -> {}).run();
            Object answer;
            try {
                answer = method.invoke(within, arguments);
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
            Throwable hidden = lost.get(method.getName());
            if (hidden != null) {
                throw hidden;
            }
            return answer;
        };
        return (GraphStore) Proxy.newProxyInstance(
                BranchFixture.class.getClassLoader(), new Class<?>[] {GraphStore.class}, handler);
    }

    static void fails(int code, Step step) {
        XAException failure = assertThrows(XAException.class, step::run);
        assertEquals(code, failure.errorCode, failure.getMessage());
    }

    void inBranch(TestXid id, Runnable work) throws XAException {
        resource.start(id, XAResource.TMNOFLAGS);
        Transaction.run(work::run);
        resource.end(id, XAResource.TMSUCCESS);
    }

    void transfer(TestXid id) throws XAException {
        inBranch(id, () -> {
            account("here").balance -= 30;
            account("here").friend = new Account(1);
        });
    }

    static void onAnotherThread(Step step) throws Exception {
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Thread thread = Thread.ofPlatform().start(() -> {
            try {
                step.run();
            } catch (Throwable e) {
                failure.set(e);
            }
        });
        thread.join();
        assertNull(failure.get());
    }

    /// Nothing of a branch holds any more: what it had changed is unlocked, and its name is free.
    void assertIsGone() throws Exception {
        assertEquals(100, account("here").balance);
        onAnotherThread(() -> {
            Transaction.run(() -> account("here").balance++);
            Transaction.run(() -> account("here").balance--);
            resource.start(ONE, XAResource.TMNOFLAGS);
            resource.rollback(ONE);
        });
    }

    /// Runs work on a thread of its own; the task has its result or exception.
    static FutureTask<Integer> start(Callable<Integer> work) {
        FutureTask<Integer> task = new FutureTask<>(work);
        Thread.ofPlatform().daemon().start(task);
        return task;
    }
}
