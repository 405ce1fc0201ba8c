package cedrat.persist.jdk;

import cedrat.persist.jdk.JavaBase.Treatment;
import java.io.Reader;
import java.io.Writer;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/// Treatment of an object before a call of a method that may change it. It is that of the class or of its
/// nearest ancestor that [JavaBase] or a rule decides about. Methods that a class of the application
/// overrides are code with barriers of its own.
///
/// **Threads:** any.
public final class Treatments {
    /// A method, as the objects of a class have it.
    ///
    /// @param isOfJdk whether the application has not written it
    private record Call(Treatment treatment, boolean isOfJdk) {}

    /// They change what they run over.
    private static final Set<String> CHANGES_OF_ITERATORS = Set.of("add", "remove", "set");

    private final ClassValue<Treatment> ofObjects = new ClassValue<>() {
        @Override
        protected Treatment computeValue(Class<?> type) {
            Class<?> deciding = deciding(type);
            return deciding == null ? Treatment.HARMLESS : ofDeciding(deciding);
        }
    };

    private final ClassValue<Treatment> ofArguments = new ClassValue<>() {
        @Override
        protected Treatment computeValue(Class<?> type) {
            boolean changesNothing = isOfApplication(type) ? hasNoState(deciding(type)) : isCounted(type);
            return changesNothing && isUnseen(of(type)) ? Treatment.HARMLESS : of(type);
        }
    };

    private final ClassValue<ConcurrentHashMap<String, Call>> ofCalls = new ClassValue<>() {
        @Override
        protected ConcurrentHashMap<String, Call> computeValue(Class<?> type) {
            return new ConcurrentHashMap<>();
        }
    };

    /// How objects of a class are treated, never `SUPERTYPE`.
    Treatment of(Class<?> type) {
        return ofObjects.get(type);
    }

    /// How an object of a class is treated when a method is called.
    ///
    /// @param method its name and descriptor; of a call by `super`, behind the name of the class and a dot
    public Treatment of(Class<?> type, String method) {
        Treatment treatment = of(type);
        return isUnseen(treatment) ? call(type, method).treatment : treatment;
    }

    /// Whether a class has a method from the JDK, and not from the application.
    ///
    /// @param method as above
    public boolean isOfJdk(Class<?> type, String method) {
        return call(type, method).isOfJdk;
    }

    /// How an object of a class is treated when it is passed to code without barriers.
    public Treatment ofArgument(Class<?> type) {
        return ofArguments.get(type);
    }

    private static boolean isUnseen(Treatment treatment) {
        return treatment == Treatment.SAVED || treatment == Treatment.REFUSED;
    }

    private Call call(Class<?> type, String method) {
        ConcurrentHashMap<String, Call> calls = ofCalls.get(type);
        Call known = calls.get(method);
        if (known == null) {
            known = find(type, method);
            calls.put(method, known);
        }
        return known;
    }

    // ---- classes

    /// Returns the class that decides about the objects of a class: its nearest ancestor in the JDK that is listed or
    /// woven. A class of the JDK that extends one with barriers need not have any itself, so an interface by which
    /// it is listed goes before that. Null if nothing decides.
    public static Class<?> deciding(Class<?> type) {
        Class<?> ofJdk = nearestOfJdk(type);
        Class<?> found = ofJdk;
        while (found != null && !isListed(found) && !isWoven(found)) {
            found = found.getSuperclass();
        }
        if (found == ofJdk || found != null && ofDeciding(found) != Treatment.WOVEN) {
            return found;
        }
        for (Class<?> one : listedInterfaces(ofJdk)) {
            if (isUnseen(ofDeciding(one))) {
                return one;
            }
        }
        return isHelper(ofJdk) ? ofJdk : found;
    }

    private static Class<?> nearestOfJdk(Class<?> type) {
        Class<?> ancestor = type;
        while (ancestor != null && isOfApplication(ancestor)) {
            ancestor = ancestor.getSuperclass();
        }
        return ancestor;
    }

    private static Treatment ofDeciding(Class<?> deciding) {
        Treatment decided = JavaBase.treatment(internalName(deciding));
        if (decided != null) {
            return decided;
        }
        return isWoven(deciding) ? Treatment.WOVEN : Treatment.REFUSED;
    }

    private static boolean isWoven(Class<?> type) {
        return JavaBase.isWoven(internalName(type));
    }

    private static boolean isListed(Class<?> type) {
        return JavaBase.treatment(internalName(type)) != null;
    }

    /// The interfaces of a class and of its ancestors that are listed.
    private static List<Class<?>> listedInterfaces(Class<?> type) {
        List<Class<?>> listed = new ArrayList<>();
        for (Class<?> ancestor = type; ancestor != null; ancestor = ancestor.getSuperclass()) {
            for (Class<?> one : ancestor.getInterfaces()) {
                if (isListed(one)) {
                    listed.add(one);
                }
                listed.addAll(listedInterfaces(one));
            }
        }
        return listed;
    }

