package cedrat.persist.libraries;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.memory.MemoFields;
import java.io.IOException;
import java.io.InputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.FieldModel;
import java.lang.classfile.MethodModel;
import java.lang.classfile.Opcode;
import java.lang.classfile.instruction.FieldInstruction;
import java.lang.constant.ConstantDescs;
import java.lang.reflect.AccessFlag;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.jar.JarFile;
import org.junit.jupiter.api.Test;

/// The list of memo fields, compared with the class files of the libraries.
class ListedMemoFieldsTest {
    private final List<String> wrong = new ArrayList<>();
    private int count;

    @Test
    void listedFieldsAreMemoFields() throws IOException, URISyntaxException {
        try (InputStream in = MemoFields.class.getResourceAsStream("memo.fields")) {
            assertNotNull(in);
            for (String line : new String(in.readAllBytes()).lines().toList()) {
                String[] words = line.split(" ");
                List<String> names = List.of(words[1].split(","));
                if (words[0].endsWith(".*")) {
                    checkPackage(names);
                } else {
                    checkClass(read(words[0].replace('.', '/')), names, words[0]);
                }
            }
        }
        assertEquals(List.of(), wrong);
        assertTrue(count > 2000, () -> "found only " + count);
    }

    /// The only library whose classes are not listed one by one.
    private void checkPackage(List<String> names) throws IOException, URISyntaxException {
        Path library = Path.of(it.unimi.dsi.fastutil.Function.class
                .getProtectionDomain()
                .getCodeSource()
                .getLocation()
                .toURI());
        try (JarFile jar = new JarFile(library.toFile())) {
            for (var entry : jar.stream().toList()) {
                if (entry.getName().endsWith(".class")) {
                    ClassModel type =
                            ClassFile.of().parse(jar.getInputStream(entry).readAllBytes());
                    List<String> declared = names.stream()
                            .filter(name -> field(type, name) != null)
                            .toList();
                    checkClass(type, declared, entry.getName());
                }
            }
        }
    }

    private static ClassModel read(String internalName) throws IOException {
        ClassLoader loader = ListedMemoFieldsTest.class.getClassLoader();
        try (InputStream in = loader.getResourceAsStream(internalName + ".class")) {
            return in == null ? null : ClassFile.of().parse(in.readAllBytes());
        }
    }

    private void checkClass(ClassModel type, List<String> names, String owner) {
        for (String name : names) {
            count++;
            if (type == null || !isMemo(type, name)) {
                wrong.add(owner + " " + name);
            }
        }
    }

    /// Whether a method other than a constructor reads the field and assigns to it.
    private static boolean isMemo(ClassModel type, String name) {
        FieldModel field = field(type, name);
        return field != null
                && type.methods().stream()
                        .anyMatch(method -> !method.methodName().equalsString(ConstantDescs.INIT_NAME)
                                && uses(type, method, name, Opcode.GETFIELD)
                                && uses(type, method, name, Opcode.PUTFIELD));
    }

    private static FieldModel field(ClassModel type, String name) {
        return type.fields().stream()
                .filter(field -> field.fieldName().equalsString(name)
                        && !field.flags().has(AccessFlag.STATIC)
                        && !field.flags().has(AccessFlag.FINAL))
                .findAny()
                .orElse(null);
    }

    private static boolean uses(ClassModel type, MethodModel method, String name, Opcode opcode) {
        return method.code().isPresent()
                && method.code()
                        .get()
                        .elementStream()
                        .anyMatch(element -> element instanceof FieldInstruction field
                                && field.opcode() == opcode
                                && field.owner().equals(type.thisClass())
                                && field.name().equalsString(name));
    }
}
