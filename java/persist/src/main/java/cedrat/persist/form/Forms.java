package cedrat.persist.form;

import cedrat.persist.PersistenceRuntime;
import cedrat.persist.StoreException;
import cedrat.persist.codec.MapPart;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.codec.RefusedException;
import cedrat.persist.codec.Words;
import cedrat.persist.memory.Fields;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;

/// The forms of the classes of the JDK that a store can have, and the objects that each virtual machine has
/// once.
///
/// **Threads:** any, once it is made.
public final class Forms {
    /// A form of some objects of a class.
    private record Choice(Form form, Predicate<Object> condition) {}

    /// Why objects of a class, or of what extends it, cannot be persistent. The first that fits counts.
    private record Reason(Class<?> type, String why) {}

    private static final Reason[] REASONS = {
        new Reason(Thread.class, "a thread ends with its program: keep what it works on"),
        new Reason(ThreadGroup.class, "threads end with their program: keep the group's name"),
        new Reason(ClassLoader.class, "a class loader ends with its program: keep the names of classes"),
        new Reason(java.net.Socket.class, "a connection ends with its program: keep the address"),
        new Reason(java.net.ServerSocket.class, "a connection ends with its program: keep the address"),
        new Reason(java.nio.channels.Channel.class, "a channel ends with its program: keep the name of its file"),
        new Reason(java.io.InputStream.class, "a stream ends with its program: keep what it has read"),
        new Reason(java.io.OutputStream.class, "a stream ends with its program: keep the name of its file"),
        new Reason(java.io.Reader.class, "a stream ends with its program: keep what it has read"),
        new Reason(java.io.Writer.class, "a stream ends with its program: keep the name of its file"),
        new Reason(java.io.RandomAccessFile.class, "an open file ends with its program: keep its name"),
        new Reason(Process.class, "a process of the system ends on its own: keep its command"),
        new Reason(ThreadLocal.class, "it belongs to threads, which end with their program: make it a static field"),
        new Reason(
                java.util.concurrent.Executor.class,
                "its threads end with their program: make it when the program starts"),
        new Reason(java.util.concurrent.Future.class, "its computation ends with the program: keep its result"),
        new Reason(
                java.util.concurrent.locks.Lock.class,
                "its owner is a thread, which ends with the program: use RwLock, or make it a transient field that is not final"),
        new Reason(
                java.lang.ref.Reference.class,
                "the garbage collector may clear it at any time: make it a transient field that is not final"),
        new Reason(
                java.util.WeakHashMap.class,
                "the garbage collector may remove its entries at any time: use a HashMap, or a transient field that is not final"),
        new Reason(java.util.stream.BaseStream.class, "a stream is used once: keep its source"),
        new Reason(Iterator.class, "an iterator is valid until its collection changes: keep the collection"),
        new Reason(
                java.security.SecureRandom.class,
                "its numbers must not repeat: make it a transient field that is not final"),
        new Reason(java.nio.Buffer.class, "its memory may lie outside of the Java heap: keep an array"),
    };

    private final Fields slots;
    private final PersistenceRuntime.Settings settings;
    private final Map<Class<?>, Form> byClass = new HashMap<>();
    private final Map<Class<?>, Choice> choices = new HashMap<>();
    private final Map<String, Form> byName = new HashMap<>();
    private final Map<Class<?>, PartedForm> parted = new HashMap<>();
    private final LambdaForm lambdas = new LambdaForm(this);
    private final ThrowableForm throwables;
    /// The constants of the program.
    public final StaticFinals constants;

    private final Map<Class<?>, ConvertedForm> converted = new LinkedHashMap<>();
    private final StaticFinalForm staticFinals;
    private final CanonicalForm canonicals = new CanonicalForm(this);

    private final Map<Object, Integer> canonicalNumbers = new IdentityHashMap<>();
    /// Their places in the formats' table; none is ever used for another object.
    private final Object[] canonical = {
        Collections.emptyList(),
        Collections.emptySet(),
        Collections.emptyMap(),
        Collections.emptyNavigableSet(),
        Collections.emptyNavigableMap(),
        List.of(),
        Set.of(),
        Map.of(),
        Optional.empty(),
        Comparator.naturalOrder(),
        Collections.reverseOrder(),
        String.CASE_INSENSITIVE_ORDER,
        java.time.ZoneOffset.UTC,
        java.util.Locale.ROOT,
        java.math.BigInteger.ZERO,
        java.math.BigInteger.ONE,
        java.math.BigDecimal.ZERO,
        java.math.BigDecimal.ONE,
        java.time.Duration.ZERO,
        java.time.Period.ZERO,
    };

