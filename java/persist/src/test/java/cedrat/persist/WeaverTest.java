package cedrat.persist;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.MethodModel;
import java.lang.classfile.attribute.CodeAttribute;
import org.junit.jupiter.api.Test;

/// What weaving makes of code.
class WeaverTest {
    /// The HotSpot compiler inlines no hot method that is longer (`FreqInlineSize`).
    private static final int INLINED_BYTES_MAX = 325;

    @Test
    void puttingIntoAHashMapStaysShortEnoughToBeInlined() throws IOException, UnstructuredException {
        byte[] original;
        try (InputStream in = Object.class.getResourceAsStream("/java/util/HashMap.class")) {
            original = in.readAllBytes();
        }
        byte[] woven = new Weaver(new Fields(declaring -> {})).weave(original, Weaver.Kind.COLLECTION, null, false);
        assertTrue(putLength(woven) > putLength(original));
        assertTrue(putLength(woven) <= INLINED_BYTES_MAX, putLength(woven) + " bytes");
    }

    private static int putLength(byte[] type) {
        for (MethodModel method : ClassFile.of().parse(type).methods()) {
            if (method.methodName().equalsString("putVal")) {
                return ((CodeAttribute) method.code().orElseThrow()).codeLength();
            }
        }
        throw new AssertionError("HashMap has no putVal");
    }
}
