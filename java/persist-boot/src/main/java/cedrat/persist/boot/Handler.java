package cedrat.persist.boot;

/// Receiver of the calls of [Barrier] while a transaction lives or a store is open. There is one, which the agent
/// installs. It is not called for assignments of a thread without a transaction to objects that are known to be neither
/// locked nor persistent.
///
/// **Threads:** any. **Failure:** the woven code's assignment throws the exception of a method, and then has not
/// happened.
public interface Handler {
    /// A reference field of a persistent object is null. If it is only not loaded yet, it is now.
    ///
    /// @param field the number that the weaver has given to the field
    /// @return its value
    Object readNull(Object base, int field);

    /// An element of a large hash table is null. If the table is that of a persistent map and the element is only not
    /// loaded, it is now.
    ///
    /// @return the element
    Object readElement(Object[] table, int index);

    /// A thread in a transaction is about to put an entry into a map that may be persistent. On return the map is
    /// locked to change it, and the bucket is loaded, if the map is loaded by part.
    void beforePut(Object map, int hash);

    /// Fields of `base` are about to be read behind the barriers' back. If it is a persistent object, its
    /// reference fields are loaded, all of them; anything else is let pass.
    void beforeRead(Object base);

    /// A field of an object, or an element of an array, is about to be read. If it belongs to a store whose objects
    /// are locked by reads, and the thread is in a transaction, this transaction has the read lock on return.
    ///
    /// @param base if null, the read will throw
    void lockToRead(Object base);

    /// As that, of all elements of an array, and of those of arrays that are its elements, however deep.
    ///
    /// @param array or something else, which is locked by itself
    void lockDeeplyToRead(Object array);

    /// `clone` of an object has returned another one, or itself. A copy of a persistent object is not
    /// persistent.
    void copied(Object object, Object copy);

    /// A method without barriers is about to run. It may not in a transaction, nor while a store is open: it would miss
    /// what is not loaded.
    ///
    /// @param why names its class and the reason
    void refuseUnwoven(String why);

    /// Whether an object, an array or a collection belongs to a store.
    boolean isPersistent(Object object);

    /// Whether the thread is in a transaction.
    boolean isInTransaction();

    /// A field is about to be written.
    ///
    /// @param base  the object, or the class of a static field; if null, the store will throw
    /// @param field the number that the weaver has given to the field
    void beforeField(Object base, int field);

    /// Fields of an object of the JDK are about to be written. As with all that says so below, it counts only if
    /// the program has called the JDK, and not the JDK itself for its own purposes.
    void beforeFields(Object base);

    /// As that, of a field that leads to what a collection is made of.
    ///
    /// @param part what it is about to lead to, or null
    void beforeLink(Object base, Object part);

    /// As that, where the JDK marks an object while it only looks at it.
    void beforeMark(Object base);

    /// An element is about to be written. What is no element of an array is let pass: the store will throw.
    void beforeElement(Object array, int index);

    /// An element is about to be written by a class of the JDK; as above.
    void beforeElementInJdk(Object array, int index);

    /// As that, of an array whose elements are what a collection is made of.
    ///
    /// @param part what is about to be the element, or null
    void beforeLinkInTable(Object array, int index, Object part);

    /// Elements are about to be written. What are no elements of an array is let pass, as above.
    void beforeElements(Object array, int from, int length);

    /// Elements are about to be written by a class of the JDK; as above.
    void beforeElementsInJdk(Object array, int from, int length);

    /// Code that has no barriers may change the argument, which is kept if it is an array, or as the list of
    /// the types of `java.base` says.
    ///
    /// @throws UnsupportedOperationException in a transaction, if the list says that it is refused
    void beforeArgument(Object argument);

    /// A class of the JDK is about to make such a call; as above.
    void beforeArgumentInJdk(Object argument);

    /// A method of a collection of `java.util.concurrent` has returned or thrown before which
    /// [#beforeArgumentInJdk] was called.
    void afterChange(Object collection);

    /// A method that may change its receiver is about to be called. It is kept, if the list says so.
    ///
    /// @param method the method's name and descriptor; of a call by `super`, behind the internal name of the
    ///     class and a dot
    /// @throws UnsupportedOperationException in a transaction, if the list says that it is refused
    void beforeCall(Object receiver, String method);

    /// A method is about to be called that may change its argument, if the receiver's class has inherited it
    /// from the JDK.
    ///
    /// @param method as of [#beforeCall]
    void beforeInherited(Object receiver, String method, Object argument);

    /// Static state of the JDK is about to be changed.
    ///
    /// @param method its class and name
    /// @throws UnsupportedOperationException in a transaction
    void beforeStatic(String method);

    /// A variable is about to be written by a [java.lang.invoke.VarHandle], by an updater of
    /// `java.util.concurrent.atomic`, or by `sun.misc.Unsafe`. What it belongs to is kept as a whole.
    ///
    /// @param base the object or array, or null
    /// @throws UnsupportedOperationException in a transaction, if the variable is a static field, or memory
    ///     outside of the heap
    void beforeHandle(Object handle, Object base);

    /// A method is about to be called by reflection, of which what is called otherwise is said above.
    ///
    /// @param method    a [java.lang.reflect.Method]
    /// @param arguments an array, or null
    void beforeInvoke(Object method, Object receiver, Object arguments);

    /// A field is about to be written by reflection.
    ///
    /// @param field    a [java.lang.reflect.Field]
    /// @param receiver the object, or anything if the field is static
    void beforeReflection(Object field, Object receiver);

    /// The object was made just now: nothing has to be remembered of it.
    void made(Object object);

    /// Excludes this thread's work up to [#resume] from transactions: it initialises a class, which
    /// is not done again after a rollback. Assignments to persistent objects throw.
    void suspend();

    /// The end of what [#suspend] began.
    void resume();

    /// As [#suspend], for what loads and links classes. Of arrays and collections it is not even asked whether
    /// they are persistent: that question may have to wait for a class.
    void suspendLoading();

    /// The end of what [#suspendLoading] began.
    void resumeLoading();
}
