package cedrat.persist.boot;

import java.lang.ref.WeakReference;

/// The persistent side of an object: the state that its store keeps of it. An object without one is not persistent.
///
/// It refers to its object weakly, so that a store can find the object as long as the program, or another
/// object, refers to it, without keeping it alive.
///
/// **Threads:** as the store says.
public abstract class Identity extends WeakReference<Object> {
    /// For stores.
    protected Identity(Object object) {
        super(object);
    }
}