    public Forms(Fields slots, PersistenceRuntime.Settings settings) {
        this.slots = slots;
        this.settings = settings;
        for (int i = 0; i < canonical.length; i++) {
            canonicalNumbers.put(canonical[i], i);
        }
        ValueForms.addTo(this);
        CollectionForms.addTo(this);
        ConcurrentForms.addTo(this);
        NodeForms.addTo(this, slots);
        WrapperForms.addTo(this);
        byName.put(lambdas.name, lambdas);
        throwables = new ThrowableForm(this, slots);
        byName.put(throwables.name, throwables);
        constants = new StaticFinals(slots);
        staticFinals = new StaticFinalForm(this, constants, slots);
        byName.put(staticFinals.name, staticFinals);
        byName.put(canonicals.name, canonicals);
        settings.converters().forEach((type, converter) -> {
            ConvertedForm form = new ConvertedForm(type, converter);
            converted.put(type, form);
            byName.put(form.name, form);
        });
    }

    /// One more class.
    void add(Class<?> type, Form form) {
        byClass.put(type, form);
        byName.put(form.name, form);
    }

    /// One more class, whose objects do not change.
    void addConstant(Class<?> type, Form form) {
        add(type, form);
        form.isConstant = true;
    }

    /// Another form, of some objects of a class.
    void addChoice(Class<?> type, Form form, Predicate<Object> condition) {
        choices.put(type, new Choice(form, condition));
        byName.put(form.name, form);
    }

    /// A form of large collections of a class, and that of their parts.
    void addParted(Class<?> type, PartedForm form, PartForm part, boolean hasValues) {
        addChoice(type, form, form::suits);
        parted.put(type, form);
        if (hasValues) {
            addChoice(MapPart.class, part, one -> ((MapPart) one).hasValues);
        } else {
            add(MapPart.class, part);
        }
    }

    /// Returns the form of large collections of a class, or null: there is none.
    public PartedForm parted(Class<?> type) {
        return parted.get(type);
    }

    public Form find(String name, int version) {
        Form form = byName.get(name);
        String type = convertedClass(name);
        if (form == null && type != null) {
            form = byName.get(ConvertedForm.PREFIX + settings.className(type));
        }
        return form == null || form.version != version ? null : form;
    }

    /// Returns the name of the class of a form by a converter, or null: the form is another one.
    public static String convertedClass(String name) {
        return name.startsWith(ConvertedForm.PREFIX) ? name.substring(ConvertedForm.PREFIX.length()) : null;
    }

    /// Whether all objects of a class have the same form.
    public boolean isChosenByClass(Class<?> type) {
        return byClass.containsKey(type) && !choices.containsKey(type) && type != Object.class;
    }

    /// @throws RefusedException if the class has none
    public Form of(Object object) throws RefusedException {
        Form own = ownForm(object);
        if (own != null) {
            return own;
        }
        Choice choice = choices.get(object.getClass());
        if (choice != null && choice.condition.test(object)) {
            return choice.form;
        }
        Form form = byClass.get(object.getClass());
        if (form == null && LambdaForm.isLambda(object)) {
            form = lambdas;
        }
        if (form == null && object instanceof Throwable && isOfJdk(object.getClass())) {
            form = throwables;
        }
        if (form == null) {
            throw new RefusedException(why(object));
        }
        return form;
    }

    /// Whether an object of the program has a form, and is not stored by its fields: one that the program has once in
    /// each process, or converts.
    public boolean hasOwnForm(Object object) {
        return mayHaveOwnForm(object.getClass()) && ownForm(object) != null;
    }

    /// Whether an object of a class may be such.
    public boolean mayHaveOwnForm(Class<?> type) {
        if (constants.hasConstants(type) || canonicals.mayContain(type)) {
            return true;
        }
        for (Class<?> one : converted.keySet()) {
            if (one.isAssignableFrom(type)) {
                return true;
            }
        }
        return false;
    }

    private Form ownForm(Object object) {
        for (Map.Entry<Class<?>, ConvertedForm> entry : converted.entrySet()) {
            if (entry.getKey().isInstance(object)) {
                return entry.getValue();
            }
        }
        if (constants.find(object) != null) {
            return staticFinals;
        }
        return canonicals.contains(object) ? canonicals : null;
    }

