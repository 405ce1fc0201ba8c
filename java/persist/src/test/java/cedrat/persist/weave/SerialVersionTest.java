package cedrat.persist.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.Externalizable;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInput;
import java.io.ObjectOutput;
import java.io.ObjectStreamClass;
import java.io.Serializable;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.net.URI;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/// Weaving does not change the serial version of a class. This package is not woven, so its classes are as others
/// were before weaving.
@SuppressWarnings("serial")
class SerialVersionTest {
    private interface Marker {}

    private static class Plain implements Serializable {}

    protected abstract static class Rich<T> extends Plain implements Marker, Comparable<T> {
        static final int[] SHARED = {1};
        public volatile int number;
        protected transient Object lost;
        private static long hidden;
        private transient int alsoHidden;
        private T kept;

        static {
            hidden = SHARED.length;
        }

        protected Rich() {}

        private Rich(T kept) {
            this.kept = kept;
        }

        public Rich(T kept, int[][] numbers) {
            this(kept);
        }

        synchronized T kept(String[] names, long... numbers) {
            Runnable lambda = () -> number++;
            lambda.run();
            assert alsoHidden >= 0 : "which has a variable of its own";
            return kept;
        }

        final void kept() {}

        abstract class Inner extends Rich<T> {}
    }

    private static final class Written implements Externalizable {
        /// Called to read one.
        public Written() {}

        @Override
        public void writeExternal(ObjectOutput out) {}

        @Override
        public void readExternal(ObjectInput in) {}
    }

    private static class Failure extends RuntimeException {}

    private static class Declared implements Serializable {
        private static final long serialVersionUID = 7;
    }

    private enum Colour {
        RED
    }

    private record Pair(int left) implements Serializable {}

    private static ClassModel parse(Class<?> type) throws IOException {
        try (InputStream in =
                type.getResourceAsStream(type.getName().substring(type.getName().lastIndexOf('.') + 1) + ".class")) {
            return ClassFile.of().parse(in.readAllBytes());
        }
    }

    @Test
    void itIsThatOfTheUnwovenClass() throws IOException {
        for (Class<?> type : List.of(Plain.class, Rich.class, Rich.Inner.class, Written.class, Failure.class)) {
            assertTrue(SerialVersion.isMissing(parse(type)), type.getName());
            assertEquals(
                    ObjectStreamClass.lookup(type).getSerialVersionUID(),
                    SerialVersion.of(parse(type)),
                    type.getName());
        }
        for (Class<?> type : List.of(Declared.class, Colour.class, Pair.class, Marker.class)) {
            assertFalse(SerialVersion.isMissing(parse(type)), type.getName());
        }
    }

    /// Hundreds of classes of the JDK declare none.
    @Test
    void versionEqualsThatOfEachJdkClass() throws IOException, ClassNotFoundException {
        int compared = 0;
        Path root = FileSystems.getFileSystem(URI.create("jrt:/")).getPath("modules", "java.base");
        List<Path> files;
        try (Stream<Path> all = Files.walk(root)) {
            files = all.filter(file -> file.toString().endsWith(".class"))
                    .filter(file -> !file.endsWith("module-info.class"))
                    .toList();
        }
        for (Path file : files) {
            ClassModel model = ClassFile.of().parse(Files.readAllBytes(file));
            String name = model.thisClass().asInternalName().replace('/', '.');
            if (SerialVersion.isMissing(model) && !name.equals("java.lang.Enum")) {
                ObjectStreamClass serialised = ObjectStreamClass.lookup(Class.forName(name, false, null));
                if (serialised != null) {
                    assertEquals(serialised.getSerialVersionUID(), SerialVersion.of(model), name);
                    compared++;
                }
            }
        }
        assertTrue(compared > 50, "" + compared);
        System.out.println("compared " + compared);
    }
}
