package cedrat.persist.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
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
                WovenAttribute.of(new WovenAttribute(WeaverVersion.get(), "Order", 7, choices, fields).addedTo(own()));
        assertEquals(WeaverVersion.get(), read.version);
        assertEquals("Order", read.name);
        assertEquals(7, read.original);
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
        byte[] type =
                new WovenAttribute("other", "Order", 0, Map.of("org/example/Order", "?"), List.of()).addedTo(own());
        assertRefused(type, null, "another version of Cedrat: run a clean build");
    }

    private static void assertRefused(byte[] type, String arguments, String reason) {
        WovenAttribute read = WovenAttribute.of(type);
        ClassLoader loader = WovenAttributeTest.class.getClassLoader();
        Classes classes = new Classes(arguments);
        var refused = assertThrows(
                IllegalArgumentException.class,
                () -> read.check(classes, loader, ClassFile.of().parse(type)));
        assertTrue(refused.getMessage().contains(reason), refused.getMessage());
    }

    /// Adds the attribute of a build with arguments.
    private static byte[] built(String arguments, byte[] type) {
        ClassModel model = ClassFile.of().parse(type);
        Map<String, String> choices = new Classes(arguments).choices(WovenAttributeTest.class.getClassLoader(), model);
        String name = model.thisClass().asInternalName();
        return new WovenAttribute(WeaverVersion.get(), name, 0, choices, List.of()).addedTo(type);
    }

    /// Makes an object of another class, and names none of its fields.
    private static final class Making {
        private Making() {}

        Object make() {
            return new Made();
        }
    }

    private static final class Made {}

    /// J18a: the agent would have code of the class remember that the object was made.
    @Test
    void argumentsForConstructedClassesAreCompared() throws IOException {
        byte[] making;
        try (InputStream in = getClass().getResourceAsStream("WovenAttributeTest$Making.class")) {
            making = in.readAllBytes();
        }
        String included = "include=" + Making.class.getName();
        String reason = "Made is `not persistable` in the build, `not persistable, left out";
        assertRefused(built(included + ":" + Made.class.getName(), making), included, reason);
        assertRefused(built(null, making), included, reason);
    }

    /// J18f: its dynamic constants and its attribute may have the old name.
    @Test
    void renamedClassIsRefused() throws IOException {
        byte[] type = built(null, own());
        ClassFile renaming = ClassFile.of();
        byte[] renamed = renaming.transformClass(
                renaming.parse(type), ClassDesc.of("org.example.Shaded"), (builder, element) -> builder.with(element));
        assertRefused(renamed, null, "another tool has renamed it from cedrat.persist.weave.WovenAttributeTest");
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
