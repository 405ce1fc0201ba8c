package cedrat.persist.boot;

/// Interface of the woven classes of the application: their objects may become persistent. The
/// weaver adds the field and both methods to the topmost woven class of each hierarchy, under names that no
/// program uses.
///
/// **Threads:** any; a thread that writes the identity publishes it as any plain field.
public interface Persistable {
    /// The persistent side of this object, or null: it is not persistent.
    Identity cedrat$identity();

    /// Makes the object persistent, or, with null, an ordinary one.
    void cedrat$identity(Identity identity);
}
