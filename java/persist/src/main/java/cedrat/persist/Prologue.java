package cedrat.persist;

import java.lang.classfile.CodeModel;
import java.lang.classfile.Instruction;
import java.lang.classfile.attribute.CodeAttribute;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.util.ArrayDeque;

/// What a constructor does before it has called another one: there `this` is no object yet, whose fields can
/// be written and not read. A store to another object of the class is a store as any other.
final class Prologue {
    private static final int SELF = 1;

    private final Code code;
    private final Frame[] frames;
    private final ArrayDeque<Integer> pending = new ArrayDeque<>();

    Prologue(CodeModel model) {
        code = new Code(model);
        frames = new Frame[code.size()];
        Frame first = new Frame(((CodeAttribute) model).maxLocals());
        first.locals[0] = SELF;
        arrive(0, first);
        while (!pending.isEmpty()) {
            step(pending.poll());
        }
    }

    /// Whether an instruction of the prologue has `this` on the stack, below `words` others.
    boolean isSelf(int at, int words) {
        return frames[at] != null && frames[at].peek(words) == SELF;
    }

    private void step(int at) {
        Instruction instruction = code.instruction(at);
        if (isEnd(at, instruction)) {
            return;
        }
        Frame after = frames[at].copy();
        Steps.apply(after, instruction);
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
            words += Steps.words(parameter);
        }
        return isSelf(at, words);
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
