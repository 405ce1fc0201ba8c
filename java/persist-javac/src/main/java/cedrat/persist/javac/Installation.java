package cedrat.persist.javac;

import com.sun.source.util.JavacTask;
import com.sun.tools.javac.api.BasicJavacTask;
import com.sun.tools.javac.main.JavaCompiler;
import com.sun.tools.javac.model.JavacElements;
import com.sun.tools.javac.processing.JavacProcessingEnvironment;
import com.sun.tools.javac.util.Context;
import com.sun.tools.javac.util.Log;
import com.sun.tools.javac.util.RichDiagnosticFormatter;

/// Puts the parser and the flow analysis that know the statement where javac looks for its own.
final class Installation {
    private Installation() {}

    static void install(JavacTask task) {
        Context context = ((BasicJavacTask) task).getContext();
        TransactionParserFactory.install(context);
        TransactionFlow.install(context);
        // To find plugins, javac has made a compiler with its own parser, and nothing has been compiled with
        // it: who asks for one now gets another, and who has asked already is made anew, too. A compiler
        // decorates how messages are written.
        Log log = Log.instance(context);
        if (log.getDiagnosticFormatter() instanceof RichDiagnosticFormatter decorated) {
            log.setDiagnosticFormatter(decorated.getDelegatedFormatter());
        }
        context.put(JavaCompiler.compilerKey, (JavaCompiler) null);
        context.put(JavacElements.class, (JavacElements) null);
        context.put(JavacProcessingEnvironment.class, (JavacProcessingEnvironment) null);
    }
}
