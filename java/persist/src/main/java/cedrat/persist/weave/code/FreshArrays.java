package cedrat.persist.weave.code;

import java.lang.classfile.CodeModel;
import java.lang.classfile.Instruction;
import java.lang.classfile.Opcode;
import java.lang.classfile.attribute.CodeAttribute;
import java.lang.classfile.instruction.ArrayStoreInstruction;
import java.lang.classfile.instruction.BranchInstruction;
import java.lang.classfile.instruction.DiscontinuedInstruction;
import java.lang.classfile.instruction.LookupSwitchInstruction;
import java.lang.classfile.instruction.NewPrimitiveArrayInstruction;
import java.lang.classfile.instruction.NewReferenceArrayInstruction;
import java.lang.classfile.instruction.StackInstruction;
import java.lang.classfile.instruction.TableSwitchInstruction;
import java.util.BitSet;

/// Stores to arrays that are on the stack only, as in `new int[] {1, 2}`: nothing else can reach such an array, so a
/// rollback need not restore it, and it is not persistent. With a barrier for each element, the initialiser of a class
/// with a long table would exceed the length of a method.
///
/// **Threads:** one.
public final class FreshArrays {
    /// Words of unknown content below the first array: more than an instruction takes from the stack.
    private static final int WORDS_BELOW = 3 * 256;

    private final Code code;
    private final int locals;
    private final BitSet joins = new BitSet();
    private final BitSet stores = new BitSet();
    /// By the numbers of the instructions that make them, the arrays that something else can reach.
    private final BitSet reachable = new BitSet();
    /// Known state, from the making of an array on, or null. An array is noted as the number of the instruction that
    /// makes it, plus one.
    private Frame frame;

    private FreshArrays(CodeModel model) {
        code = new Code(model);
        locals = ((CodeAttribute) model).maxLocals();
    }

    /// Returns the numbers of the instructions that are such stores.
    public static BitSet stores(CodeModel model) {
        FreshArrays arrays = new FreshArrays(model);
        arrays.findJoins();
        for (int at = 0; at < arrays.code.size(); at++) {
            arrays.step(at);
        }
        return arrays.stores;
    }

    /// Finds the instructions at which control arrives from elsewhere.
    private void findJoins() {
        for (int at = 0; at < code.size(); at++) {
            for (int next : code.next(at)) {
                if (next != at + 1) {
                    joins.set(next);
                }
            }
        }
        code.handlers().forEach(handler -> joins.set(handler.at()));
    }

    private void step(int at) {
        Instruction instruction = code.instruction(at);
        if (joins.get(at) || instruction instanceof DiscontinuedInstruction) {
            frame = null;
        }
        boolean isMaking = instruction instanceof NewPrimitiveArrayInstruction
                || instruction instanceof NewReferenceArrayInstruction;
        if (frame == null && !isMaking) {
            return;
        }
        if (frame == null) {
            frame = new Frame(locals);
            frame.push(0, WORDS_BELOW);
            frame.push(at + 1);
            return;
        }
        if (instruction instanceof ArrayStoreInstruction store) {
            int array = frame.peek(1 + InstructionEffects.words(store.typeKind()));
            if (array != 0 && !reachable.get(array)) {
                stores.set(at);
            }
            if (store.opcode() == Opcode.AASTORE && frame.peek(0) != 0) {
                reachable.set(frame.peek(0));
            }
            InstructionEffects.apply(frame, instruction);
        } else {
            apply(instruction);
        }
        if (isMaking) {
            frame.pop();
            frame.push(at + 1);
        }
        if (frame.depth() <= WORDS_BELOW || isBranch(instruction) || code.next(at).length == 0) {
            frame = null;
        }
    }

    /// Applies an instruction. Whatever takes an array from the stack may let others reach it.
    private void apply(Instruction instruction) {
        int[] before = frame.above(WORDS_BELOW);
        InstructionEffects.apply(frame, instruction);
        if (instruction instanceof StackInstruction) {
            return;
        }
        int[] after = frame.above(WORDS_BELOW);
        for (int word = 0; word < before.length; word++) {
            if (word >= after.length || after[word] != before[word]) {
                reachable.set(before[word]);
            }
        }
    }

    private static boolean isBranch(Instruction instruction) {
        return instruction instanceof BranchInstruction
                || instruction instanceof LookupSwitchInstruction
                || instruction instanceof TableSwitchInstruction;
    }
}
