package cedrat.persist.form;

import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.memory.Fields;
import cedrat.persist.memory.Memory;
import cedrat.persist.memory.Slot;
import cedrat.persist.memory.StackTraces;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;

/// Exceptions and errors of the JDK: as data the name of the class, and the classes and names of its fields; as
/// references the values of these. The stack trace is one of them: that of the virtual machine is not stored.
public final class ThrowableForm extends Form {
    /// The fields of [Throwable] that are stored.
    private static final List<String> FIELDS = List.of("detailMessage", "cause", "stackTrace", "suppressedExceptions");

    private final Forms forms;
    private final Fields slots;

    ThrowableForm(Forms forms, Fields slots) {
        super("java.lang.Throwable");
        this.forms = forms;
        this.slots = slots;
        slots.open(Throwable.class);
    }

    /// Returns the fields of [Throwable] that are stored, also with those of a class of the program.
    public static List<Field> fields() {
        List<Field> found = new ArrayList<>();
        for (String name : FIELDS) {
            try {
                found.add(Throwable.class.getDeclaredField(name));
            } catch (NoSuchFieldException e) {
                throw new AssertionError("this JDK has no field " + name + " of Throwable", e);
            }
        }
        return found;
    }

    /// The fields of a class and its superclasses.
    private static List<Field> fields(Class<?> type) {
        List<Field> found = fields();
        for (Class<?> declaring = type; declaring != Throwable.class; declaring = declaring.getSuperclass()) {
            for (Field field : declaring.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    found.add(field);
                }
            }
        }
        return found;
    }

    @Override
    void write(Object object, ObjectWriter out) {
        StackTraces.fill((Throwable) object);
        List<Field> fields = fields(object.getClass());
        out.putText(forms.nameOf(object.getClass(), out));
        out.buffer.putInt(fields.size());
        for (Field field : fields) {
            out.putText(field.getDeclaringClass().getName());
            out.putText(field.getName());
        }
        out.endData();
        for (Field field : fields) {
            out.reference(slots.slot(field).read(object));
        }
    }

    @Override
    Object create(ObjectBytes in) {
        Class<?> type = forms.classOf(in.getText());
        if (!Throwable.class.isAssignableFrom(type)) {
            throw in.damaged(type.getName() + " is no exception");
        }
        return Memory.allocate(type);
    }

    @Override
    Object fill(Object created, ObjectBytes in, Object[] references) {
        int count = in.getCount();
        if (count != references.length) {
            throw in.damaged("it has " + references.length + " values of " + count + " fields");
        }
        for (int i = 0; i < count; i++) {
            String declaring = in.getText();
            put(created, declaring, in.getText(), references[i], in);
        }
        return created;
    }

    /// A field that this version of the JDK does not have is dropped.
    private void put(Object created, String declaring, String name, Object value, ObjectBytes in) {
        for (Field field : fields(created.getClass())) {
            if (field.getName().equals(name)
                    && field.getDeclaringClass().getName().equals(declaring)) {
                Slot.Field slot = slots.slot(field);
                if (!slot.accepts(value)) {
                    throw in.damaged("its field " + name + " has a value of another type");
                }
                slot.load(created, value);
                return;
            }
        }
    }

    @Override
    String step(Object object, int reference) {
        return fields(object.getClass()).get(reference).getName();
    }
}
