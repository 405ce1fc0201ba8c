package cedrat.persist;

import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;

/// The forms of the classes of the JDK that a store can have, and the objects that each virtual machine has
/// once (J4).
///
/// **Threads:** any, once it is made.
final class Forms {
    /// A form of some objects of a class.
    private record Choice(Form form, Predicate<Object> condition) {}

    /// Why objects of a class, or of what extends it, cannot be persistent. The first that fits counts.
    private record Reason(Class<?> type, String why) {}

    private static final Reason[] REASONS = {
        new Reason(Thread.class, "a thread ends with its program"),
        new Reason(ThreadGroup.class, "threads end with their program"),
        new Reason(ClassLoader.class, "a class loader ends with its program: keep the names of classes"),
        new Reason(java.net.Socket.class, "a connection ends with its program: keep the address"),
        new Reason(java.net.ServerSocket.class, "a connection ends with its program: keep the address"),
        new Reason(java.nio.channels.Channel.class, "a channel ends with its program: keep the name of its file"),
        new Reason(java.io.InputStream.class, "a stream ends with its program: keep what it has read"),
        new Reason(java.io.OutputStream.class, "a stream ends with its program: keep the name of its file"),
        new Reason(java.io.Reader.class, "a stream ends with its program: keep what it has read"),
        new Reason(java.io.Writer.class, "a stream ends with its program: keep the name of its file"),
        new Reason(java.io.RandomAccessFile.class, "an open file ends with its program: keep its name"),
        new Reason(Process.class, "a process is not the program's"),
        new Reason(ThreadLocal.class, "it belongs to threads, which end with their program"),
        new Reason(
                java.util.concurrent.Executor.class,
                "its threads end with their program: make it when the program starts"),
        new Reason(java.util.concurrent.Future.class, "its computation ends with the program: keep its result"),
        new Reason(
                java.util.concurrent.locks.Lock.class,
                "who holds it ends with the program: use RwLock, or make it " + "a transient field"),
        new Reason(java.lang.ref.Reference.class, "what it leads to may go at any time: make it a transient field"),
        new Reason(java.util.WeakHashMap.class, "its entries may go at any time: use a HashMap, or a transient field"),
        new Reason(java.util.stream.BaseStream.class, "a stream is used once: keep what it is made of"),
        new Reason(Iterator.class, "an iterator belongs to a moment of its collection"),
        new Reason(Throwable.class, "it has the stack of its thread: keep its message"),
        new Reason(java.security.SecureRandom.class, "its numbers are not to come again"),
        new Reason(java.nio.Buffer.class, "its memory may not be the heap's: keep an array"),
    };

    private final Fields slots;
    private final PersistenceOptions options;
    private final Map<Class<?>, Form> byClass = new HashMap<>();
    private final Map<Class<?>, Choice> choices = new HashMap<>();
    private final Map<String, Form> byName = new HashMap<>();
    private final LambdaForm lambdas = new LambdaForm(this);

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

    Forms(Fields slots, PersistenceOptions options) {
        this.slots = slots;
        this.options = options;
        for (int i = 0; i < canonical.length; i++) {
            canonicalNumbers.put(canonical[i], i);
        }
        ValueForms.addTo(this);
        CollectionForms.addTo(this);
        NodeForms.addTo(this, slots);
        WrapperForms.addTo(this);
        byName.put(lambdas.name, lambdas);
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

    Form find(String name, int version) {
        Form form = byName.get(name);
        return form == null || form.version != version ? null : form;
    }

    /// Whether all objects of a class have the same form.
    boolean isChosenByClass(Class<?> type) {
        return byClass.containsKey(type) && !choices.containsKey(type);
    }

    /// @throws RefusedException if the class has none
    Form of(Object object) throws RefusedException {
        Choice choice = choices.get(object.getClass());
        if (choice != null && choice.condition.test(object)) {
            return choice.form;
        }
        Form form = byClass.get(object.getClass());
        if (form == null && LambdaForm.isLambda(object)) {
            form = lambdas;
        }
        if (form == null) {
            throw new RefusedException(why(object));
        }
        return form;
    }

    private static String why(Object object) {
        Class<?> type = object.getClass();
        for (Reason reason : REASONS) {
            if (reason.type.isInstance(object)) {
                return reason.why;
            }
        }
        if (type.isHidden()) {
            return "it is a lambda that is not serialisable: cast it to Serializable where it is written, or give it a "
                    + "class";
        }
        if (type.getName().startsWith("java.util.concurrent.")) {
            return "it changes behind the barriers' back: use a collection of java.util";
        }
        if (type.getName().startsWith("java.util.Collections$Checked")) {
            return "it checks what is put into another collection: keep that, and wrap it anew where it is used";
        }
        boolean isView =
                type.getName().startsWith("java.util.") && type.getName().indexOf('$') > 0;
        if (isView && (object instanceof Collection || object instanceof Map || object instanceof Map.Entry)) {
            return "it shows a part of another collection: copy it";
        }
        ClassLoader loader = type.getClassLoader();
        return loader == null || loader == ClassLoader.getPlatformClassLoader()
                ? "this class of the JDK has no form in a store: keep what it is made of"
                : "its class has no barriers: do not exclude it from weaving";
    }

    /// The word of an object that is no object of the store, or 0.
    long word(Object value) {
        long box = Words.ofBox(value);
        if (box != 0) {
            return box;
        }
        Integer number = canonicalNumbers.get(value);
        return number == null ? 0 : Words.of(Words.CANONICAL, number);
    }

    Object canonical(long word) {
        long number = Words.payload(word);
        if (number >= canonical.length) {
            throw new PersistenceException("the object " + number + " of those that each virtual machine has once is "
                    + "not known: use the version of Cedrat that has written it");
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
            throw out.refuse("the store does not find " + type.getName()
                    + " by its name: say PersistenceOptions.classLoader when opening it");
        }
        return type.getName();
    }

    /// A name of a class, which is found by it.
    String checkedName(String name, ObjectWriter out) {
        if (find(name) == null) {
            throw out.refuse("the store does not find " + name
                    + " by its name: say PersistenceOptions.classLoader when opening it");
        }
        return name;
    }

    /// The class that has a name in the store.
    Class<?> classOf(String stored) {
        int dimensions = stored.lastIndexOf('[') + 1;
        boolean isArrayOfClass = dimensions > 0 && stored.charAt(dimensions) == 'L';
        String now = isArrayOfClass
                ? stored.substring(0, dimensions + 1)
                        + options.className(stored.substring(dimensions + 1, stored.length() - 1)) + ";"
                : options.className(stored);
        Class<?> found = find(now);
        if (found == null) {
            throw new PersistenceException("the class " + stored + " is not there: add it to the class path, or say "
                    + "PersistenceOptions.renameClass if it has another name now");
        }
        return found;
    }

    private Class<?> find(String name) {
        Class<?> primitive = primitive(name);
        if (primitive != null) {
            return primitive;
        }
        try {
            return Class.forName(name, false, options.classLoader);
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
