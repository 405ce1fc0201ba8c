package cedrat.persist.jdk;

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
/// - Each of them is in exactly one of three lists, or is harmless. Otherwise a class would be restored
///   only in part, without an error.
///
/// The lists are one resource, `java.base.types`, a line each: a class, its treatment, and the names of the
/// methods before whose calls a barrier is put. The supertypes of such classes are lines too, with the
/// methods that are inherited from them. The treatment of an interface is that of the non-public classes
/// that implement it. [HarmlessTypes] has the rules for all other types.
///
/// **Threads:** any.
public final class JavaBase {
    /// Treatment of a class's changes.
    public enum Treatment {
        /// Its stores have barriers.
        WOVEN,
        /// Its objects are kept before calls that change them.
        SAVED,
        /// Calls that change its objects throw, unless the transaction has made the object.
        REFUSED,
        /// Its changes need not be rolled back.
        HARMLESS,
        /// Its subtypes decide.
        SUPERTYPE
    }

    /// A line of the list.
    ///
    /// @param methods those before whose calls a barrier is put
    record Type(Treatment treatment, Set<String> methods) {
        private boolean isChangedUnseen() {
            return treatment == Treatment.SAVED || treatment == Treatment.REFUSED;
        }
    }

    /// Of `java.util` what the resource does not list and is no part of a collection: sorting is kept where it
    /// is called, and the others are the JDK's own business.
    private static final String[] NO_COLLECTIONS = {
        "Arrays",
        "ArraysParallelSortHelpers",
        "ArrayPrefixHelpers",
        "ComparableTimSort",
        "DualPivotQuicksort",
        "LocaleISOData",
        "TimSort",
        "TimerThread",
        "TaskQueue",
        "UUID"
    };

    private static final Map<String, Type> TYPES = new HashMap<>();
    /// Methods of all classes that are kept or refused, except buffers, which no application extends.
    private static final Set<String> METHODS = new HashSet<>();
    private static final Set<String> PACKAGES = Object.class.getModule().getPackages();

    static {
        try (InputStream in = JavaBase.class.getResourceAsStream("java.base.types");
                BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
            lines.lines().forEach(JavaBase::add);
            // A thread local variable's, as which few are called by a name of the application's.
            METHODS.remove("get");
            // Loaded here, as the transformer may load no class when it is called first.
            HarmlessTypes.has("java/lang/Object");
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
                    case "supertype" -> Treatment.SUPERTYPE;
                    default -> throw new IllegalStateException("invalid line in java.base.types: " + line);
                };
        Type type = new Type(treatment, words.length == 3 ? Set.of(words[2].split(",")) : Set.of());
        TYPES.put(words[0].replace('.', '/'), type);
        if (type.isChangedUnseen() && !packageOf(words[0]).equals("java.nio")) {
            METHODS.addAll(type.methods);
        }
    }

    private static String packageOf(String name) {
        return name.substring(0, Math.max(0, name.lastIndexOf('.')));
    }

    /// Returns the entry of a class in the lists, or null.
    public static Type find(String internalName) {
        return TYPES.get(internalName);
    }

    /// Returns the treatment that the lists or a rule state for the class itself, or null.
    static Treatment treatment(String internalName) {
        Type type = find(internalName);
        if (type != null && type.treatment != Treatment.SUPERTYPE) {
            return type.treatment;
        }
        return HarmlessTypes.has(internalName) ? Treatment.HARMLESS : null;
    }

    /// Returns the names of the methods before whose calls a barrier is put.
    static Set<String> methods(String internalName) {
        Type type = find(internalName);
        return type == null ? Set.of() : type.methods;
    }

    /// Whether an object that is passed as one of this type may change without barriers. Collections that do
    /// are only read where their type is an interface of `java.util`.
    static boolean isChangedUnseen(String internalName) {
        Type type = find(internalName);
        if (type == null || type.treatment != Treatment.SUPERTYPE) {
            return type != null && type.isChangedUnseen();
        }
        return !packageOf(internalName.replace('/', '.')).equals("java.util");
    }

    /// Whether a call may change its receiver without barriers. Which class it is of is known when the method
    /// is called, see [Treatments]; where even the method's owner is not of `java.base`, names are compared.
    public static boolean changesReceiver(String owner, String name) {
        Type type = find(owner);
        return type != null
                ? type.methods.contains(name)
                : isChange(name) && !PACKAGES.contains(packageOf(owner.replace('/', '.')));
    }

    /// Whether some class that is kept or refused is changed by methods of that name.
    static boolean isChange(String name) {
        return METHODS.contains(name);
    }

    /// Whether a class of the JDK has barriers.
    public static boolean isWoven(String internalName) {
        String util = "java/util/";
        if (!internalName.startsWith(util) || internalName.indexOf('/', util.length()) >= 0) {
            return false;
        }
        String decided = internalName;
        if (!isDecided(decided) && internalName.indexOf('$') >= 0) {
            decided = internalName.substring(0, internalName.indexOf('$'));
        }
        Type listed = find(decided);
        if (listed != null && listed.treatment() != Treatment.WOVEN) {
            return listed.treatment() == Treatment.SUPERTYPE;
        }
        if (HarmlessTypes.has(decided)) {
            return false;
        }
        for (String name : NO_COLLECTIONS) {
            if (isOrIsIn(internalName, util.length(), name) && !isOfListOfArray(internalName)) {
                return false;
            }
        }
        return true;
    }

    private static boolean isDecided(String internalName) {
        return find(internalName) != null || HarmlessTypes.has(internalName);
    }

    /// `Arrays.asList` makes a collection.
    private static boolean isOfListOfArray(String internalName) {
        return internalName.equals("java/util/Arrays$ArrayList") || internalName.equals("java/util/Arrays$ArrayItr");
    }

    private static boolean isOrIsIn(String internalName, int from, String outer) {
        int end = from + outer.length();
        return internalName.startsWith(outer, from)
                && (internalName.length() == end || internalName.charAt(end) == '$');
    }
}
