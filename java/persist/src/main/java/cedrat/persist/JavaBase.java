package cedrat.persist;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/// The public types of `java.base` that change, and what becomes of that in a transaction.
///
/// - J5  Each of them stands in exactly one of four lists. Otherwise some class would be restored by half, and
///       nobody would say so.
///
/// The lists are one resource, `java.base.types`, a line each: a class, its treatment, and the names of the
/// methods before whose calls a barrier is put; of harmless ones, the reason. Interfaces that such classes
/// have stand there too, with the methods that come by them.
///
/// **Threads:** any.
final class JavaBase {
    /// What becomes of a class's changes.
    enum Treatment {
        /// Its stores have barriers.
        WOVEN,
        /// Its objects are kept before calls that change them.
        SAVED,
        /// Calls that change its objects throw, unless the transaction has made the object.
        REFUSED,
        /// What changes is nothing that a program would want back.
        HARMLESS,
        /// It has no objects of its own.
        INTERFACE
    }

    /// A line of the list.
    ///
    /// @param methods those before whose calls a barrier is put
    record Type(Treatment treatment, Set<String> methods) {
        private boolean isChangedUnseen() {
            return treatment == Treatment.SAVED || treatment == Treatment.REFUSED;
        }
    }

    private static final Map<String, Type> TYPES = new HashMap<>();
    /// Of all classes that are kept or refused, but those that no application extends.
    private static final Set<String> METHODS = new HashSet<>();

    static {
        try (InputStream in = JavaBase.class.getResourceAsStream("java.base.types");
                BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
            lines.lines().forEach(JavaBase::add);
            // Of entries of maps, which are no public types.
            METHODS.add("setValue");
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read the list of the types of java.base", e);
        }
    }

    private JavaBase() {}

    private static void add(String line) {
        String[] words = line.split(" ", 3);
        Treatment treatment =
                switch (words[1]) {
                    case "woven" -> Treatment.WOVEN;
                    case "saved" -> Treatment.SAVED;
                    case "refused" -> Treatment.REFUSED;
                    case "harmless" -> Treatment.HARMLESS;
                    case "interface" -> Treatment.INTERFACE;
                    default -> throw new IllegalStateException("the list of the types of java.base has: " + line);
                };
        boolean hasMethods = treatment != Treatment.HARMLESS && words.length == 3;
        Type type = new Type(treatment, hasMethods ? Set.of(words[2].split(",")) : Set.of());
        TYPES.put(words[0].replace('.', '/'), type);
        if (type.isChangedUnseen() && !words[0].startsWith("java.nio.")) {
            METHODS.addAll(type.methods);
        }
    }

    /// What is listed of a class, or null.
    static Type find(String internalName) {
        return TYPES.get(internalName);
    }

    /// Whether objects of a listed class, or of one below it, change without barriers.
    static boolean isChangedUnseen(String internalName) {
        Type type = find(internalName);
        return type != null && type.isChangedUnseen();
    }

    /// Whether a call may change its receiver without barriers. Which class it is of is known when the method
    /// is called, see [Treatments]; where even the method's owner is not of `java.base`, names are compared.
    static boolean changesReceiver(String owner, String name) {
        Type type = find(owner);
        return type == null ? METHODS.contains(name) : type.methods.contains(name);
    }
}
