package cedrat.persist.javac;

import com.sun.source.util.JavacTask;
import com.sun.source.util.Plugin;

/// Teaches javac the statement `transaction { … commit; … rollback; … }` (Transactions for Java, §2.1):
/// `javac -processorpath persist-javac-….jar -Xplugin:Cedrat …`.
///
/// It needs no other option: see [CompilerAccess]. Each compilation has its own; nothing is shared between
/// them.
public final class CedratPlugin implements Plugin {
    /// For javac, which finds it by `META-INF/services`.
    public CedratPlugin() {}

    @Override
    public String getName() {
        return "Cedrat";
    }

    /// Makes the compilation that is about to begin know the statement.
    ///
    /// @throws IllegalStateException    if the compiler does not let the plugin in; the message says with
    ///     which options it does
    /// @throws IllegalArgumentException if the plugin was given arguments: there are none
    @Override
    public void init(JavacTask task, String... arguments) {
        if (arguments.length > 0) {
            throw new IllegalArgumentException("the compiler plugin Cedrat takes no arguments: write -Xplugin:Cedrat");
        }
        CompilerAccess.open();
        Installation.install(task);
    }
}
