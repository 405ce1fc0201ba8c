package cedrat.persist.weave;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.MethodModel;

/// Methods of the JDK, and of class loaders of the application, during which a thread is in no transaction: the
/// virtual machine calls them to load and link classes in whatever thread comes by, and does not do it again
/// after a rollback.
final class Suspensions {
    private Suspensions() {}

    /// Whether any method of the class is one.
    static boolean contains(String internalName) {
        return switch (internalName) {
            case "java/lang/ClassLoader",
                    "java/lang/invoke/MethodHandleNatives",
                    "jdk/internal/loader/BuiltinClassLoader",
                    "jdk/internal/loader/ClassLoaders$AppClassLoader" -> true;
            default -> false;
        };
    }

    static boolean contains(ClassModel type, MethodModel method) {
        String name = method.methodName().stringValue();
        return switch (type.thisClass().asInternalName()) {
            case "java/lang/invoke/MethodHandleNatives" ->
                name.startsWith("link") && !name.endsWith("Tracing") && !name.endsWith("Impl");
            default -> name.equals("loadClass");
        };
    }

    /// Whether a method of a class loader is one.
    static boolean isOfLoader(MethodModel method) {
        return switch (method.methodName().stringValue() + method.methodType().stringValue()) {
            case "loadClass(Ljava/lang/String;)Ljava/lang/Class;",
                    "loadClass(Ljava/lang/String;Z)Ljava/lang/Class;",
                    "findClass(Ljava/lang/String;)Ljava/lang/Class;",
                    "findClass(Ljava/lang/String;Ljava/lang/String;)Ljava/lang/Class;",
                    "getClassLoadingLock(Ljava/lang/String;)Ljava/lang/Object;" -> true;
            default -> false;
        };
    }

    /// Whether a class of the application is that of a class loader, and has such methods. What cannot be read
    /// of its ancestors is taken for one: nothing else has methods of these names and types.
    static boolean isLoader(ClassModel type, ClassLoader loader) {
        if (type.methods().stream().noneMatch(Suspensions::isOfLoader)) {
            return false;
        }
        ClassModel ancestor = type;
        while (ancestor != null && ancestor.superclass().isPresent()) {
            String name = ancestor.superclass().get().asInternalName();
            switch (name) {
                case "java/lang/Object" -> {
                    return false;
                }
                case "java/lang/ClassLoader" -> {
                    return true;
                }
                default -> ancestor = read(name, loader);
            }
        }
        return true;
    }

    private static ClassModel read(String internalName, ClassLoader loader) {
        String file = internalName + ".class";
        try (InputStream in = loader.getResourceAsStream(file)) {
            return in == null ? null : ClassFile.of().parse(in.readAllBytes());
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read " + file, e);
        }
    }
}
