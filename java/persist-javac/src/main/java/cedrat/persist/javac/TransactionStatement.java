package cedrat.persist.javac;

import com.sun.tools.javac.tree.JCTree.JCBlock;
import com.sun.tools.javac.tree.JCTree.JCLabeledStatement;
import com.sun.tools.javac.tree.JCTree.JCStatement;
import com.sun.tools.javac.tree.JCTree.JCTry;
import com.sun.tools.javac.tree.JCTree.JCVariableDecl;
import com.sun.tools.javac.util.Name;

/// A transaction, as javac compiles it: a `try`, by whose label it is left.
final class TransactionStatement extends JCLabeledStatement {
    /// Whether its default action is to commit.
    final boolean commits;
    /// The transaction itself.
    final JCVariableDecl resource;
    /// The block as written in the source.
    final JCBlock written;
    /// The labeled statement that is left to take the other action, behind it; null if no statement takes it.
    final JCLabeledStatement otherwise;
    /// Whether a way leads there.
    boolean takesOther;

    TransactionStatement(
            Name label,
            JCTry statement,
            boolean commits,
            JCVariableDecl resource,
            JCBlock written,
            JCLabeledStatement otherwise) {
        super(label, statement);
        this.commits = commits;
        this.resource = resource;
        this.written = written;
        this.otherwise = otherwise;
    }

    /// Adds what takes the other action, behind the block that is left for that.
    void takeOther(JCStatement action) {
        JCBlock block = ((JCTry) body).body;
        block.stats = block.stats.append(action);
        takesOther = true;
    }
}