    private static String why(Object object) {
        Class<?> type = object.getClass();
        for (Reason reason : REASONS) {
            if (reason.type.isInstance(object)) {
                return reason.why;
            }
        }
        if (type.isHidden()) {
            return "it is a lambda that is not serialisable: cast the lambda to Serializable, or write a class";
        }
        if (type.getName().startsWith("java.util.concurrent.") && !ConcurrentForms.isView(object)) {
            return "a store has no form for this class of java.util.concurrent: use another collection, such as "
                    + "ConcurrentHashMap or LinkedBlockingQueue";
        }
        if (type.getName().startsWith("java.util.Collections$Checked")) {
            return "it is a checked view of another collection: keep that collection, and make the view where it is used";
        }
        boolean isView =
                type.getName().startsWith("java.util.") && type.getName().indexOf('$') > 0;
        if (isView && (object instanceof Collection || object instanceof Map || object instanceof Map.Entry)) {
            return "it is a view of another collection: copy it";
        }
        return isOfJdk(type)
                ? "a store has no form for this class of the JDK: keep the values from which it can be made again, "
                        + "or call StoreOptions.convert"
                : "its class has no barriers: remove it from exclude=… in the agent's argument, and add it or its package "
                        + "to include=… if there is one";
    }

    private static boolean isOfJdk(Class<?> type) {
        ClassLoader loader = type.getClassLoader();
        return loader == null || loader == ClassLoader.getPlatformClassLoader();
    }

    /// The word of an object that is no object of the store, or 0.
    public long word(Object value) {
        long box = Words.ofBox(value);
        if (box != 0) {
            return box;
        }
        Integer number = canonicalNumbers.get(value);
        return number == null ? 0 : Words.of(Words.CANONICAL, number);
    }

    public Object canonical(long word) {
        long number = Words.payload(word);
        if (number >= canonical.length) {
            throw new StoreException("a reference in the store leads to the constant " + number
                    + " of the JDK, which this version of Cedrat does not know: use the version that has written it");
        }
        return canonical[(int) number];
    }

    // ---- classes

    /// Lets private members of a class's package be called.
    void open(Class<?> type) {
        slots.open(type);
    }

    /// The name of a class, by which it is found again.
    String nameOf(Class<?> type, ObjectWriter out) {
        if (find(type.getName()) != type) {
            throw out.refuse("the class loader of the store does not find " + type.getName()
                    + ": set StoreOptions.classLoader when the store is opened");
        }
        return type.getName();
    }

    /// A name of a class, which is found by it.
    String checkedName(String name, ObjectWriter out) {
        if (find(name) == null) {
            throw out.refuse("the class loader of the store does not find " + name
                    + ": set StoreOptions.classLoader when the store is opened");
        }
        return name;
    }

    /// The class that has a name in the store.
    Class<?> classOf(String stored) {
        int dimensions = stored.lastIndexOf('[') + 1;
        boolean isArrayOfClass = dimensions > 0 && stored.charAt(dimensions) == 'L';
        String now = isArrayOfClass
                ? stored.substring(0, dimensions + 1)
                        + settings.className(stored.substring(dimensions + 1, stored.length() - 1)) + ";"
                : settings.className(stored);
        Class<?> found = find(now);
        if (found == null) {
            throw new StoreException("the program lacks the stored class " + stored + ": add it to the class path, or "
                    + "call StoreOptions.renameClass if it has another name now");
        }
        return found;
    }

    /// The present name of a field.
    String fieldName(Class<?> declaring, String stored) {
        return settings.fieldName(declaring.getName(), stored);
    }

    private Class<?> find(String name) {
        Class<?> primitive = primitive(name);
        if (primitive != null) {
            return primitive;
        }
        try {
            return Class.forName(name, false, settings.classLoader());
        } catch (ClassNotFoundException | LinkageError e) {
            return null;
        }
    }

    private static Class<?> primitive(String name) {
        return switch (name) {
            case "boolean" -> boolean.class;
            case "byte" -> byte.class;
            case "char" -> char.class;
            case "short" -> short.class;
            case "int" -> int.class;
            case "long" -> long.class;
            case "float" -> float.class;
            case "double" -> double.class;
            case "void" -> void.class;
            default -> null;
        };
    }
}
