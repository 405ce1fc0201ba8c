package cedrat.persist.form;

import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.memory.Memory;
import java.util.concurrent.ConcurrentHashMap;

/// Objects that a class of the program has once in each process. Their data begin with the name of the class
/// that makes them.
public abstract class ConstantForm extends Form {
    final Forms forms;
    /// Threads that initialise a class, and load constants of it meanwhile.
    private final ConcurrentHashMap<Class<?>, Thread> initializing = new ConcurrentHashMap<>();

    ConstantForm(String name, Forms forms) {
        super(name);
        this.forms = forms;
        isConstant = true;
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
}
