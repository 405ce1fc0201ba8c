package cedrat.persist.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.memory.MemoFields;
import org.junit.jupiter.api.Test;

/// Which classes the agent weaves.
class ClassesTest {
    @Test
    void theAgentSaysWhichArgumentsItTakes() {
        assertThrows(IllegalArgumentException.class, () -> new Classes("a"));
        assertThrows(IllegalArgumentException.class, () -> new Classes("exclude=a,included=b"));
        assertThrows(IllegalArgumentException.class, () -> new Classes("reads=lock"));
        assertThrows(IllegalArgumentException.class, () -> new Classes("memo=com.example.One"));
        assertTrue(new Classes("exclude=a").locksReads());
        assertFalse(new Classes("exclude=a,reads=unlocked,include=b").locksReads());
        Classes classes = new Classes("exclude=org.example:com.example.One");
        ClassLoader loader = ClassesTest.class.getClassLoader();
        assertEquals(null, classes.kind(loader, "org/example/Two"));
        assertEquals(null, classes.kind(loader, "com/example/One$Inner"));
        assertEquals(Weaver.Kind.APPLICATION, classes.kind(loader, "com/example/OneMore"));
        assertEquals(Weaver.Kind.APPLICATION, classes.kind(loader, "org/examples/Two"));
        assertEquals(null, classes.kind(loader, "cedrat/persist/Transaction"));
        assertEquals(null, classes.kind(loader, "cedrat/persist/record/Recorder$1"));
        assertEquals(Weaver.Kind.APPLICATION, classes.kind(loader, "cedrat/persist/woven/weave/Launched"));
        assertEquals(Weaver.Kind.COLLECTION, classes.kind(null, "java/util/HashMap$Node"));
        assertEquals(Weaver.Kind.COLLECTION, classes.kind(null, "java/util/Arrays$ArrayList"));
        assertEquals(null, classes.kind(null, "java/util/Arrays"));
        assertEquals(null, classes.kind(null, "java/util/concurrent/Semaphore"));
        assertEquals(null, classes.kind(loader, "com/sun/tools/javac/code/Type"));
    }

    @Test
    void memoFieldsAreListedOrNamed() {
        MemoFields memos = new Classes("memo=com.example.One$Two#hash:com.example.One#view").memos();
        assertTrue(memos.has("com/example/One$Two", "hash"));
        assertTrue(memos.has("com/example/One", "view"));
        assertFalse(memos.has("com/example/One", "hash"));
        assertTrue(memos.has("org/joda/time/LocalDate", "iHash"));
        assertTrue(memos.has("it/unimi/dsi/fastutil/ints/Int2IntOpenHashMap", "keys"));
        assertFalse(memos.has("it/unimi/dsi/fastutil/ints/Int2IntOpenHashMap", "key"));
    }

    @Test
    void jdkToolsAreWovenOnRequest() {
        Classes classes = new Classes("exclude=com.example,include=com.sun.tools.javac");
        ClassLoader loader = ClassesTest.class.getClassLoader();
        assertEquals(Weaver.Kind.APPLICATION, classes.kind(loader, "com/sun/tools/javac/code/Type"));
        assertEquals(null, classes.kind(loader, "com/sun/tools/javap/Main"));
        assertEquals(null, classes.kind(loader, "com/example/One"));
    }
}
