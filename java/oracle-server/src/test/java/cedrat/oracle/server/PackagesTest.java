package cedrat.oracle.server;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;

import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/// The packages of this library, each of which needs only those below it.
class PackagesTest {
    private static final JavaClasses CLASSES = new ClassFileImporter().importPath(Path.of("target/classes"));

    /// Fails if a class of the package needs another package than itself, these and those of the JDK.
    private static void needsOnly(String name, String... others) {
        String[] allowed = Stream.of(List.of(name, "java.."), List.of(others))
                .flatMap(List::stream)
                .toArray(String[]::new);
        classes()
                .that()
                .resideInAPackage(name)
                .should()
                .onlyDependOnClassesThat()
                .resideInAnyPackage(allowed)
                .check(CLASSES);
    }

    @Test
    void stateNeedsOnlyJdk() {
        needsOnly("cedrat.oracle.state");
    }

    @Test
    void logNeedsOnlyState() {
        needsOnly("cedrat.oracle.log", "cedrat.oracle.state");
    }

    @Test
    void embeddedLogKnowsNoServer() {
        needsOnly("cedrat.oracle.log.embedded", "cedrat.oracle.log", "cedrat.library");
    }
}
