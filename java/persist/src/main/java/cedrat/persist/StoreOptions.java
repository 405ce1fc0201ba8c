package cedrat.persist;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongSupplier;

/// How a store of persistent objects is opened.
///
/// ```java
/// var options = new StoreOptions()
///         .renameClass("bank.Customer", "bank.Client")
///         .renameField("bank.Client", "adress", "address");
/// ```
///
/// **Threads:** one; [Store#open] keeps a copy.
public final class StoreOptions {
    /// When a commit returns.
    public enum Durability {
        /// When what it has changed cannot be lost any more.
        SYNC,
        /// At once; a crash may lose the newest commits, never parts of one.
        ASYNC
    }

    /// Isolation of transactions from the changes of others, without explicit locks.
    public enum Isolation {
        /// A transaction takes the read lock of each persistent object before it reads the object, and holds the
        /// lock until it ends. The result is as if transactions had run one after the other.
        SERIALISABLE,
        /// Reads take no lock. They may see uncommitted changes of other transactions, and two reads of an
        /// object in a transaction may differ. A change that depends on a read may overwrite another
        /// transaction's change: updates are lost. A write still never overwrites an uncommitted write.
        READ_UNCOMMITTED
    }

    private static final long PAGE_BYTES_MAX = 256 << 20;
    private static final long PAGE_BYTES_MIN = 1 << 20;
    private static final int KEY_BYTES = 32;

    private final Map<String, String> classes = new HashMap<>();
    private final Map<String, Map<String, String>> fields = new HashMap<>();
    private final Set<String> deletedClasses = new HashSet<>();
    private final Map<String, Set<String>> deletedConstants = new HashMap<>();
    private final Map<Class<?>, PersistenceRuntime.Converter> converters = new LinkedHashMap<>();
    private final Map<String, Map<String, PersistenceRuntime.FieldConverter>> fieldConverters = new HashMap<>();
    private final Map<Class<?>, Consumer<Object>> hooks = new LinkedHashMap<>();
    private Durability durability = Durability.SYNC;
    private Isolation isolation = Isolation.SERIALISABLE;
    private ClassLoader classLoader;
    private long loadedBytesMax = defaultLoadedBytesMax();
    long pageBytesMax = PAGE_BYTES_MAX;
    /// The folder of the archive; null without one.
    Path archive;
    /// The folder of the backup for damaged pages; null without one.
    Path backup;
    /// The key of an encrypted store; null without one.
    private Store.Provider.Key key;
    /// Another key that its files may still have; null without one.
    private Store.Provider.Key olderKey;
    /// The clock of branches' timeouts; only differences mean something.
    LongSupplier nanos = System::nanoTime;

    /// The defaults: commits wait, transactions are serialisable, classes are found as the opening thread
    /// finds them, an eighth of the heap is for loaded objects, nothing is renamed.
    public StoreOptions() {}

    /// Returns them as they are now, with the defaults of this thread.
    PersistenceRuntime.Settings settings() {
        ClassLoader ofThread = Thread.currentThread().getContextClassLoader();
        ClassLoader defaultLoader = ofThread == null ? ClassLoader.getSystemClassLoader() : ofThread;
        Map<String, Map<String, String>> fieldsByClass = new HashMap<>();
        fields.forEach((owner, names) -> fieldsByClass.put(owner, new HashMap<>(names)));
        Map<String, Set<String>> constantsByClass = new HashMap<>();
        deletedConstants.forEach((owner, names) -> constantsByClass.put(owner, Set.copyOf(names)));
        Map<String, Map<String, PersistenceRuntime.FieldConverter>> convertersByClass = new HashMap<>();
        fieldConverters.forEach((owner, converted) -> convertersByClass.put(owner, Map.copyOf(converted)));
        return new PersistenceRuntime.Settings(
                durability == Durability.SYNC,
                isolation == Isolation.SERIALISABLE,
                classLoader == null ? defaultLoader : classLoader,
                loadedBytesMax,
                new HashMap<>(classes),
                fieldsByClass,
                Set.copyOf(deletedClasses),
                constantsByClass,
                new LinkedHashMap<>(converters),
                convertersByClass,
                new LinkedHashMap<>(hooks),
                nanos);
    }

