package cedrat.persist.weave.code;

import java.lang.classfile.Attributes;
import java.lang.classfile.CodeElement;
import java.lang.classfile.CodeModel;
import java.lang.classfile.Instruction;
import java.lang.classfile.Label;
import java.lang.classfile.Opcode;
import java.lang.classfile.attribute.CodeAttribute;
import java.lang.classfile.attribute.StackMapFrameInfo;
import java.lang.classfile.attribute.StackMapFrameInfo.SimpleVerificationTypeInfo;
import java.lang.classfile.attribute.StackMapFrameInfo.VerificationTypeInfo;
import java.lang.classfile.instruction.BranchInstruction;
import java.lang.classfile.instruction.ExceptionCatch;
import java.lang.classfile.instruction.LabelTarget;
import java.lang.classfile.instruction.LineNumber;
import java.lang.classfile.instruction.LookupSwitchInstruction;
import java.lang.classfile.instruction.ReturnInstruction;
import java.lang.classfile.instruction.SwitchCase;
import java.lang.classfile.instruction.TableSwitchInstruction;
import java.lang.classfile.instruction.ThrowInstruction;
import java.lang.constant.ConstantDescs;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/// The instructions of a method by their numbers, and where control goes from them.
public final class Code {
    /// A range of instructions and where exceptions in it go.
    public record Handler(int from, int to, int at, boolean catchesAll) {
        public boolean covers(int instruction) {
            return from <= instruction && instruction < to;
        }
    }

    private final List<Instruction> instructions = new ArrayList<>();
    private final List<Integer> lines = new ArrayList<>();
    private final Map<Label, Integer> targets = new IdentityHashMap<>();
    private final List<Handler> handlers = new ArrayList<>();
    /// By instruction, the locals that have a value there for certain, as the compiler has written it for verification.
    private final Map<Integer, BitSet> declared = new HashMap<>();

    public Code(CodeModel model) {
        List<ExceptionCatch> catches = new ArrayList<>();
        int line = 0;
        for (CodeElement element : model) {
            switch (element) {
                case LabelTarget target -> targets.put(target.label(), instructions.size());
                case LineNumber number -> line = number.line();
                case ExceptionCatch caught -> catches.add(caught);
                case Instruction instruction -> {
                    instructions.add(instruction);
                    lines.add(line);
                }
                default -> {}
            }
        }
        for (ExceptionCatch caught : catches) {
            boolean catchesAll = caught.catchType().isEmpty()
                    || caught.catchType().get().asSymbol().equals(ConstantDescs.CD_Throwable);
            handlers.add(new Handler(at(caught.tryStart()), at(caught.tryEnd()), at(caught.handler()), catchesAll));
        }
        if (model instanceof CodeAttribute attribute) {
            attribute.findAttribute(Attributes.stackMapTable()).ifPresent(table -> table.entries()
                    .forEach(entry -> declared.put(at(entry.target()), declared(entry))));
        }
    }

    private static BitSet declared(StackMapFrameInfo entry) {
        BitSet locals = new BitSet();
        int slot = 0;
        for (VerificationTypeInfo type : entry.locals()) {
            boolean isLong = type == SimpleVerificationTypeInfo.LONG || type == SimpleVerificationTypeInfo.DOUBLE;
            locals.set(slot, type != SimpleVerificationTypeInfo.TOP);
            slot += isLong ? 2 : 1;
        }
        return locals;
    }

    /// Whether a local may have a value before an instruction: not, if the compiler says there that it has none,
    /// whatever was left in it by a variable that is gone.
    public boolean mayHaveValue(int at, int slot) {
        BitSet locals = declared.get(at);
        return locals == null || locals.get(slot);
    }

    public int size() {
        return instructions.size();
    }

    public Instruction instruction(int at) {
        return instructions.get(at);
    }

    /// Returns a readable position of an instruction.
    public String place(int at) {
        int line = lines.get(at);
        return line == 0 ? "instruction " + at : "line " + line;
    }

    /// The instructions that may come next, if it does not throw.
    public int[] next(int at) {
        return switch (instructions.get(at)) {
            case BranchInstruction branch ->
                branch.opcode() == Opcode.GOTO || branch.opcode() == Opcode.GOTO_W
                        ? new int[] {at(branch.target())}
                        : new int[] {at(branch.target()), at + 1};
            case LookupSwitchInstruction choice -> next(choice.defaultTarget(), choice.cases());
            case TableSwitchInstruction choice -> next(choice.defaultTarget(), choice.cases());
            case ReturnInstruction _ -> new int[0];
            case ThrowInstruction _ -> new int[0];
            default -> new int[] {at + 1};
        };
    }

    private int[] next(Label otherwise, List<SwitchCase> cases) {
        return IntStream.concat(IntStream.of(at(otherwise)), cases.stream().mapToInt(one -> at(one.target())))
                .toArray();
    }

    /// The instruction that a label is before.
    public int at(Label label) {
        return targets.get(label);
    }

    /// In the order in which they are asked.
    public List<Handler> handlers() {
        return handlers;
    }
}
