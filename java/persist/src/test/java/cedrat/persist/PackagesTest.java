package cedrat.persist;

import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarFile;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/// The packages of this library.
class PackagesTest {
    private static final String PACKAGES = "cedrat.persist..";
    private static final int CLASSES_MAX = 25;

    private static JavaClasses classes;

    @BeforeAll
    static void read() throws IOException {
        try (JarFile jar = new JarFile(System.getProperty("cedrat.agent"))) {
            classes = new ClassFileImporter().importJar(jar);
        }
    }

    @Test
    void noPackagesDependOnEachOther() {
        slices().matching("(" + PACKAGES + ")").should().beFreeOfCycles().check(classes);
    }

    @Test
    void interfaceDependsOnNoImplementation() {
        classes()
                .that()
                .resideInAPackage("cedrat.persist")
                .should()
                .onlyDependOnClassesThat(resideInAPackage("cedrat.persist")
                        .or(resideInAPackage("java..").or(resideInAPackage("javax.."))))
                .check(classes);
    }

    @Test
    void packagesHaveFewClasses() {
        Map<String, Long> sizes = classes.stream()
                .filter(JavaClass::isTopLevelClass)
                .filter(type -> !type.getSimpleName().equals("package-info"))
                .collect(Collectors.groupingBy(JavaClass::getPackageName, TreeMap::new, Collectors.counting()));
        sizes.values().removeIf(size -> size <= CLASSES_MAX);
        assertEquals(Map.of(), sizes);
    }
}