    /// Returns the default limit of loaded bytes. Loaded objects get old before they are unloaded. So the virtual
    /// machine runs a full garbage collection whenever as much was loaded as is free: a higher limit would cost
    /// more than it saves.
    private static long defaultLoadedBytesMax() {
        return Runtime.getRuntime().maxMemory() / 8;
    }

    /// When commits return.
    public StoreOptions durability(Durability durability) {
        this.durability = Objects.requireNonNull(durability);
        return this;
    }

    /// Sets the isolation of transactions that read objects of this store; by default, they are serialisable
    /// (Transactions for Java, §2.1).
    ///
    /// With [Isolation#SERIALISABLE] a read may wait, and throw [DeadlockException]; then `run` and `call` of
    /// [Transaction] repeat the transaction. Outside of transactions nothing is locked. With
    /// [Isolation#READ_UNCOMMITTED] a program takes locks by [RwLock] where it needs them.
    public StoreOptions isolation(Isolation isolation) {
        this.isolation = Objects.requireNonNull(isolation);
        return this;
    }

    /// Sets the class loader for the classes of the objects in the store. The default is the context class loader of
    /// the thread that opens.
    public StoreOptions classLoader(ClassLoader classLoader) {
        this.classLoader = Objects.requireNonNull(classLoader);
        return this;
    }

    /// About how many bytes of unchanged objects stay loaded, as long as the program does not have them itself.
    ///
    /// @throws IllegalArgumentException if it is not positive
    public StoreOptions loadedBytesMax(long bytes) {
        if (bytes <= 0) {
            throw new IllegalArgumentException(
                    "invalid loadedBytesMax " + bytes + ": choose a positive number of bytes");
        }
        loadedBytesMax = bytes;
        return this;
    }

    /// Sets the number of bytes of the store's pages that stay in memory, outside of the Java heap; 256 MiB by default.
    /// Other pages are read from the disk, one at a time. Only for a store that is opened by its folder.
    ///
    /// @throws IllegalArgumentException if it is less than 1 MiB
    public StoreOptions pageBytesMax(long bytes) {
        if (bytes < PAGE_BYTES_MIN) {
            throw new IllegalArgumentException("invalid pageBytesMax " + bytes + ": choose at least " + PAGE_BYTES_MIN);
        }
        pageBytesMax = bytes;
        return this;
    }

    /// Sets the folder of the archive of the store's log, which is begun if the folder is empty or does not
    /// exist. The store archives its log each second, and when it is closed: a [backup][Store#backup] is restored
    /// to any later point in time by `cedrat restore` (docs/use/backup.md). Only for a store that is opened by its
    /// folder. There is none by default.
    ///
    /// Open a store with its archive always: checkpoints without it release log that it lacks, and the next opening
    /// with it fails. So does an opening with the archive of another store.
    public StoreOptions archive(Path folder) {
        archive = Objects.requireNonNull(folder);
        return this;
    }

    /// Sets the folder of a full [backup][Store#backup] of the store. A damaged page is rebuilt from it and from the
    /// [archive][#archive] when it is needed, if the archive does not have all of the page's changes
    /// (docs/use/backup.md). The backup is only read. An opening with a backup and without an archive fails.
    public StoreOptions backup(Path folder) {
        backup = Objects.requireNonNull(folder);
        return this;
    }

