package cedrat.persist;

/// An object, a name, a record or a word cannot be read: an in-doubt branch has changed it, in an earlier opening of
/// this store, or by another program in this one. Such a branch of a transaction over several stores has prepared and
/// waits for its outcome. The message names the branch. Thrown by a commit, it means that the transaction was rolled
/// back.
///
/// Nothing is lost. Let the transaction manager recover, with [Store#xaResource] as one of its
/// resources; then try again. If it is lost for good, `cedrat resolve` ends the branch while the store
/// is closed.
public final class InDoubtException extends StoreException {
    private static final long serialVersionUID = 1;

    /// @param what   the object or name that cannot be read
    /// @param branch as `cedrat info` shows it
    public InDoubtException(String what, String branch) {
        super(what + " was changed by the branch " + branch
                + " of a transaction over several stores, which is in doubt "
                + "since an earlier opening: let the transaction manager recover, with this store's xaResource() among "
                + "its resources, and try again");
    }

    /// @param refusal names the branch
    public InDoubtException(GraphStoreException refusal) {
        super(
                "a prepared branch of a global transaction holds what the operation needs: "
                        + refusal.getMessage() + ". Let the transaction manager recover, with this store's "
                        + "xaResource() among its resources, and try again",
                refusal);
    }
}
