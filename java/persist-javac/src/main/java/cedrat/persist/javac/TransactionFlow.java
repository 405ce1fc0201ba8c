package cedrat.persist.javac;

import com.sun.tools.javac.code.Flags;
import com.sun.tools.javac.code.Symbol;
import com.sun.tools.javac.code.Symbol.VarSymbol;
import com.sun.tools.javac.code.Symtab;
import com.sun.tools.javac.code.Type;
import com.sun.tools.javac.comp.AttrContext;
import com.sun.tools.javac.comp.Env;
import com.sun.tools.javac.comp.Flow;
import com.sun.tools.javac.tree.JCTree;
import com.sun.tools.javac.tree.JCTree.JCBreak;
import com.sun.tools.javac.tree.JCTree.JCContinue;
import com.sun.tools.javac.tree.JCTree.JCExpression;
import com.sun.tools.javac.tree.JCTree.JCLabeledStatement;
import com.sun.tools.javac.tree.JCTree.JCStatement;
import com.sun.tools.javac.tree.JCTree.JCTry;
import com.sun.tools.javac.tree.JCTree.JCYield;
import com.sun.tools.javac.tree.TreeMaker;
import com.sun.tools.javac.tree.TreeScanner;
import com.sun.tools.javac.util.Context;
import com.sun.tools.javac.util.List;
import com.sun.tools.javac.util.ListBuffer;
import com.sun.tools.javac.util.Name;
import com.sun.tools.javac.util.Names;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;

/// javac's flow analysis, with what a transaction adds to it.
///
/// - A rollback restores locals. So a local that has no value when a transaction begins has none where a way
///   leads that rolls it back, whatever was assigned within. While javac analyses a method, each such way is
///   doubled by one from the transaction's beginning: `if (…) break …;`, which is taken away again.
/// - The body ends with a `break` if its end can be reached, and what is left to take the action that is not
///   the default is followed by that action. Both stay.
final class TransactionFlow extends Flow {
    private final Symtab symbols;
    private final Names names;

    private TransactionFlow(Context context) {
        super(context);
        symbols = Symtab.instance(context);
        names = Names.instance(context);
    }

    /// Takes the place of the context's analysis.
    static void install(Context context) {
        context.put(flowKey, (Flow) null);
        context.put(flowKey, new TransactionFlow(context));
    }

    @Override
    public void analyzeTree(Env<AttrContext> env, TreeMaker make) {
        // Inner ones first: whether the end of a body can be reached depends on what is within.
        Set<TransactionStatement> transactions = new LinkedHashSet<>();
        new TreeScanner() {
            @Override
            public void visitLabelled(JCLabeledStatement tree) {
                super.visitLabelled(tree);
                if (tree instanceof TransactionStatement transaction) {
                    transactions.add(transaction);
                }
            }
        }.scan(env.tree);
        // All of them before any has an additional statement.
        transactions.forEach(transaction -> complete(transaction, env, make));
        Map<TransactionStatement, List<JCStatement>> bodies = new LinkedHashMap<>();
        for (TransactionStatement transaction : transactions) {
            List<JCStatement> statements = transaction.written.stats;
            bodies.put(transaction, statements);
            transaction.written.stats = statements.prependList(assumptions(transaction, make.at(transaction.pos)));
        }
        try {
            super.analyzeTree(env, make);
        } finally {
            bodies.forEach((transaction, statements) -> transaction.written.stats = statements);
        }
    }

    /// Leaves the transaction at the end of its body, and takes the other action where that is left for it.
    private void complete(TransactionStatement transaction, Env<AttrContext> env, TreeMaker make) {
        if (aliveAfter(env, transaction.written, make)) {
            JCBreak end = make.at(transaction.written.endpos).Break(transaction.label);
            end.target = transaction;
            transaction.written.stats = transaction.written.stats.append(end);
        }
        // A `finally` clause that jumps elsewhere may be in the way of all that would take it.
        if (transaction.otherwise != null && aliveAfter(env, transaction.otherwise, make)) {
            VarSymbol resource = transaction.resource.sym;
            // Where the library is missing, javac has complained already.
            if (!resource.type.isErroneous()) {
                transaction.takeOther(otherAction(transaction, resource, make.at(transaction.written.endpos)));
            }
        }
    }

