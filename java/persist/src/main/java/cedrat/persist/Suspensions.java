package cedrat.persist;

import java.lang.classfile.ClassModel;
import java.lang.classfile.MethodModel;

/// Methods of the JDK during which a thread is in no transaction: the virtual machine calls them to load and
/// link classes in whatever thread comes by, and does not do it again after a rollback.
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
}
