package cedrat.persist.form;

import cedrat.persist.PersistenceException;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.memory.Fields;
import cedrat.persist.memory.Memory;
import java.lang.reflect.Field;
import java.util.concurrent.ConcurrentHashMap;

/// Objects that are the value of a static final field: the class and the name of that field. A load returns the
/// value that the field has in this process.
public final class ConstantForm extends Form {
    private final Forms forms;
    private final StaticFinals constants;
    private final Fields slots;
    /// Threads that initialise a class, and load constants of it meanwhile.
    private final ConcurrentHashMap<Class<?>, Thread> initializing = new ConcurrentHashMap<>();

    ConstantForm(Forms forms, StaticFinals constants, Fields slots) {
        super("java.lang.reflect.Field");
        this.forms = forms;
        this.constants = constants;
        this.slots = slots;
        isConstant = true;
    }

    @Override
    void write(Object object, ObjectWriter out) {
        Field field = constants.find(object);
        out.putText(forms.checkedName(field.getDeclaringClass().getName(), out));
        out.putText(field.getName());
        out.endData();
    }

    /// Returns the class whose initialiser makes a constant, if that has not run; otherwise null.
    public Class<?> uninitialized(ObjectBytes in) {
        Class<?> declaring = forms.classOf(in.copy().getText());
        boolean isDue = Memory.isUninitialized(declaring) && initializing.get(declaring) != Thread.currentThread();
        return isDue ? declaring : null;
    }

    /// Initialises a class. If this thread is doing so already, it goes on as if it had.
    public void initialize(Class<?> declaring) {
        Memory.initialize(declaring);
        if (Memory.isUninitialized(declaring)) {
            initializing.put(declaring, Thread.currentThread());
        } else {
            initializing.remove(declaring);
        }
    }

    @Override
    Object fill(Object created, ObjectBytes in, Object[] references) {
        Class<?> declaring = forms.classOf(in.getText());
        String name = forms.fieldName(declaring, in.getText());
        Object value;
        try {
            value = slots.slot(declaring.getDeclaredField(name)).readReference(null);
        } catch (NoSuchFieldException e) {
            throw new PersistenceException(
                    "cannot load the constant " + declaring.getName() + "." + name + ", because the class has no such "
                            + "field: add it, or call PersistenceOptions.renameField if it has another name now",
                    e);
        }
        if (value == null) {
            throw new PersistenceException("cannot load the constant " + declaring.getName() + "." + name
                    + ", because it is null: load it when the class is initialised");
        }
        return value;
    }
}
