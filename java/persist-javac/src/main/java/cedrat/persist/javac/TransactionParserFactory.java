package cedrat.persist.javac;

import com.sun.tools.javac.parser.JavacParser;
import com.sun.tools.javac.parser.ParserFactory;
import com.sun.tools.javac.parser.ScannerFactory;
import com.sun.tools.javac.util.Context;

/// Makes parsers that know the statement.
final class TransactionParserFactory extends ParserFactory {
    private final Context context;
    private final ScannerFactory scanners;

    private TransactionParserFactory(Context context) {
        super(context);
        this.context = context;
        scanners = ScannerFactory.instance(context);
    }

    /// Takes the place of the context's factory.
    static void install(Context context) {
        context.put(parserFactoryKey, (ParserFactory) null);
        context.put(parserFactoryKey, new TransactionParserFactory(context));
    }

    @Override
    public JavacParser newParser(
            CharSequence input,
            boolean keepDocComments,
            boolean keepEndPos,
            boolean keepLineMap,
            boolean parseModuleInfo) {
        return new TransactionParser(
                context,
                this,
                scanners.newScanner(input, keepDocComments),
                keepDocComments,
                keepLineMap,
                keepEndPos,
                parseModuleInfo);
    }
}
