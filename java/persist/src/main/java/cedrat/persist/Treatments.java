package cedrat.persist;

import cedrat.persist.JavaBase.Treatment;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.Reader;
import java.io.Writer;
import java.lang.invoke.MethodType;
import java.lang.reflect.Modifier;
import java.util.concurrent.ConcurrentHashMap;

/// What becomes of an object when a method of it is called that may change it: its class decides, or the
/// nearest ancestor of it that [JavaBase] lists. What a class of the application overrides is code with
/// barriers of its own.
///
/// **Threads:** any.
final class Treatments {
    private final ClassValue<Treatment> ofObjects = new ClassValue<>() {
        @Override
        protected Treatment computeValue(Class<?> type) {
            return find(type);
        }
    };

    private final ClassValue<ConcurrentHashMap<String, Treatment>> ofCalls = new ClassValue<>() {
        @Override
        protected ConcurrentHashMap<String, Treatment> computeValue(Class<?> type) {
            return new ConcurrentHashMap<>();
        }
    };

    /// How objects of a class are treated, never `INTERFACE`.
    Treatment of(Class<?> type) {
        return ofObjects.get(type);
    }

    /// How an object of a class is treated when a method is called.
    ///
    /// @param method its name and descriptor; of a call by `super`, behind the name of the class and a dot
    /// @return `HARMLESS` if the application has written the method
    Treatment of(Class<?> type, String method) {
        ConcurrentHashMap<String, Treatment> calls = ofCalls.get(type);
        Treatment known = calls.get(method);
        if (known == null) {
            known = find(type, method);
            calls.put(method, known);
        }
        return known;
    }

    /// Whether an object that is passed on may be written to where no barrier is. What an application makes
    /// of an abstract class stores by itself.
    Treatment ofArgument(Class<?> type) {
        Class<?> listed = listed(type);
        return listed != null && isOfApplication(type) && Modifier.isAbstract(listed.getModifiers())
                ? Treatment.HARMLESS
                : of(type);
    }

    private static Treatment find(Class<?> type) {
        Class<?> listed = listed(type);
        if (listed == null) {
            return Treatment.HARMLESS;
        }
        JavaBase.Type found = JavaBase.find(internalName(listed));
        return found == null ? Treatment.REFUSED : found.treatment();
    }

    /// The nearest ancestor that is listed or belongs to one that is, or null.
    static Class<?> listed(Class<?> type) {
        for (Class<?> ancestor = type; ancestor != null; ancestor = ancestor.getSuperclass()) {
            if (!isOfApplication(ancestor) && (JavaBase.find(internalName(ancestor)) != null || isHelper(ancestor))) {
                return ancestor;
            }
        }
        return null;
    }

    /// Views and iterators of the collections of `java.util.concurrent`, executors, and the like.
    private static boolean isHelper(Class<?> type) {
        return type.getName().startsWith("java.util.concurrent.");
    }

    /// A view changes what it is a view of.
    private static boolean changesHelper(Class<?> type, String name) {
        String own = internalName(type);
        int nested = own.indexOf('$');
        JavaBase.Type outer = nested < 0 ? null : JavaBase.find(own.substring(0, nested));
        return outer == null
                ? JavaBase.changesReceiver(own, name)
                : name.equals("setValue") || outer.methods().contains(name);
    }

    private static Treatment find(Class<?> type, String method) {
        if (listed(type) == null) {
            return Treatment.HARMLESS;
        }
        int dot = method.indexOf('.');
        String descriptor = method.substring(dot + 1);
        Class<?> from = type;
        if (dot >= 0) {
            String owner = method.substring(0, dot);
            while (from != null && !internalName(from).equals(owner)) {
                from = from.getSuperclass();
            }
        }
        String name = descriptor.substring(0, descriptor.indexOf('('));
        for (Class<?> ancestor = from; ancestor != null; ancestor = ancestor.getSuperclass()) {
            if (isOfApplication(ancestor)) {
                if (declares(ancestor, name, descriptor)) {
                    return Treatment.HARMLESS;
                }
            } else {
                JavaBase.Type listed = JavaBase.find(internalName(ancestor));
                if (listed != null && isOfApplication(type) && isBare(ancestor)) {
                    return Treatment.WOVEN;
                }
                if (listed != null) {
                    return listed.methods().contains(name) ? listed.treatment() : Treatment.HARMLESS;
                }
                if (isHelper(ancestor)) {
                    return changesHelper(ancestor, name) ? Treatment.REFUSED : Treatment.HARMLESS;
                }
            }
        }
        return Treatment.HARMLESS;
    }

    /// Whether a class has no state but for scratch: its methods call those that its subclass has to define.
    private static boolean isBare(Class<?> type) {
        return type == InputStream.class || type == OutputStream.class || type == Reader.class || type == Writer.class;
    }

    private static boolean declares(Class<?> type, String name, String descriptor) {
        for (var method : type.getDeclaredMethods()) {
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

    private static boolean isOfApplication(Class<?> type) {
        ClassLoader loader = type.getClassLoader();
        return loader != null && loader != ClassLoader.getPlatformClassLoader();
    }

    private static String internalName(Class<?> type) {
        return type.getName().replace('.', '/');
    }
}
