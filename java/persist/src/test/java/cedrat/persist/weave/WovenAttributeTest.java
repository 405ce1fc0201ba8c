package cedrat.persist.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/// The attribute of classes that a build has woven.
class WovenAttributeTest {
    private static byte[] own() throws IOException {
        try (InputStream in = WovenAttributeTest.class.getResourceAsStream("WovenAttributeTest.class")) {
            return in.readAllBytes();
        }
    }

    @Test
    void attributeIsReadAsWritten() throws IOException {
        ClassDesc owner = ClassDesc.of("org.example.Order");
        List<Accessors.Field> fields =
                List.of(new Accessors.Field(owner, "customer", ConstantDescs.CD_String, owner, true));
        Map<String, String> choices = Map.of("org/example/Order", "persistable");
        WovenAttribute read =
                WovenAttribute.of(new WovenAttribute(WeaverVersion.get(), choices, fields).addedTo(own()));
        assertEquals(WeaverVersion.get(), read.version);
        assertEquals(choices, read.choices);
        assertEquals(fields, read.readFields);
    }

    @Test
    void otherClassesHaveNoAttribute() throws IOException {
        assertNull(WovenAttribute.of(own()));
    }

    /// J18a: whatever else another version has written.
    @Test
    void otherVersionIsRefused() throws IOException {
        byte[] type = new WovenAttribute("other", Map.of("org/example/Order", "?"), List.of()).addedTo(own());
        WovenAttribute read = WovenAttribute.of(type);
        Classes classes = new Classes(null);
        ClassLoader loader = getClass().getClassLoader();
        var refused = assertThrows(IllegalArgumentException.class, () -> read.check(classes, loader));
        assertTrue(refused.getMessage().contains("another version of Cedrat: run a clean build"), refused.getMessage());
    }

    @Test
    void versionIsThatOfAgent() throws IOException, InterruptedException {
        Process process = new ProcessBuilder(
                        ProcessHandle.current().info().command().orElse("java"),
                        "-cp",
                        System.getProperty("cedrat.agent") + File.pathSeparator + Path.of("target", "test-classes"),
                        Printed.class.getName())
                .redirectErrorStream(true)
                .start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), said);
        assertEquals(WeaverVersion.get(), said.strip());
    }

    /// Prints the version that the classes of a jar have.
    static final class Printed {
        private Printed() {}

        public static void main(String[] arguments) {
            System.out.println(WeaverVersion.get());
        }
    }
}
