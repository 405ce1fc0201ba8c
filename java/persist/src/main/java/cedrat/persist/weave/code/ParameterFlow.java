package cedrat.persist.weave.code;

import java.lang.classfile.CodeModel;
import java.lang.classfile.Instruction;
import java.lang.classfile.attribute.CodeAttribute;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.util.ArrayDeque;

/// Positions on the stack of a method that hold certain of its parameters, found by following its
/// instructions.
///
/// **Threads:** one.
public final class ParameterFlow {
    private static final int PARAMETER = 1;

    private final Code code;
    private final boolean endsWithPrologue;
    private final Frame[] frames;
    private final ArrayDeque<Integer> pending = new ArrayDeque<>();

    private ParameterFlow(CodeModel model, int[] slots, boolean endsWithPrologue) {
        code = new Code(model);
        this.endsWithPrologue = endsWithPrologue;
        frames = new Frame[code.size()];
        Frame first = new Frame(((CodeAttribute) model).maxLocals());
        for (int slot : slots) {
            first.locals[slot] = PARAMETER;
        }
        arrive(0, first);
        while (!pending.isEmpty()) {
            step(pending.poll());
        }
    }

    /// Of `this`, in what a constructor does before it has called another one: there it is no object yet,
    /// whose fields can be written and not read. A store to another object of the class is a store as any
    /// other.
    public static ParameterFlow inPrologue(CodeModel model) {
        return new ParameterFlow(model, new int[] {0}, true);
    }

    /// Of some parameters, by the locals that they come in.
    public static ParameterFlow of(CodeModel model, int[] slots) {
        return new ParameterFlow(model, slots, false);
    }

    /// Whether an instruction has one of them on the stack for certain, below `words` others.
    public boolean isParameter(int at, int words) {
        return frames[at] != null && frames[at].peek(words) == PARAMETER;
    }

    private void step(int at) {
        Instruction instruction = code.instruction(at);
        if (endsWithPrologue && isEnd(at, instruction)) {
            return;
        }
        Frame after = frames[at].copy();
        InstructionEffects.apply(after, instruction);
        for (Code.Handler handler : code.handlers()) {
            if (handler.covers(at)) {
                arrive(handler.at(), frames[at].thrown());
            }
        }
        for (int next : code.next(at)) {
            arrive(next, after);
        }
    }

    private boolean isEnd(int at, Instruction instruction) {
        if (!(instruction instanceof InvokeInstruction call) || !call.name().equalsString(ConstantDescs.INIT_NAME)) {
            return false;
        }
        int words = 0;
        for (ClassDesc parameter : call.typeSymbol().parameterArray()) {
            words += InstructionEffects.words(parameter);
        }
        return isParameter(at, words);
    }

    private void arrive(int at, Frame frame) {
        if (frames[at] == null) {
            frames[at] = frame.copy();
            pending.add(at);
        } else if (frames[at].meet(frame)) {
            pending.add(at);
        }
    }
}
