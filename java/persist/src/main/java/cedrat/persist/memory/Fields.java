package cedrat.persist.memory;

import cedrat.persist.boot.Identity;
import java.lang.invoke.MethodHandles;
import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;

/// The fields that woven code stores to, by the numbers that the weaver has put into it.
///
/// A number belongs to one woven class, so its symbols mean one field only; which one is looked up at the
/// first store in a transaction, when the classes are there for certain.
///
/// **Threads:** any.
public final class Fields {
    /// @param mayBeMemo whether a memo field has this name
    private record Symbol(String owner, String name, boolean isStatic, boolean mayBeMemo) {}

    /// Makes a package's private fields accessible.
    public interface Opener {
        void open(Class<?> declaring);
    }

    private final Opener opener;
    private final MemoFields memos;
    private final Predicate<Class<?>> hasBarriers;
    private volatile Symbol[] symbols = new Symbol[256];
    /// Slots by their numbers, as long as their classes are loaded, which have the slots too.
    private volatile WeakReference<Slot.Field>[] slots = newSlots(256);
    private int count;

    /// One slot for each field, whichever classes store to it: an undo log compares slots.
    private final ClassValue<ConcurrentHashMap<String, Slot.Field>> known = new ClassValue<>() {
        @Override
        protected ConcurrentHashMap<String, Slot.Field> computeValue(Class<?> declaring) {
            return new ConcurrentHashMap<>();
        }
    };

    private final ClassValue<Slot.Fields> ofClasses = new ClassValue<>() {
        @Override
        protected Slot.Fields computeValue(Class<?> type) {
            return find(type);
        }
    };

    private final ClassValue<Slot.Field[]> references = new ClassValue<>() {
        @Override
        protected Slot.Field[] computeValue(Class<?> type) {
            return findReferences(type);
        }
    };

    /// @param memos the fields that belong to no transaction and are not stored
    public Fields(Opener opener, MemoFields memos) {
        this(opener, memos, declaring -> true);
    }

    /// @param hasBarriers whether all code that assigns to the fields of a class has barriers
    public Fields(Opener opener, MemoFields memos, Predicate<Class<?>> hasBarriers) {
        this.opener = opener;
        this.memos = memos;
        this.hasBarriers = hasBarriers;
    }

    /// Returns the fields that belong to no transaction and are not stored.
    public MemoFields memos() {
        return memos;
    }

    @SuppressWarnings("unchecked")
    private static WeakReference<Slot.Field>[] newSlots(int count) {
        return (WeakReference<Slot.Field>[]) new WeakReference<?>[count];
    }

    /// Makes a package's private members accessible.
    public void open(Class<?> declaring) {
        opener.open(declaring);
    }

    /// A new number.
    ///
    /// @param owner the binary name of the class that the instruction names
    public synchronized int add(String owner, String name, boolean isStatic) {
        if (count == symbols.length) {
            symbols = Arrays.copyOf(symbols, 2 * count);
            slots = Arrays.copyOf(slots, 2 * count);
        }
        symbols[count] = new Symbol(owner, name, isStatic, !isStatic && memos.mayHave(name));
        return count++;
    }

    /// Whether the field of a number has the name of a memo field.
    public boolean mayBeMemo(int number) {
        return symbols[number].mayBeMemo;
    }

    /// The slot of a field.
    ///
    /// @param base the object, or the class that the instruction names
    public Slot.Field slot(int number, Object base) {
        WeakReference<Slot.Field> known = slots[number];
        Slot.Field slot = known == null ? null : known.get();
        return slot != null ? slot : find(number, base);
    }

    /// The slot of all fields of a class that may change, those that it inherits included.
    public Slot.Fields slot(Class<?> type) {
        return ofClasses.get(type);
    }

    /// All fields of a class that lead to objects, final ones and those that it inherits included.
    public Slot.Field[] references(Class<?> type) {
        return references.get(type);
    }

    private Slot.Field[] findReferences(Class<?> type) {
        List<Slot.Field> found = new ArrayList<>();
        for (Class<?> declaring = type; declaring != null; declaring = declaring.getSuperclass()) {
            for (Field field : declaring.getDeclaredFields()) {
                if (isVariable(field) && !field.getType().isPrimitive()) {
                    found.add(slot(field));
                }
            }
        }
        return found.toArray(Slot.Field[]::new);
    }

    private Slot.Fields find(Class<?> type) {
        List<Slot.Field> found = new ArrayList<>();
        for (Class<?> declaring = type; declaring != null; declaring = declaring.getSuperclass()) {
            for (Field field : declaring.getDeclaredFields()) {
                if (isVariable(field) && !Modifier.isFinal(field.getModifiers())) {
                    found.add(slot(field));
                }
            }
        }
        return new Slot.Fields(found.toArray(Slot.Field[]::new));
    }

    /// Whether a field belongs to its object, and to the program: a rollback does not make an object persistent.
    private static boolean isVariable(Field field) {
        return !Modifier.isStatic(field.getModifiers()) && field.getType() != Identity.class;
    }

    private Slot.Field find(int number, Object base) {
        Symbol symbol = symbols[number];
        Class<?> owner = symbol.isStatic ? (Class<?>) base : base.getClass();
        while (!owner.getName().equals(symbol.owner)) {
            owner = owner.getSuperclass();
        }
        Slot.Field slot = slot(declared(owner, symbol.name));
        synchronized (this) {
            slots[number] = new WeakReference<>(slot);
        }
        return slot;
    }

    private static Field declared(Class<?> owner, String name) {
        for (Class<?> declaring = owner; declaring != null; declaring = declaring.getSuperclass()) {
            for (Field field : declaring.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    return field;
                }
            }
        }
        throw new AssertionError(owner.getName() + "." + name + " was assigned, but the class has no such field");
    }

    /// The slot of a field.
    public Slot.Field slot(Field field) {
        Class<?> declaring = field.getDeclaringClass();
        return known.get(declaring).computeIfAbsent(field.getName(), name -> make(field, declaring));
    }

    private Slot.Field make(Field field, Class<?> declaring) {
        opener.open(declaring);
        boolean isStatic = Modifier.isStatic(field.getModifiers());
        try {
            MethodHandles.Lookup lookup = MethodHandles.privateLookupIn(declaring, MethodHandles.lookup());
            return new Slot.Field(
                    field,
                    lookup.unreflectVarHandle(field),
                    isStatic ? declaring : null,
                    !isStatic && memos.has(field),
                    hasBarriers.test(declaring));
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(
                    "a rollback cannot restore the field " + field + ": open its package to the module of the agent",
                    e);
        }
    }
}
