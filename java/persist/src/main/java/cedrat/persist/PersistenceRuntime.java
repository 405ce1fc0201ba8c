package cedrat.persist;

import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongSupplier;

/// The implementation of this package's static methods, which the agent installs. Programs do not use it.
///
/// **Threads:** any.
public abstract class PersistenceRuntime {
    private static volatile PersistenceRuntime installed;

    /// Called by the implementation.
    protected PersistenceRuntime() {}

    /// How the objects of a class are stored and loaded.
    public record Converter(Function<Object, Object> toStored, Function<Object, Object> fromStored) {}

    /// How a field is loaded whose type was another one when it was stored.
    public record FieldConverter(Class<?> stored, Function<Object, Object> function) {}

    /// The options of a store, as they were when it was opened.
    ///
    /// @param waits       whether a commit returns when it is durable
    /// @param locksReads  whether a transaction locks what it reads
    /// @param classes     present names of classes, by their stored names
    /// @param fields      present names of fields, by the present names of their classes and their stored names
    /// @param deletedClasses   stored names of classes that the program no longer has
    /// @param deletedConstants stored names of constants, by the present names of their enums
    /// @param converters  by the classes whose objects they convert
    /// @param fieldConverters by the present names of fields and of their classes
    /// @param hooks       what is called for loaded objects, by their classes
    /// @param nanos       the clock of branches' timeouts; only differences mean something
    public record Settings(
            boolean waits,
            boolean locksReads,
            ClassLoader classLoader,
            long loadedBytesMax,
            Map<String, String> classes,
            Map<String, Map<String, String>> fields,
            Set<String> deletedClasses,
            Map<String, Set<String>> deletedConstants,
            Map<Class<?>, Converter> converters,
            Map<String, Map<String, FieldConverter>> fieldConverters,
            Map<Class<?>, Consumer<Object>> hooks,
            LongSupplier nanos) {
        /// Returns the present name of a class.
        public String className(String stored) {
            return classes.getOrDefault(stored, stored);
        }

        /// Returns the present name of a field.
        public String fieldName(String className, String stored) {
            return fields.getOrDefault(className, Map.of()).getOrDefault(stored, stored);
        }

        /// Returns whether the program declares that it no longer has a class of this stored name.
        public boolean isDeleted(String stored) {
            return deletedClasses.contains(stored);
        }

        /// Returns whether the program declares that an enum no longer has a constant of this stored name.
        public boolean isDeleted(String className, String stored) {
            return deletedConstants.getOrDefault(className, Set.of()).contains(stored);
        }
    }

    /// Installs the implementation of this process.
    public static void install(PersistenceRuntime runtime) {
        installed = runtime;
    }

    /// @throws IllegalStateException if the agent is not loaded
    static PersistenceRuntime get() {
        PersistenceRuntime runtime = installed;
        if (runtime == null) {
            throw notLoaded();
        }
        return runtime;
    }

    /// Returns the exception of code that needs the agent and runs without it.
    public static IllegalStateException notLoaded() {
        return new IllegalStateException(
                "cannot record changes of objects, because the agent is not loaded: start Java with "
                        + "-javaagent:persist.jar, or add the line Launcher-Agent-Class: cedrat.persist.weave.Agent to the "
                        + "manifest of your executable jar");
    }

    static IllegalStateException notWoven() {
        if (installed == null) {
            return notLoaded();
        }
        return new IllegalStateException(
                "cannot begin a transaction: the calling class has no write barriers, so a rollback would miss its "
                        + "changes. It is excluded from the agent, is a hidden class, calls by reflection or by a method "
                        + "reference, or was running when the agent was loaded: begin the transaction in another class, "
                        + "or start Java with -javaagent");
    }

    /// As [Store#open(GraphStore, StoreOptions)].
    protected abstract Store open(GraphStore graph, Settings settings);

    /// As [Store#touched].
    protected abstract void touched(Object object);

    /// As [Transaction#statistics].
    protected abstract TransactionStatistics transactionStatistics();

    /// Waits for the lock of an object, as [RwLock] says.
    protected abstract void acquire(Object object, boolean toWrite);
}
