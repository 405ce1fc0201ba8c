package cedrat.persist;

/// An object, or a name, is not to be had: a branch of a transaction over several stores has changed it, in
/// an earlier opening of this store, and has not been told whether it commits. The message names the
/// branch.
///
/// Nothing is lost. Let the transaction manager recover, with [Persistence#xaResource] as one of its
/// resources; then try again. Where it is gone for good, `cedrat resolve` ends the branch while the store
/// is closed.
public final class InDoubtException extends RuntimeException {
    private static final long serialVersionUID = 1;

    InDoubtException(String what, String branch) {
        super(what + " was changed by the branch " + branch
                + " of a transaction over several stores, which is in doubt "
                + "since an earlier opening: let the transaction manager recover, with this store's xaResource() among "
                + "its resources, and try again");
    }
}
