package cedrat.bench.figures;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;

import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/// The figures of the oracle and those of persistent objects have only their form in common.
class PackagesTest {
    private static final JavaClasses CLASSES = new ClassFileImporter().importPath(Path.of("target/classes"));

    private static void areApart(String name, String other) {
        noClasses()
                .that()
                .resideInAPackage(name)
                .should()
                .dependOnClassesThat()
                .resideInAPackage(other)
                .check(CLASSES);
    }

    @Test
    void oracleAndObjectsAreApart() {
        areApart("cedrat.oracle..", "cedrat.persist..");
        areApart("cedrat.persist..", "cedrat.oracle..");
    }

    @Test
    void formOfFiguresNeedsOnlyJdk() {
        classes()
                .that()
                .resideInAPackage("cedrat.bench.figures")
                .should()
                .onlyDependOnClassesThat()
                .resideInAnyPackage("cedrat.bench.figures", "java..")
                .check(CLASSES);
    }
}
