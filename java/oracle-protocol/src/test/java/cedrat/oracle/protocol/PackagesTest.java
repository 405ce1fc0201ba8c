package cedrat.oracle.protocol;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;

import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/// The packages of this library: the bytes of the protocol, and above them their transport by Netty.
class PackagesTest {
    private static final JavaClasses CLASSES = new ClassFileImporter().importPath(Path.of("target/classes"));

    private static void onlyDependOn(String name, String... packages) {
        classes()
                .that()
                .resideInAPackage(name)
                .should()
                .onlyDependOnClassesThat()
                .resideInAnyPackage(packages)
                .check(CLASSES);
    }

    @Test
    void protocolNeedsOnlyJdk() {
        onlyDependOn("cedrat.oracle.protocol", "cedrat.oracle.protocol", "java..");
    }

    @Test
    void transportIsAboveProtocol() {
        onlyDependOn(
                "cedrat.oracle.transport",
                "cedrat.oracle.transport",
                "cedrat.oracle.protocol",
                "cedrat.oracle.authentication",
                "cedrat.oracle.tls",
                "io.netty..",
                "javax.net..",
                "javax.security..",
                "java..");
    }
}
