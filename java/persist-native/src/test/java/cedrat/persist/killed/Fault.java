package cedrat.persist.killed;

import cedrat.persist.GraphStore;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;

/// What is wrong in a program on purpose, so that what looks for faults finds it: the system property
/// `cedrat.fault` says what, if anything.
enum Fault {
    /// Nothing.
    NONE,
    /// Collections are not told what the program holds.
    HELD_COLLECTED,
    /// A hash table is stored as it lies in memory.
    RAW_TABLES,
    /// Who reads a null does not ask whether it is not loaded yet: done by [NoGuards] beside the weaver.
    GUARD_SKIPPED;

    static Fault planted() {
        return valueOf(System.getProperty("cedrat.fault", NONE.name()));
    }

    /// A store, with the fault if it is one of stores.
    GraphStore in(GraphStore store) {
        return this == HELD_COLLECTED ? forgetful(GraphStore.class, store) : store;
    }

    /// As `whole`, but told of nothing that is alive.
    private static <T> T forgetful(Class<T> type, T whole) {
        InvocationHandler handler = (proxy, method, arguments) -> {
            boolean tells =
                    method.getName().equals("collect") || method.getName().equals("seal");
            Object result;
            try {
                result = method.invoke(whole, tells ? new Object[] {new long[0]} : arguments);
            } catch (InvocationTargetException thrown) {
                throw thrown.getCause();
            }
            return result instanceof GraphStore.Collection collection
                    ? forgetful(GraphStore.Collection.class, collection)
                    : result;
        };
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }
}