    /// Sets the key with which the files of the store, of its [archive][#archive] and of its [backups][Store#backup]
    /// are encrypted (docs/use/encryption.md). A new store is created with it. A store that is opened with another
    /// key, with none, or with one although it is not encrypted, fails to open, and is not changed. Only for a
    /// store that is opened by its folder, and for a [View] of it.
    ///
    /// @param bytes 32 random bytes, which are copied
    /// @throws IllegalArgumentException if there are more, or fewer
    public StoreOptions key(byte[] bytes) {
        key = new Store.Provider.Key(keyOf(bytes));
        return this;
    }

    /// Sets another key that the store, its archive or its backup may still have, beside [#key]: after
    /// [Store#rotateKey], for example.
    ///
    /// @param bytes 32 bytes, which are copied
    /// @throws IllegalArgumentException if there are more, or fewer
    public StoreOptions olderKey(byte[] bytes) {
        olderKey = new Store.Provider.Key(keyOf(bytes));
        return this;
    }

    /// Returns a copy of a key.
    ///
    /// @throws IllegalArgumentException if it is no key
    static byte[] keyOf(byte[] bytes) {
        if (bytes.length != KEY_BYTES) {
            throw new IllegalArgumentException("invalid key of " + bytes.length + " bytes: a key has " + KEY_BYTES);
        }
        return bytes.clone();
    }

    /// Returns the keys.
    ///
    /// @throws IllegalArgumentException if there is an older key alone
    Optional<Store.Provider.Keys> keys() {
        if (key == null && olderKey != null) {
            throw new IllegalArgumentException("olderKey is set, and key is not: set the newest key with key");
        }
        return Optional.ofNullable(key).map(newest -> new Store.Provider.Keys(newest, Optional.ofNullable(olderKey)));
    }

    /// A class of the store has another name now. Stores that have no class of the old name open as without it; where
    /// one has, the program must have one of the new name.
    ///
    /// @param stored as `Class.getName` said when it was stored
    /// @param now    as it says now
    public StoreOptions renameClass(String stored, String now) {
        classes.put(Objects.requireNonNull(stored), Objects.requireNonNull(now));
        return this;
    }

    /// A field of a class, or a constant of an enum, has another name now. The declaration may stay as long as there
    /// are objects that were stored before: stores that have only the new name open as without it, and so do those
    /// that have neither.
    ///
    /// A misspelt name would let the field's values be dropped. So the store does not open if it has the old name
    /// and the class not the new one; nor if it has neither of them, and fields of the class that the program has
    /// no more. The class may be the mistake: because the field is one of a class above it, or because the program
    /// has no class of that name. Then the store does not open if a field of the old name would be dropped.
    ///
    /// @param className the name of the class that declares it, as it is now
    /// @param stored    its name in the store
    /// @param now       its name now
    public StoreOptions renameField(String className, String stored, String now) {
        fields.computeIfAbsent(Objects.requireNonNull(className), name -> new HashMap<>())
                .put(Objects.requireNonNull(stored), Objects.requireNonNull(now));
        return this;
    }

    /// Declares that the program no longer has a class of the store, and needs none of its objects. They stay in the
    /// store while something refers to them, and a load of one throws [StoreException]. [Store#collect]
    /// removes those that nothing refers to. The fields of a deleted superclass are dropped from the objects of its
    /// subclasses. Stores that have no such class open as without the declaration.
    ///
    /// A store that has the class does not open if the program has one of that name, too.
    ///
    /// @param stored the name of a class, a record or an enum, or of a class with a converter, as `Class.getName`
    ///               said when it was stored
    public StoreOptions deleteClass(String stored) {
        deletedClasses.add(Objects.requireNonNull(stored));
        return this;
    }

    /// Declares that an enum no longer has a constant. A load of a reference to it throws
    /// [StoreException]. Stores that do not have the constant open as without the declaration.
    ///
    /// A store that has it does not open if the enum has it, too.
    ///
    /// @param className the name of the enum, as it is now
    /// @param stored    the constant's name in the store
    public StoreOptions deleteConstant(String className, String stored) {
        deletedConstants
                .computeIfAbsent(Objects.requireNonNull(className), name -> new HashSet<>())
                .add(Objects.requireNonNull(stored));
        return this;
    }

