package cedrat.persist.memory;

import cedrat.persist.boot.Barrier;
import cedrat.persist.boot.Persistable;
import java.io.IOException;
import java.io.InputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.CodeElement;
import java.lang.classfile.MethodModel;
import java.lang.classfile.Opcode;
import java.lang.classfile.instruction.FieldInstruction;
import java.lang.classfile.instruction.InvokeDynamicInstruction;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.reflect.Array;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/// Origins of hash codes. One that comes from `Object.hashCode` differs in each process: classes, lambdas, and objects
/// without a `hashCode` of their own have such.
///
/// **Threads:** any.
public final class HashSource {
    /// Objects that are nested deeper do not occur in keys.
    private static final int DEPTH_MAX = 6;
    /// Number of elements of a collection that are looked at.
    private static final int ELEMENTS_MAX = 64;

    private enum Kind {
        IDENTITY,
        VALUE,
        CONSTANT,
        ELEMENTS,
        FIELDS
    }

    private final Fields slots;
    private final ClassValue<HashSource.OfClass> classes = new ClassValue<>() {
        @Override
        protected OfClass computeValue(Class<?> type) {
            return find(type);
        }
    };

    /// @param fields the fields that a hash code reads, by their names, or null: any
    private record OfClass(Kind kind, Set<String> fields) {
        static final OfClass IDENTITY = new OfClass(Kind.IDENTITY, null);
        static final OfClass VALUE = new OfClass(Kind.VALUE, null);
    }

    public HashSource(Fields slots) {
        this.slots = slots;
    }

    /// Whether the hash code of an object may differ in each process, by its class.
    public boolean mayDiffer(Object object) {
        return classes.get(object.getClass()).kind != Kind.VALUE;
    }

    /// Whether the hash code of an object differs in each process.
    public boolean differs(Object object) {
        return differs(object, 0);
    }

    private boolean differs(Object object, int depth) {
        if (object == null || depth == DEPTH_MAX) {
            return false;
        }
        OfClass source = classes.get(object.getClass());
        return switch (source.kind) {
            case VALUE -> false;
            case IDENTITY -> true;
            // A constant that was asked before the agent was loaded keeps what it has answered.
            case CONSTANT -> object.hashCode() != Barrier.hash(object);
            case ELEMENTS -> elementsDiffer(object, depth + 1);
            case FIELDS -> fieldsDiffer(object, source.fields, depth + 1);
        };
    }

    private boolean elementsDiffer(Object object, int depth) {
        Iterable<?> elements =
                switch (object) {
                    case Map<?, ?> map -> map.entrySet();
                    case Map.Entry<?, ?> entry -> Arrays.asList(entry.getKey(), entry.getValue());
                    case Optional<?> optional -> optional.stream().toList();
                    default -> (Iterable<?>) object;
                };
        int count = 0;
        for (Object element : elements) {
            if (differs(element, depth)) {
                return true;
            }
            if (++count == ELEMENTS_MAX) {
                return false;
            }
        }
        return false;
    }

    private boolean fieldsDiffer(Object object, Set<String> names, int depth) {
        for (Slot.Field field : slots.references(object.getClass())) {
            boolean isRead = names == null || names.contains(field.reflected.getName());
            if (isRead && heldDiffers(field.readReference(object), depth)) {
                return true;
            }
        }
        return false;
    }

    /// An array counts by its elements: a method reads these.
    private boolean heldDiffers(Object held, int depth) {
        if (!(held instanceof Object[] array)) {
            return !(held != null && held.getClass().isArray()) && differs(held, depth);
        }
        for (int i = 0; i < Math.min(Array.getLength(array), ELEMENTS_MAX); i++) {
            if (differs(array[i], depth)) {
                return true;
            }
        }
        return false;
    }

