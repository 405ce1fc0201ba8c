package cedrat.persist.javac;

import com.sun.tools.javac.parser.JavacParser;
import com.sun.tools.javac.parser.Lexer;
import com.sun.tools.javac.parser.Tokens.Token;
import com.sun.tools.javac.parser.Tokens.TokenKind;
import com.sun.tools.javac.tree.JCTree.JCCompilationUnit;
import com.sun.tools.javac.tree.JCTree.JCExpression;
import com.sun.tools.javac.util.Context;
import com.sun.tools.javac.util.JCDiagnostic;
import com.sun.tools.javac.util.JCDiagnostic.Error;
import com.sun.tools.javac.util.Log;
import java.util.HashSet;
import java.util.Set;
import java.util.function.Function;

/// javac's parser, with
///
/// ```text
/// Statement:  transaction Block
///             transaction ( commit ) Block
///             transaction ( rollback ) Block
///             commit ;
///             rollback ;
/// ```
///
/// Where a statement begins, and nowhere else, these are words of the language, and only if what follows them
/// is as above: none of it could be Java. Everywhere else they are names.
///
/// A subclass cannot change how a statement that begins with a name is distinguished from others, so this class
/// overrides the methods that are called on the way: [#isNonSealedClassStart] where such a statement begins, [#term]
/// for what is taken for its expression, [#checkExprStat] and [#accept] for its end.
final class TransactionParser extends JavacParser {
    private final Context context;
    /// Whether the token is one of the words, at the beginning of a statement.
    private boolean isAtWord;
    /// Whether the statement that ends here has a block, and no semicolon.
    private boolean endsWithBlock;

    /// Positions of the words in the file.
    private final Set<Long> words = new HashSet<>();

    TransactionParser(
            Context context,
            TransactionParserFactory factory,
            Lexer lexer,
            boolean keepDocComments,
            boolean keepLineMap,
            boolean keepEndPos,
            boolean parseModuleInfo) {
        super(factory, lexer, keepDocComments, keepLineMap, keepEndPos, parseModuleInfo);
        this.context = context;
    }

    @Override
    public JCCompilationUnit parseCompilationUnit() {
        Log log = Log.instance(context);
        Log.DeferredDiagnosticHandler said = log.new DeferredDiagnosticHandler();
        JCCompilationUnit unit;
        try {
            unit = super.parseCompilationUnit();
        } finally {
            log.popDiagnosticHandler(said);
            said.reportDeferredDiagnostics(message -> !isAboutWord(message));
        }
        if (!words.isEmpty()) {
            new Rewriter(context).translate(unit);
        }
        return unit;
    }

    /// Whether it was said by a parser of javac's own, which this one asks to guess whether what follows is a
    /// method in no class: to that, the words are names.
    private boolean isAboutWord(JCDiagnostic message) {
        return message.getCode().equals("compiler.err.not.stmt") && words.contains(message.getPosition());
    }

    @Override
    protected boolean isNonSealedClassStart(boolean local) {
        isAtWord = local && startsStatement();
        return super.isNonSealedClassStart(local);
    }

    private boolean startsStatement() {
        if (isName(token, Word.TRANSACTION)) {
            return S.token(1).kind == TokenKind.LBRACE || hasAction();
        }
        return isAction(token) && S.token(1).kind == TokenKind.SEMI;
    }

    /// Whether `(commit) {` or `(rollback) {` follows.
    private boolean hasAction() {
        return S.token(1).kind == TokenKind.LPAREN
                && isAction(S.token(2))
                && S.token(3).kind == TokenKind.RPAREN
                && S.token(4).kind == TokenKind.LBRACE;
    }

    private static boolean isAction(Token token) {
        return isName(token, Word.COMMIT) || isName(token, Word.ROLLBACK);
    }

    private static boolean isName(Token token, String name) {
        return token.kind == TokenKind.IDENTIFIER && token.name().contentEquals(name);
    }

    @Override
    protected JCExpression term(int newmode) {
        if (!isAtWord) {
            return super.term(newmode);
        }
        isAtWord = false;
        words.add((long) token.pos);
        Word word = word();
        // Not a type, so that no declaration follows.
        setLastMode(EXPR);
        return word;
    }

    private Word word() {
        int pos = token.pos;
        if (isAction(token)) {
            boolean commits = isName(token, Word.COMMIT);
            nextToken();
            return toP(new Word(pos, commits, null));
        }
        nextToken();
        boolean commits = false;
        if (token.kind == TokenKind.LPAREN) {
            nextToken();
            commits = isName(token, Word.COMMIT);
            nextToken();
            nextToken();
        }
        return toP(new Word(pos, commits, block()));
    }

    @Override
    protected JCExpression checkExprStat(JCExpression expression) {
        if (expression instanceof Word word) {
            endsWithBlock = word.body != null;
            return word;
        }
        return super.checkExprStat(expression);
    }

    @Override
    public void accept(TokenKind kind, Function<TokenKind, Error> errorProvider) {
        if (endsWithBlock) {
            endsWithBlock = false;
            return;
        }
        super.accept(kind, errorProvider);
    }
}
