package cedrat.persist.jdk;

import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;

/// A call by [Method#invoke], which the weaver knows only when it happens.
public final class ReflectiveCall {
    private final Method called;
    private final String owner;
    private final String name;
    private final boolean isStatic;
    private final List<Object> changed = new ArrayList<>();

    /// @param arguments what was passed as an array, or null
    public ReflectiveCall(Method called, Object arguments) {
        this.called = called;
        owner = called.getDeclaringClass().getName().replace('.', '/');
        name = called.getName();
        isStatic = Modifier.isStatic(called.getModifiers());
        Class<?>[] parameters = called.getParameterTypes();
        // Otherwise it will throw.
        boolean fits = arguments instanceof Object[] all && all.length == parameters.length;
        boolean copies = owner.equals("java/lang/System") && name.equals("arraycopy");
        if (fits && (copies || WovenMethods.mayChangeArguments(owner, name, true))) {
            for (int i = 0; i < parameters.length; i++) {
                if (copies || WovenMethods.isChanged(parameters[i].descriptorString(), owner)) {
                    changed.add(((Object[]) arguments)[i]);
                }
            }
        }
    }

    public boolean changesStatics() {
        return isStatic && StaticState.isChanged(owner, name);
    }

    public boolean changesReceiver() {
        return !isStatic && JavaBase.changesReceiver(owner, name);
    }

    /// The class and the name, as people write them.
    public String shownName() {
        return called.getDeclaringClass().getName() + "." + name;
    }

    /// Its name and descriptor.
    public String method() {
        return name
                + MethodType.methodType(called.getReturnType(), called.getParameterTypes())
                        .toMethodDescriptorString();
    }

    /// The arguments that code without barriers may change.
    public List<Object> changed() {
        return changed;
    }
}
