package cedrat.persist.record;

import cedrat.persist.boot.Barrier;
import java.lang.StackWalker.Option;
import java.lang.StackWalker.StackFrame;
import java.util.Collection;
import java.util.Enumeration;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.Spliterator;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinTask;
import java.util.function.Predicate;

/// The caller of a collection of the JDK: the collection's stores are the same, whether it is the program's or one
/// that the JDK keeps for itself.
///
/// The first frame of the stack that is not *transparent* decides. Transparent is code that carries out a call for
/// another caller: any collection, iterator or stream, and calls by reflection and by
/// handles. Lambdas and references to methods are hidden classes of the package that has written them.
///
/// **Threads:** any.
final class Callers {
    private enum Kind {
        PROGRAM,
        /// The JDK, infrastructure, and classes that are excluded, or not included.
        OUTSIDE,
        TRANSPARENT
    }

    private static final Set<String> TRANSPARENT = Set.of(
            "java.util",
            "java.util.function",
            "java.util.stream",
            "java.lang.invoke",
            "java.lang.reflect",
            "jdk.internal.reflect");

    /// Packages of calls that a program makes to change objects.
    private static final Set<String> INTERFACE = Set.of("cedrat.persist", "cedrat.persist.store");

    /// Classes that woven code calls, down to this class.
    private static final Set<Class<?>> BARRIERS =
            Set.of(Barrier.class, Recorder.class, UnseenStores.class, UnguardedFields.class, Callers.class);

    private static final StackWalker STACK = StackWalker.getInstance(
            Set.of(Option.RETAIN_CLASS_REFERENCE, Option.SHOW_HIDDEN_FRAMES, Option.DROP_METHOD_INFO));

    /// For messages: the frames with their methods and lines, without lambdas' own.
    private static final StackWalker LINES = StackWalker.getInstance(Option.RETAIN_CLASS_REFERENCE);

    private final Predicate<Class<?>> isOutside;

    private final ClassValue<Kind> kinds = new ClassValue<>() {
        @Override
        protected Kind computeValue(Class<?> type) {
            return kind(type);
        }
    };

    /// @param isOutside whether what a class of the program changes belongs to no transaction
    Callers(Predicate<Class<?>> isOutside) {
        this.isOutside = isOutside;
    }

    /// Whether what runs below the barriers was called by the JDK, for its own purposes, or by a class that has no
    /// barriers of its own. A thread that has no other frames is the JDK's.
    boolean areOutside() {
        return STACK.walk(frames -> frames.map(StackFrame::getDeclaringClass)
                        .map(kinds::get)
                        .filter(kind -> kind != Kind.TRANSPARENT)
                        .findFirst()
                        .orElse(Kind.OUTSIDE))
                == Kind.OUTSIDE;
    }

    /// Returns the program's innermost method on the stack and its line, as a stack trace shows it.
    String place() {
        return LINES.walk(frames -> frames.filter(frame -> kinds.get(frame.getDeclaringClass()) == Kind.PROGRAM)
                .filter(frame -> !INTERFACE.contains(frame.getDeclaringClass().getPackageName()))
                .findFirst()
                .map(frame -> frame.getClassName() + "." + frame.getMethodName() + " (" + frame.getFileName() + ":"
                        + frame.getLineNumber() + ")")
                .orElse("a method of the JDK"));
    }

    private Kind kind(Class<?> type) {
        if (BARRIERS.contains(type)) {
            return Kind.TRANSPARENT;
        }
        ClassLoader loader = type.getClassLoader();
        if (loader != null && loader != ClassLoader.getPlatformClassLoader()) {
            return isOutside.test(type) ? Kind.OUTSIDE : Kind.PROGRAM;
        }
        // A hidden one is a lambda, whose body is in another class, or stands for a handle.
        return type.isHidden() || TRANSPARENT.contains(type.getPackageName()) || isCarrier(type)
                ? Kind.TRANSPARENT
                : Kind.OUTSIDE;
    }

    /// Whether a class of any package of the JDK does to collections what its caller asks for, as
    /// `BlockingQueue.drainTo` does, and what a stream or a task of a parallel one reads from.
    private static boolean isCarrier(Class<?> type) {
        return type == Iterable.class
                || type == ForkJoinPool.class
                || Collection.class.isAssignableFrom(type)
                || Map.class.isAssignableFrom(type)
                || Iterator.class.isAssignableFrom(type)
                || Spliterator.class.isAssignableFrom(type)
                || Enumeration.class.isAssignableFrom(type)
                || ForkJoinTask.class.isAssignableFrom(type);
    }
}
