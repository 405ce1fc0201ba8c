package cedrat.persist.boot;

import java.lang.ref.WeakReference;

/// The persistent side of an object: what its store knows of it. An object that has none is not persistent.
///
/// It refers to its object weakly, so that a store can find the object as long as the program, or another
/// object, has it, and keeps nobody alive by that.
///
/// **Threads:** as the store says.
public abstract class Identity extends WeakReference<Object> {
    /// For stores.
    protected Identity(Object object) {
        super(object);
    }
}
