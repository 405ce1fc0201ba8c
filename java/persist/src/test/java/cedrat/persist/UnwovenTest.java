package cedrat.persist;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/// J12: this package is not woven, as code is that the agent has not seen.
class UnwovenTest {
    @Test
    void noTransactionBeginsInCodeWithoutBarriers() {
        var thrown = assertThrows(IllegalStateException.class, Transaction::begin);
        assertTrue(thrown.getMessage().contains("no write barriers"), thrown.getMessage());
        assertThrows(IllegalStateException.class, () -> Transaction.run(() -> {}));
        assertThrows(IllegalStateException.class, () -> Transaction.run(transaction -> {}));
        assertThrows(IllegalStateException.class, () -> Transaction.call(() -> 1));
        assertThrows(IllegalStateException.class, () -> Transaction.call(transaction -> 1));
    }

    @Test
    void noTransactionBeginsWithAnUnwovenClass() {
        Recorder recorder = new Recorder(new Fields(declaring -> {}), false);
        recorder.unwoven.fail("the class Strange cannot be woven");
        var thrown = assertThrows(
                IllegalStateException.class, () -> recorder.transactions.begin(recorder.transactions.birth()));
        assertTrue(thrown.getMessage().contains("Strange"), thrown.getMessage());
    }

    @Test
    void theAgentSaysWhichArgumentsItTakes() {
        assertThrows(IllegalArgumentException.class, () -> new Classes("a"));
        assertThrows(IllegalArgumentException.class, () -> new Classes("exclude=a,included=b"));
        assertThrows(IllegalArgumentException.class, () -> new Classes("reads=locked"));
        assertFalse(new Classes("exclude=a").locksReads());
        assertTrue(new Classes("exclude=a,reads=lock,include=b").locksReads());
        Classes classes = new Classes("exclude=org.example:com.example.One");
        ClassLoader loader = UnwovenTest.class.getClassLoader();
        assertEquals(null, classes.kind(loader, "org/example/Two"));
        assertEquals(null, classes.kind(loader, "com/example/One$Inner"));
        assertEquals(Weaver.Kind.APPLICATION, classes.kind(loader, "com/example/OneMore"));
        assertEquals(Weaver.Kind.APPLICATION, classes.kind(loader, "org/examples/Two"));
        assertEquals(null, classes.kind(loader, "cedrat/persist/Transaction"));
        assertEquals(Weaver.Kind.COLLECTION, classes.kind(null, "java/util/HashMap$Node"));
        assertEquals(Weaver.Kind.COLLECTION, classes.kind(null, "java/util/Arrays$ArrayList"));
        assertEquals(null, classes.kind(null, "java/util/Arrays"));
        assertEquals(null, classes.kind(null, "java/util/concurrent/ConcurrentHashMap"));
        assertEquals(null, classes.kind(loader, "com/sun/tools/javac/code/Type"));
    }

    @Test
    void jdkToolsAreWovenOnRequest() {
        Classes classes = new Classes("exclude=com.example,include=com.sun.tools.javac");
        ClassLoader loader = UnwovenTest.class.getClassLoader();
        assertEquals(Weaver.Kind.APPLICATION, classes.kind(loader, "com/sun/tools/javac/code/Type"));
        assertEquals(null, classes.kind(loader, "com/sun/tools/javap/Main"));
        assertEquals(null, classes.kind(loader, "com/example/One"));
    }
}