    /// Collections that have no barriers, views of such, executors, and the like.
    private static boolean isHelper(Class<?> type) {
        return type.getName().startsWith("java.util.concurrent.")
                || Collection.class.isAssignableFrom(type)
                || Map.class.isAssignableFrom(type);
    }

    /// Whether a class is that of iterators of which the collection keeps a list, from which they go at their
    /// end: were they put back, the list would lack them.
    private static boolean isCounted(Class<?> type) {
        return type.getName().equals("java.util.concurrent.ArrayBlockingQueue$Itr");
    }

    /// Whether what the methods of a class change belongs to its subclass. Readers and writers have an array
    /// of their own, for the time of a call.
    private static boolean hasNoState(Class<?> type) {
        for (Class<?> ancestor = type; ancestor != null; ancestor = ancestor.getSuperclass()) {
            for (Field field : ancestor.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers()) && ancestor != Reader.class && ancestor != Writer.class) {
                    return false;
                }
            }
        }
        return true;
    }

    // ---- calls

    private static Call find(Class<?> type, String method) {
        int dot = method.indexOf('.');
        String descriptor = method.substring(dot + 1);
        String name = descriptor.substring(0, descriptor.indexOf('('));
        Class<?> from = dot < 0 ? type : ancestor(type, method.substring(0, dot));
        if (isOfApplication(type) && isWritten(from, name, descriptor)) {
            return new Call(Treatment.HARMLESS, false);
        }
        Class<?> ofJdk = nearestOfJdk(from);
        Class<?> deciding = ofJdk == null ? null : deciding(ofJdk);
        boolean changesNothing = deciding == null || ofJdk != type && hasNoState(deciding);
        return new Call(changesNothing ? Treatment.HARMLESS : find(ofJdk, deciding, name), true);
    }

    private static Treatment find(Class<?> type, Class<?> deciding, String name) {
        if (Iterator.class.isAssignableFrom(deciding) && CHANGES_OF_ITERATORS.contains(name)) {
            return Treatment.REFUSED;
        }
        return changes(type, deciding, name) && !isCounted(type) ? ofDeciding(deciding) : Treatment.HARMLESS;
    }

    private static boolean changes(Class<?> type, Class<?> deciding, String name) {
        if (deciding.isInterface()) {
            return listedInterfaces(type).stream()
                    .anyMatch(one -> JavaBase.methods(internalName(one)).contains(name));
        }
        return isListed(deciding) ? JavaBase.methods(internalName(deciding)).contains(name) : JavaBase.isChange(name);
    }

    private static Class<?> ancestor(Class<?> type, String internalName) {
        Class<?> ancestor = type;
        while (ancestor != null && !internalName(ancestor).equals(internalName)) {
            ancestor = ancestor.getSuperclass();
        }
        return ancestor;
    }

    /// Whether it is the application that has written a method which a class has.
    private static boolean isWritten(Class<?> type, String name, String descriptor) {
        for (Class<?> ancestor = type; ancestor != null; ancestor = ancestor.getSuperclass()) {
            if (declares(ancestor, name, descriptor)) {
                return isOfApplication(ancestor);
            }
        }
        for (Class<?> ancestor = type; ancestor != null; ancestor = ancestor.getSuperclass()) {
            if (isWrittenInInterface(ancestor, name, descriptor)) {
                return true;
            }
        }
        return false;
    }

    private static boolean isWrittenInInterface(Class<?> type, String name, String descriptor) {
        for (Class<?> one : type.getInterfaces()) {
            if (isOfApplication(one) && declares(one, name, descriptor)
                    || isWrittenInInterface(one, name, descriptor)) {
                return true;
            }
        }
        return false;
    }

    private static boolean declares(Class<?> type, String name, String descriptor) {
        for (Method method : methods(type)) {
            if (method.getName().equals(name)) {
                String own = MethodType.methodType(method.getReturnType(), method.getParameterTypes())
                        .toMethodDescriptorString();
                if (descriptor.equals(name + own)) {
                    return true;
                }
            }
        }
        return false;
    }

    /// None of a class whose methods mention classes that are not there: what is taken for the JDK's may be
    /// refused, which is said, while a change that is missed is not.
    private static Method[] methods(Class<?> type) {
        try {
            return type.getDeclaredMethods();
        } catch (LinkageError e) {
            return new Method[0];
        }
    }

    private static boolean isOfApplication(Class<?> type) {
        ClassLoader loader = type.getClassLoader();
        return loader != null && loader != ClassLoader.getPlatformClassLoader();
    }

    private static String internalName(Class<?> type) {
        return type.getName().replace('.', '/');
    }
}