    private JCStatement otherAction(TransactionStatement transaction, VarSymbol resource, TreeMaker make) {
        Name name = names.fromString(transaction.commits ? Word.ROLLBACK : Word.COMMIT);
        // One that takes nothing: a commit may also say when it is durable.
        Symbol method = resource.type.tsym.members().findFirst(name, found -> found.type
                .getParameterTypes()
                .isEmpty());
        return make.Exec(make.App(make.Select(make.Ident(resource), method), List.nil()));
    }

    /// The ways from the beginning to where a rollback leads.
    private List<JCStatement> assumptions(TransactionStatement transaction, TreeMaker make) {
        ListBuffer<JCStatement> assumed = new ListBuffer<>();
        // It is used, if only to be closed: the analysis warns of one that is not.
        assumed.add(make.Exec(make.Ident(transaction.resource.sym)));
        if (!transaction.commits) {
            Jumps jumps = new Jumps();
            jumps.scan(transaction.written);
            jumps.leaving.forEach((destination, jump) -> {
                if (destination.target != transaction.otherwise) {
                    // In its place: if it leads nowhere, javac looks whether it has complained of it there.
                    make.at(jump.pos);
                    assumed.add(make.If(any(symbols.booleanType, make), jump(jump, make), null));
                }
            });
        } else if (transaction.takesOther) {
            JCBreak rollback = make.Break(transaction.otherwise.label);
            rollback.target = transaction.otherwise;
            assumed.add(make.If(any(symbols.booleanType, make), rollback, null));
        }
        return assumed.toList();
    }

    private JCStatement jump(JCTree like, TreeMaker make) {
        switch (like) {
            case JCBreak tree -> {
                JCBreak jump = make.Break(tree.label);
                jump.target = tree.target;
                return jump;
            }
            case JCContinue tree -> {
                JCContinue jump = make.Continue(tree.label);
                jump.target = tree.target;
                return jump;
            }
            case JCYield tree -> {
                JCYield jump = make.Yield(any(tree.target.type, make));
                jump.target = tree.target;
                return jump;
            }
            default -> throw new AssertionError(like);
        }
    }

    /// Any value of a type.
    private JCExpression any(Type type, TreeMaker make) {
        return make.Ident(new VarSymbol(Flags.STATIC, names.fromString("any"), type, symbols.noSymbol));
    }

    /// The jumps out of a tree, one for each place to which they lead.
    private static final class Jumps extends TreeScanner {
        /// The loop that `break` ends is what `continue` goes on with.
        private record Destination(JCTree target, JCTree.Tag kind) {}

        final Map<Destination, JCTree> leaving = new LinkedHashMap<>();
        private final Set<JCTree> around = Collections.newSetFromMap(new IdentityHashMap<>());

        @Override
        public void scan(JCTree tree) {
            if (tree == null) {
                return;
            }
            around.add(tree);
            super.scan(tree);
            around.remove(tree);
        }

        @Override
        public void visitTry(JCTry tree) {
            if (tree.finalizer == null || tree.finallyCanCompleteNormally) {
                super.visitTry(tree);
            } else {
                // It goes elsewhere, whatever the jump.
                scan(tree.finalizer);
            }
        }

        @Override
        public void visitBreak(JCBreak tree) {
            jump(tree, tree.target);
        }

        @Override
        public void visitContinue(JCContinue tree) {
            jump(tree, tree.target);
        }

        @Override
        public void visitYield(JCYield tree) {
            super.visitYield(tree);
            jump(tree, tree.target);
        }

        private void jump(JCTree tree, JCTree target) {
            if (!around.contains(target)) {
                leaving.putIfAbsent(new Destination(target, tree.getTag()), tree);
            }
        }
    }
}
