package cedrat.persist.jdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.jdk.JavaBase.Treatment;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/// J5: the list of the types of `java.base` that change.
class JavaBaseTest {
    private static List<String> lines() throws IOException {
        try (InputStream in = JavaBase.class.getResourceAsStream("java.base.types")) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
        }
    }

    /// J5.
    @Test
    void eachMutableTypeIsListedOnce() throws IOException {
        List<String> names = new ArrayList<>();
        Set<String> decided = new TreeSet<>();
        for (String line : lines()) {
            String[] words = line.split(" ", 3);
            names.add(words[0]);
            if (!words[1].equals("supertype")) {
                decided.add(words[0]);
            }
        }
        assertEquals(List.copyOf(new TreeSet<>(names)), names, "sorted, and each once");
        JavaBaseTypes types = new JavaBaseTypes();
        Set<String> undecided = new TreeSet<>(types.changing());
        names.forEach(undecided::remove);
        types.harmless().forEach(type -> undecided.remove(type.getName()));
        assertEquals(Set.of(), undecided, "make the list again, see JavaBaseTypes");
        assertTrue(types.changing().containsAll(decided), "make the list again, see JavaBaseTypes");
        assertEquals(types.text(), String.join("\n", lines()) + "\n", "make the list again, see JavaBaseTypes");
    }

    /// J5. Only classes are checked, as every object is of a class.
    @Test
    void unlistedMutableTypesAreHarmlessByRules() {
        Treatments treatments = new Treatments();
        Set<Class<?>> harmless = new JavaBaseTypes().harmless();
        assertTrue(harmless.size() > 800, harmless.size() + " types");
        for (Class<?> type : harmless) {
            String name = type.getName().replace('.', '/');
            if (!type.isInterface()) {
                assertEquals(Treatment.HARMLESS, treatments.of(type), name);
                assertFalse(JavaBase.isWoven(name), name);
            }
        }
        Set<String> rules = new TreeSet<>(HarmlessTypes.ROOTS);
        harmless.forEach(type -> rules.remove(type.getName().replace('.', '/')));
        assertEquals(Set.of(), rules, "rules for types that are not harmless, or not there");
    }

    /// J5.
    @Test
    void noTypeIsListedAndHarmless() throws IOException {
        for (String line : lines()) {
            assertFalse(HarmlessTypes.has(line.split(" ")[0].replace('.', '/')), line);
        }
    }

    /// J5.
    @Test
    void typesListedAsWovenAreWoven() throws IOException {
        for (String line : lines()) {
            String name = line.split(" ")[0].replace('.', '/');
            Treatment treatment = JavaBase.find(name).treatment();
            if (treatment != Treatment.SUPERTYPE) {
                assertEquals(treatment == Treatment.WOVEN, JavaBase.isWoven(name), line);
            }
        }
    }
}
