package cedrat.persist.javac;

import com.sun.source.util.JavacTask;
import com.sun.source.util.Plugin;
import com.sun.tools.javac.util.ModuleHelper;

/// Lets [CompilerAccess] in. It runs in a compilation that [CompilerAccess] starts for it, as a module, to
/// which javac exports its packages.
public final class OpeningPlugin implements Plugin {
    static final String NAME = "CedratOpening";

    /// For javac, which finds it by `META-INF/services`.
    public OpeningPlugin() {}

    @Override
    public String getName() {
        return NAME;
    }

    @Override
    public void init(JavacTask task, String... arguments) {
        // Not this module's class of that name: the one that waits for the compilation to end.
        StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE)
                .walk(frames -> frames.map(StackWalker.StackFrame::getDeclaringClass)
                        .filter(type -> type.getName().equals(CompilerAccess.class.getName()))
                        .findFirst())
                .ifPresent(type -> ModuleHelper.addExports(task.getClass().getModule(), type.getModule()));
    }
}
