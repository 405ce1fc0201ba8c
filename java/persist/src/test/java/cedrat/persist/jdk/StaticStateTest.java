package cedrat.persist.jdk;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/// J5: methods of `java.base` that change static state.
class StaticStateTest {
    /// These change their arguments, or nothing, or files, or what is loaded again.
    private static final Map<String, Set<String>> OTHERS = Map.ofEntries(
            Map.entry("java/lang/Math", Set.of("addExact")),
            Map.entry("java/lang/StrictMath", Set.of("addExact")),
            Map.entry("java/lang/System", Set.of("setSecurityManager")),
            Map.entry("java/lang/invoke/MethodHandles", Set.of("insertArguments", "insertCoordinates")),
            Map.entry("java/lang/reflect/AccessibleObject", Set.of("setAccessible")),
            Map.entry(
                    "java/lang/reflect/Array",
                    Set.of(
                            "set",
                            "setBoolean",
                            "setByte",
                            "setChar",
                            "setDouble",
                            "setFloat",
                            "setInt",
                            "setLong",
                            "setShort")),
            Map.entry("java/lang/reflect/Constructor", Set.of("setAccessible")),
            Map.entry("java/lang/reflect/Executable", Set.of("setAccessible")),
            Map.entry("java/lang/reflect/Field", Set.of("setAccessible")),
            Map.entry("java/lang/reflect/Method", Set.of("setAccessible")),
            Map.entry(
                    "java/nio/file/Files",
                    Set.of(
                            "delete",
                            "deleteIfExists",
                            "setAttribute",
                            "setLastModifiedTime",
                            "setOwner",
                            "setPosixFilePermissions")),
            Map.entry("java/util/Arrays", Set.of("setAll")),
            Map.entry("java/util/Collections", Set.of("addAll")),
            Map.entry("java/util/ListResourceBundle", Set.of("clearCache")),
            Map.entry("java/util/PropertyResourceBundle", Set.of("clearCache")),
            Map.entry("java/util/ResourceBundle", Set.of("clearCache")),
            Map.entry("java/util/concurrent/locks/LockSupport", Set.of("setCurrentBlocker")));

    /// J5.
    @Test
    void eachMethodChangingStaticStateIsKnown() {
        Map<String, Set<String>> known = new TreeMap<>();
        StaticState.methods().forEach((type, names) -> known.put(type, new TreeSet<>(names)));
        OTHERS.forEach((type, names) ->
                known.computeIfAbsent(type, one -> new TreeSet<>()).addAll(names));
        assertEquals(known, new JavaBaseTypes().staticChanges());
    }
}