    private static OfClass find(Class<?> type) {
        if (Enum.class.isAssignableFrom(type)) {
            return new OfClass(Kind.CONSTANT, null);
        }
        Class<?> declaring = declaring(type);
        if (declaring == Object.class || type.isArray()) {
            return OfClass.IDENTITY;
        }
        if (declaring.getClassLoader() != null && Persistable.class.isAssignableFrom(declaring)) {
            return ofProgram(declaring);
        }
        if (Persistable.class.isAssignableFrom(type)) {
            // Its methods may assign to its fields, so none is called.
            return new OfClass(Kind.FIELDS, null);
        }
        boolean hasElements = Collection.class.isAssignableFrom(type)
                || Map.class.isAssignableFrom(type)
                || Map.Entry.class.isAssignableFrom(type)
                || type == Optional.class;
        return hasElements ? new OfClass(Kind.ELEMENTS, null) : OfClass.VALUE;
    }

    /// The class whose `hashCode` the objects of a class have.
    private static Class<?> declaring(Class<?> type) {
        for (Class<?> one = type; one != null; one = one.getSuperclass()) {
            try {
                one.getDeclaredMethod("hashCode");
                return one;
            } catch (NoSuchMethodException inherited) {
                continue;
            }
        }
        return Object.class;
    }

    private static OfClass ofProgram(Class<?> declaring) {
        MethodModel method = null;
        ClassModel type = parsed(declaring);
        for (MethodModel one : type == null ? List.<MethodModel>of() : type.methods()) {
            if (one.methodName().equalsString("hashCode") && one.methodType().equalsString("()I")) {
                method = one;
            }
        }
        if (method == null || method.code().isEmpty()) {
            return new OfClass(Kind.FIELDS, null);
        }
        Set<String> fields = new HashSet<>();
        boolean readsOthers = false;
        for (CodeElement element : method.code().get()) {
            if (element instanceof InvokeInstruction call && isByIdentity(call)) {
                return OfClass.IDENTITY;
            }
            if (element instanceof FieldInstruction read && read.opcode() == Opcode.GETFIELD) {
                fields.add(read.name().stringValue());
            }
            readsOthers |= element instanceof InvokeDynamicInstruction
                    || element instanceof InvokeInstruction call && passesThis(call, type);
        }
        return new OfClass(Kind.FIELDS, readsOthers ? null : fields);
    }

    /// Whether a call may read fields of the object itself.
    private static boolean passesThis(InvokeInstruction call, ClassModel type) {
        String owner = call.owner().asInternalName();
        String above = type.superclass().map(name -> name.asInternalName()).orElse("");
        boolean isOwn = owner.equals(type.thisClass().asInternalName()) || owner.equals(above);
        return isOwn || !owner.startsWith("java/") || owner.startsWith("java/util/Abstract");
    }

    private static boolean isByIdentity(InvokeInstruction call) {
        boolean isOfObject = call.opcode() == Opcode.INVOKESPECIAL
                && call.owner().asInternalName().equals("java/lang/Object")
                && call.name().equalsString("hashCode");
        return isOfObject || asksIdentity(call);
    }

    private static boolean asksIdentity(InvokeInstruction call) {
        return call.owner().asInternalName().equals("java/lang/System")
                && call.name().equalsString("identityHashCode");
    }

    /// Whether a class, or a superclass, asks objects for their identity hash codes, to find them by these.
    public static boolean findsByIdentity(Class<?> type) {
        for (Class<?> one = type; Persistable.class.isAssignableFrom(one); one = one.getSuperclass()) {
            ClassModel model = parsed(one);
            for (MethodModel method : model == null ? List.<MethodModel>of() : model.methods()) {
                boolean isOfObject = method.methodName().equalsString("hashCode")
                        || method.methodName().equalsString("toString");
                boolean asks = method.code().stream()
                        .flatMap(code -> code.elementStream())
                        .anyMatch(element -> element instanceof InvokeInstruction call && asksIdentity(call));
                if (asks && !isOfObject) {
                    return true;
                }
            }
        }
        return false;
    }

    /// The class as it was compiled, or null: it was made by the program.
    private static ClassModel parsed(Class<?> type) {
        String name = type.getName().replace('.', '/') + ".class";
        try (InputStream in = type.getClassLoader().getResourceAsStream(name)) {
            return in == null ? null : ClassFile.of().parse(in.readAllBytes());
        } catch (IOException | IllegalArgumentException unreadable) {
            return null;
        }
    }
}