    /// Sets how objects of a class, and of its subclasses, are stored that cannot be stored by themselves. In place of
    /// such an object the store has the one that `toStored` returns, and a load returns what `fromStored` makes of
    /// that.
    ///
    /// ```java
    /// options.convert(MathContext.class, MathContext::toString, MathContext::new);
    /// ```
    ///
    /// The converted object is stored once: it must not change afterwards. The functions run in commits and loads:
    /// they begin no transaction and wait for no other thread. A store that has such objects opens only with a
    /// converter for their class.
    ///
    /// @param type       the class, or an interface
    /// @param toStored   returns an object of another class, which can be stored
    /// @param fromStored returns an object of the class
    public <T, S> StoreOptions convert(
            Class<T> type, Function<? super T, ? extends S> toStored, Function<? super S, ? extends T> fromStored) {
        Objects.requireNonNull(toStored);
        Objects.requireNonNull(fromStored);
        converters.put(
                Objects.requireNonNull(type),
                new PersistenceRuntime.Converter(
                        object -> toStored.apply(type.cast(object)),
                        stored -> fromStored.apply(StoreOptions.<S>cast(stored))));
        return this;
    }

    /// A field of a class has another type now. Its stored values are converted when they are loaded. An object is
    /// stored with the new type by the first commit that changes it.
    ///
    /// ```java
    /// options.convertField("bank.Client", "since", String.class, LocalDate::parse);
    /// ```
    ///
    /// The declaration may stay as long as there are objects that were stored before. Primitive types that Java
    /// widens without loss, and references to a supertype, need none. A stored reference that is null stays null,
    /// unless the field is primitive now: then the function gets null. The function may be called more than once
    /// for a value, in loads and commits. It begins no transaction and waits for no other thread. It should return
    /// an immutable value: changes of the value itself are not stored before the object is.
    ///
    /// @param className the name of the class that declares the field, as it is now
    /// @param field     its name now
    /// @param stored    its type when it was stored: a class of the program as it is now
    /// @param converter returns a value of the present type
    public <S> StoreOptions convertField(
            String className, String field, Class<S> stored, Function<? super S, ?> converter) {
        Objects.requireNonNull(converter);
        fieldConverters
                .computeIfAbsent(Objects.requireNonNull(className), name -> new HashMap<>())
                .put(
                        Objects.requireNonNull(field),
                        new PersistenceRuntime.FieldConverter(
                                Objects.requireNonNull(stored), value -> converter.apply(StoreOptions.<S>cast(value))));
        return this;
    }

    /// Sets what is called when an object of a class, or of a subclass, was loaded: to compute its transient fields.
    ///
    /// ```java
    /// options.afterLoad(Order.class, order -> order.total = order.computeTotal());
    /// ```
    ///
    /// The function is called once for each load, by the thread that reads the object, before the read returns it.
    /// Other threads that read the object wait meanwhile. It belongs to no transaction: it may read everything,
    /// takes no locks, and may assign to transient fields. Other assignments to persistent objects throw
    /// [IllegalStateException], and so does the begin of a transaction. If it throws, the read throws
    /// [StoreException], and the next read calls it again.
    ///
    /// If objects refer to each other, a function may see one whose own function has not returned yet. `hashCode`,
    /// `equals` and `compareTo` of keys and elements may be called before it.
    ///
    /// @param type a class of the program, or an interface
    public <T> StoreOptions afterLoad(Class<T> type, Consumer<? super T> hook) {
        Objects.requireNonNull(hook);
        hooks.put(Objects.requireNonNull(type), object -> hook.accept(type.cast(object)));
        return this;
    }

    /// Returns a stored object as its converter takes it, which has returned it.
    @SuppressWarnings("unchecked")
    private static <S> S cast(Object stored) {
        return (S) stored;
    }
}
