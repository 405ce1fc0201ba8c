package cedrat.persist.weave.code;

import java.lang.classfile.ClassModel;
import java.lang.classfile.CodeElement;
import java.lang.classfile.CodeModel;
import java.lang.classfile.Instruction;
import java.lang.classfile.Opcode;
import java.lang.classfile.instruction.ArrayStoreInstruction;
import java.lang.classfile.instruction.ConstantInstruction;
import java.lang.classfile.instruction.ConstantInstruction.LoadConstantInstruction;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.classfile.instruction.LoadInstruction;
import java.lang.classfile.instruction.StoreInstruction;
import java.lang.classfile.instruction.TypeCheckInstruction;
import java.lang.constant.DynamicConstantDesc;
import java.util.BitSet;
import java.util.List;

/// Probes of the coverage tool JaCoCo, which instruments a class before the agent does: assignments `probes[N] = true`
/// to an array that each method keeps in a local variable of its own. They are no changes of the program. With a
/// barrier, a rollback would remove the coverage, and transactions that run the same class would wait for each other.
public final class Probes {
    private Probes() {}

    /// Returns the numbers of the instructions that are probes.
    public static BitSet in(ClassModel type, CodeModel code) {
        BitSet probes = new BitSet();
        if (type.methods().stream().noneMatch(method -> method.methodName().equalsString("$jacocoInit"))) {
            return probes;
        }
        List<CodeElement> instructions =
                code.elementStream().filter(Instruction.class::isInstance).toList();
        int array = array(instructions);
        for (int at = 3; array >= 0 && at < instructions.size(); at++) {
            if (instructions.get(at) instanceof ArrayStoreInstruction store
                    && store.opcode() == Opcode.BASTORE
                    && instructions.get(at - 1) instanceof ConstantInstruction value
                    && value.opcode() == Opcode.ICONST_1
                    && instructions.get(at - 2) instanceof ConstantInstruction
                    && instructions.get(at - 3) instanceof LoadInstruction load
                    && load.slot() == array) {
                probes.set(at);
            }
        }
        return probes;
    }

    /// Returns the local variable of the array, or -1. A method begins by setting it.
    private static int array(List<CodeElement> instructions) {
        int at = 0;
        if (instructions.isEmpty() || !isArray(instructions.get(at++))) {
            return -1;
        }
        if (at < instructions.size() && instructions.get(at) instanceof TypeCheckInstruction) {
            at++;
        }
        return at < instructions.size() && instructions.get(at) instanceof StoreInstruction store ? store.slot() : -1;
    }

    /// Class files since Java 11 have a constant for the array, others a method.
    private static boolean isArray(CodeElement instruction) {
        return switch (instruction) {
            case InvokeInstruction call -> call.name().equalsString("$jacocoInit");
            case LoadConstantInstruction constant ->
                constant.constantValue() instanceof DynamicConstantDesc<?> made
                        && made.constantName().equals("$jacocoData");
            default -> false;
        };
    }
}
