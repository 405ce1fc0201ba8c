package cedrat.persist.killed;

import cedrat.persist.GraphStore;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;

/// Planted fault of a program, which the checks must find: the system property
/// `cedrat.fault` names it, if there is one.
enum Fault {
    /// Nothing.
    NONE,
    /// Garbage collections do not know the objects that the program holds.
    HELD_COLLECTED,
    /// A hash table is stored as it lies in memory.
    RAW_TABLES,
    /// Reads of null do not check whether the value is not loaded yet: done by [NoGuards] beside the weaver.
    GUARD_SKIPPED;

    static Fault planted() {
        return valueOf(System.getProperty("cedrat.fault", NONE.name()));
    }

    /// A store, with the fault if it is one of stores.
    GraphStore in(GraphStore store) {
        return this == HELD_COLLECTED ? forgetful(GraphStore.class, store) : store;
    }

    /// Returns a proxy like `whole` that gets no live objects.
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
