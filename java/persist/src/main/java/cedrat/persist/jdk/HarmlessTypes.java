package cedrat.persist.jdk;

import java.util.Set;

/// Rules for types of the JDK whose changes need not be rolled back. A type that neither a rule nor
/// [JavaBase] decides is harmless too, unless its name, a supertype or an interface makes it a collection
/// or a part of one. So rules are needed only for such types.
///
/// **Threads:** any.
final class HarmlessTypes {
    /// Harmless types. Their subclasses are harmless as well, unless a list or another rule decides
    /// otherwise.
    static final Set<String> ROOTS = Set.of(
            // The catcher of an exception sees what happened.
            "java/lang/Throwable",
            // Values; hash codes are computed once.
            "java/lang/Enum",
            "java/lang/Number",
            "java/lang/Record",
            // Immutable, except for parts that are computed once.
            "java/text/ListFormat",
            "java/util/Base64$Encoder",
            "java/util/Locale",
            "java/util/PropertyPermission",
            "javax/net/ssl/HandshakeCompletedEvent",
            "javax/net/ssl/SSLSessionBindingEvent",
            // Strings that are loaded once.
            "java/util/ListResourceBundle",
            "java/util/PropertyResourceBundle",
            "java/util/ResourceBundle",
            // Loading and linking are no part of a transaction.
            "java/util/ServiceLoader",
            // Waiting and waking, as by monitors.
            "java/util/concurrent/CountDownLatch",
            "java/util/concurrent/CyclicBarrier",
            "java/util/concurrent/Exchanger",
            "java/util/concurrent/Phaser",
            "java/util/concurrent/Semaphore",
            // No program can draw the same numbers again.
            "java/security/SecureRandom",
            "java/util/concurrent/ThreadLocalRandom",
            // The field that they store to is saved before the call.
            "java/util/concurrent/atomic/AtomicIntegerFieldUpdater",
            "java/util/concurrent/atomic/AtomicLongFieldUpdater",
            "java/util/concurrent/atomic/AtomicReferenceFieldUpdater",
            // Its changing state is in a woven map.
            "java/util/jar/Attributes");

    /// A package whose classes wait and wake, as monitors do.
    private static final String LOCKS = "java/util/concurrent/locks/";

    private static final String UTIL = "java/util/";

    private HarmlessTypes() {}

    /// Returns whether a rule decides about this type itself; it may also decide about the type by a superclass.
    static boolean has(String internalName) {
        return ROOTS.contains(internalName) || internalName.startsWith(LOCKS) || isThrowableOfUtil(internalName);
    }

    /// A rule by name, as weaving knows only the name of a class. Other classes of `java.util` are treated
    /// as collections.
    private static boolean isThrowableOfUtil(String internalName) {
        return (internalName.endsWith("Exception") || internalName.endsWith("Error"))
                && internalName.startsWith(UTIL)
                && internalName.indexOf('/', UTIL.length()) < 0;
    }
}
