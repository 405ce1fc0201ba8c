package cedrat.persist.killed;

import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassTransform;
import java.lang.classfile.CodeTransform;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;

/// An agent, loaded behind the one that weaves, that takes the guards of reads out of the programs of this package:
/// the fault [Fault#GUARD_SKIPPED].
public final class NoGuards {
    private static final String PACKAGE = NoGuards.class.getPackageName().replace('.', '/') + '/';
    private static final String OWN_NAME = NoGuards.class.getName().replace('.', '/');
    private static final String BARRIER = "cedrat/persist/boot/Barrier";

    private NoGuards() {}

    /// Begins.
    public static void premain(String arguments, Instrumentation instrumentation) {
        ClassFileTransformer transformer = new ClassFileTransformer() {
            @Override
            public byte[] transform(
                    ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] woven) {
                boolean isProgram = name != null && name.startsWith(PACKAGE) && !name.startsWith(OWN_NAME);
                return isProgram ? withoutGuards(woven) : null;
            }
        };
        // Those that can transform again come behind those that cannot, and the weaver can.
        instrumentation.addTransformer(transformer, true);
    }

    private static byte[] withoutGuards(byte[] woven) {
        CodeTransform asIfLoaded = (builder, element) -> {
            String called = element instanceof InvokeInstruction call
                            && call.owner().asInternalName().equals(BARRIER)
                    ? call.name().stringValue()
                    : "";
            switch (called) {
                case "readNull" -> builder.pop2().aconst_null();
                case "beforeRead" -> builder.pop();
                default -> builder.with(element);
            }
        };
        ClassFile file = ClassFile.of();
        return file.transformClass(file.parse(woven), ClassTransform.transformingMethodBodies(asIfLoaded));
    }
}
