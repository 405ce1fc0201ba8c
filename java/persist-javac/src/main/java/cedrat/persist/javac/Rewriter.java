package cedrat.persist.javac;

import com.sun.tools.javac.tree.JCTree.JCBlock;
import com.sun.tools.javac.tree.JCTree.JCCase;
import com.sun.tools.javac.tree.JCTree.JCClassDecl;
import com.sun.tools.javac.tree.JCTree.JCExpression;
import com.sun.tools.javac.tree.JCTree.JCExpressionStatement;
import com.sun.tools.javac.tree.JCTree.JCLabeledStatement;
import com.sun.tools.javac.tree.JCTree.JCLambda;
import com.sun.tools.javac.tree.JCTree.JCStatement;
import com.sun.tools.javac.tree.JCTree.JCSwitchExpression;
import com.sun.tools.javac.tree.JCTree.JCTry;
import com.sun.tools.javac.tree.JCTree.JCVariableDecl;
import com.sun.tools.javac.tree.TreeMaker;
import com.sun.tools.javac.tree.TreeTranslator;
import com.sun.tools.javac.util.Context;
import com.sun.tools.javac.util.JCDiagnostic;
import com.sun.tools.javac.util.JCDiagnostic.DiagnosticFlag;
import com.sun.tools.javac.util.List;
import com.sun.tools.javac.util.Log;
import com.sun.tools.javac.util.Name;
import com.sun.tools.javac.util.Names;

/// Puts a `try` in the place of each transaction of a file, before javac looks for what names mean:
///
/// ```text
/// transaction {            { t$1: try (Transaction t$1 = Transaction.begin()) {
///     …                        t$1$otherwise: {
///     commit;                      …  break t$1$otherwise;
///     rollback;                    …  break t$1;
/// }                                (break t$1;)
///                              }
///                              (t$1.commit();)
///                          } }
/// ```
///
/// The default action leaves the `try`, the other one leaves a block in it, so that
/// both happen at the end of the scope, behind the program's own `finally` clauses. The code in
/// parentheses is there only if it can be reached, which is not known yet: [TransactionFlow] adds it. A
/// transaction that commits by default gets this action at its beginning, and then the two change places.
///
/// Each tree has the place in the file of the word for which it stands.
final class Rewriter extends TreeTranslator {
    /// Names with a dot, and those in labels and locals with a `$`, cannot be hidden by any of the program's.
    private static final String PACKAGE = "cedrat.persist";

    /// A transaction that is being rewritten.
    private static final class Open {
        final Name label;
        final Name otherwise;
        final boolean commits;
        boolean isLeftOtherwise;

        Open(Name label, Name otherwise, boolean commits) {
            this.label = label;
            this.otherwise = otherwise;
            this.commits = commits;
        }
    }

    private final TreeMaker make;
    private final Names names;
    private final Log log;
    private int count;
    /// The innermost transaction that can be left from here, or null.
    private Open open;
    /// The construct between here and a transaction that cannot be left from here, or null.
    private String between;

    Rewriter(Context context) {
        make = TreeMaker.instance(context);
        names = Names.instance(context);
        log = Log.instance(context);
    }

    @Override
    public void visitExec(JCExpressionStatement tree) {
        if (!(tree.expr instanceof Word word)) {
            super.visitExec(tree);
        } else if (word.body == null) {
            result = leave(word);
        } else {
            result = transaction(word);
        }
    }

    @Override
    public void visitCase(JCCase tree) {
        boolean isStatement = tree.body != null && tree.stats.head == tree.body;
        super.visitCase(tree);
        if (isStatement) {
            tree.body = tree.stats.head;
        }
    }

    // ---- what cannot be left

    @Override
    public void visitLambda(JCLambda tree) {
        enclose("a lambda", () -> super.visitLambda(tree));
    }

    @Override
    public void visitClassDef(JCClassDecl tree) {
        enclose("a class", () -> super.visitClassDef(tree));
    }

    @Override
    public void visitSwitchExpression(JCSwitchExpression tree) {
        enclose("a switch expression", () -> super.visitSwitchExpression(tree));
    }

    private void enclose(String what, Runnable inside) {
        Open outerOpen = open;
        String outerBetween = between;
        between = open != null ? what : between;
        open = null;
        inside.run();
        open = outerOpen;
        between = outerBetween;
    }

    // ---- the statements

    private JCStatement leave(Word word) {
        if (open == null) {
            String text = between == null
                    ? "cannot " + word.text() + " outside of a transaction: write transaction { … " + word.text()
                            + "; … }"
                    : "cannot " + word.text() + " from within " + between + " in the transaction: " + word.text()
                            + " after it";
            log.error(DiagnosticFlag.SYNTAX, word, new JCDiagnostic.Error("compiler", "proc.messager", text));
            return make.at(word.pos).Skip();
        }
        boolean isDefault = word.commits == open.commits;
        open.isLeftOtherwise |= !isDefault;
        JCStatement jump = make.at(word.pos).Break(isDefault ? open.label : open.otherwise);
        return block(word.pos, word.pos, List.of(jump));
    }

    private JCStatement transaction(Word word) {
        Name label = names.fromString(Word.TRANSACTION + "$" + ++count);
        Open outer = open;
        Open inner = new Open(label, names.fromString(label + "$otherwise"), word.commits);
        open = inner;
        JCBlock body = translate(word.body);
        open = outer;

        int pos = word.pos;
        make.at(pos);
        JCVariableDecl resource =
                make.VarDef(make.Modifiers(0), label, transactionType(), call(transactionType(), "begin"));
        JCLabeledStatement otherwise = inner.isLeftOtherwise ? make.Labelled(inner.otherwise, body) : null;
        List<JCStatement> statements = List.of(otherwise != null ? otherwise : body);
        if (word.commits) {
            JCExpression commit = select(select(transactionType(), "Action"), "COMMIT");
            statements = statements.prepend(make.Exec(call(make.Ident(label), "defaultAction", commit)));
        }
        JCTry statement = make.Try(List.of(resource), block(pos, body.endpos, statements), List.nil(), null);
        TransactionStatement rewritten =
                new TransactionStatement(label, statement, word.commits, resource, body, otherwise);
        rewritten.pos = pos;
        return block(pos, body.endpos, List.of(rewritten));
    }

    private JCBlock block(int pos, int end, List<JCStatement> statements) {
        JCBlock block = make.at(pos).Block(0, statements);
        block.endpos = end;
        return block;
    }

    private JCExpression transactionType() {
        return select(make.Ident(names.fromString(PACKAGE)), "Transaction");
    }

    private JCExpression select(JCExpression from, String name) {
        return make.Select(from, names.fromString(name));
    }

    private JCExpression call(JCExpression from, String name, JCExpression... arguments) {
        return make.Apply(List.nil(), select(from, name), List.from(arguments));
    }
}
