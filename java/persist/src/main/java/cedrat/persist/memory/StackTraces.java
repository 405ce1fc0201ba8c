package cedrat.persist.memory;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/// Stack traces, which exceptions make of the state of the virtual machine when they are asked for them first.
///
/// **Threads:** any.
public final class StackTraces {
    private static final Method MAKER = maker();

    private StackTraces() {}

    private static Method maker() {
        try {
            // The package is open since the fields of the class were looked up.
            Method method = Throwable.class.getDeclaredMethod("getOurStackTrace");
            method.setAccessible(true);
            return method;
        } catch (NoSuchMethodException e) {
            throw new AssertionError("this JDK has no Throwable.getOurStackTrace", e);
        }
    }

    /// Lets the field of an exception have its stack trace, whether or not its class overrides `getStackTrace`.
    public static void fill(Throwable thrown) {
        try {
            MAKER.invoke(thrown);
        } catch (IllegalAccessException | InvocationTargetException e) {
            throw new AssertionError(e);
        }
    }
}
