package cedrat.persist.javac;

import com.sun.tools.javac.tree.JCTree.JCBlock;
import com.sun.tools.javac.tree.JCTree.JCErroneous;
import com.sun.tools.javac.util.List;

/// Word that the parser has found instead of an expression at the beginning of a statement. It stands in an expression
/// statement until [Rewriter] replaces it by its meaning.
///
/// - `transaction`  with a body
/// - `commit`, `rollback`  without
final class Word extends JCErroneous {
    /// The words, as they are written.
    static final String TRANSACTION = "transaction";

    static final String COMMIT = "commit";
    static final String ROLLBACK = "rollback";

    /// Of `transaction`, whether it commits by default; of others, whether it is `commit`.
    final boolean commits;
    /// Of `transaction`; null for others.
    final JCBlock body;

    Word(int pos, boolean commits, JCBlock body) {
        super(List.nil());
        this.pos = pos;
        this.commits = commits;
        this.body = body;
    }

    /// The word itself, of `commit` and `rollback`.
    String text() {
        return commits ? COMMIT : ROLLBACK;
    }
}
