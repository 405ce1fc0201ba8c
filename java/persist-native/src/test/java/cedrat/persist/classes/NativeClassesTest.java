package cedrat.persist.classes;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// J8c: definitions of classes come and go in a folder.
class NativeClassesTest {
    private static final int THREADS = 3;
    private static final int TURNS = 60;

    private enum Color {
        RED,
        GREEN
    }

    private abstract static class Base {
        int number;
        Color color;
    }

    private static final class First extends Base {}

    private static final class Second extends Base {
        String name = "second";
    }

    private static final class Third extends Base {
        First[] all = {};
    }

    @TempDir
    Path folder;

    private Store open() {
        return Store.open(folder, new StoreOptions());
    }

    private static Base make(int turn) {
        Base made =
                switch (turn % 3) {
                    case 0 -> new First();
                    case 1 -> new Second();
                    default -> new Third();
                };
        made.number = turn;
        made.color = turn % 2 == 0 ? Color.RED : Color.GREEN;
        return made;
    }

    private static void check(Base object) {
        assertSame(make(object.number).getClass(), object.getClass());
        assertSame(make(object.number).color, object.color);
    }

    private static void repeat(Store store, int thread) {
        for (int turn = 0; turn < TURNS; turn++) {
            Base made = make(thread + turn);
            Transaction.run(() -> store.setRoot("root " + thread, made));
            check(store.root("root " + thread, Base.class));
            if (turn % 2 == 0) {
                Transaction.run(() -> store.removeRoot("root " + thread));
            }
        }
    }

    /// J8c, J8d.
    @Test
    void threadsUseClassesDuringCollections() throws InterruptedException {
        Queue<Throwable> problems = new ConcurrentLinkedQueue<>();
        try (Store store = open()) {
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < THREADS; i++) {
                int thread = i;
                threads.add(Thread.ofPlatform()
                        .uncaughtExceptionHandler((of, problem) -> problems.add(problem))
                        .start(() -> repeat(store, thread)));
            }
            while (threads.stream().anyMatch(Thread::isAlive)) {
                System.gc(); // an object in memory keeps its class
                store.collect();
            }
            for (Thread thread : threads) {
                thread.join();
            }
        }
        assertEquals(List.of(), List.copyOf(problems));
        try (Store store = open()) {
            store.collect();
            for (int i = 0; i < THREADS; i++) {
                check(store.root("root " + i, Base.class));
            }
        }
    }

    /// J8c: also of a class that a later opening uses again.
    @Test
    void dropsAreDurable() {
        for (int turn = 0; turn < 6; turn++) {
            try (Store store = open()) {
                store.collect();
                store.setRoot("root", make(turn));
            }
            try (Store store = open()) {
                check(store.root("root", Base.class));
                store.removeRoot("root");
            }
        }
    }
}
