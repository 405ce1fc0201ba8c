package cedrat.persist.weave.code;

import java.lang.classfile.Instruction;
import java.lang.classfile.Opcode;
import java.lang.classfile.TypeKind;
import java.lang.classfile.instruction.ArrayLoadInstruction;
import java.lang.classfile.instruction.ArrayStoreInstruction;
import java.lang.classfile.instruction.BranchInstruction;
import java.lang.classfile.instruction.ConstantInstruction;
import java.lang.classfile.instruction.ConvertInstruction;
import java.lang.classfile.instruction.FieldInstruction;
import java.lang.classfile.instruction.IncrementInstruction;
import java.lang.classfile.instruction.InvokeDynamicInstruction;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.classfile.instruction.LoadInstruction;
import java.lang.classfile.instruction.LookupSwitchInstruction;
import java.lang.classfile.instruction.MonitorInstruction;
import java.lang.classfile.instruction.NewMultiArrayInstruction;
import java.lang.classfile.instruction.NewObjectInstruction;
import java.lang.classfile.instruction.NewPrimitiveArrayInstruction;
import java.lang.classfile.instruction.NewReferenceArrayInstruction;
import java.lang.classfile.instruction.NopInstruction;
import java.lang.classfile.instruction.OperatorInstruction;
import java.lang.classfile.instruction.ReturnInstruction;
import java.lang.classfile.instruction.StackInstruction;
import java.lang.classfile.instruction.StoreInstruction;
import java.lang.classfile.instruction.TableSwitchInstruction;
import java.lang.classfile.instruction.ThrowInstruction;
import java.lang.classfile.instruction.TypeCheckInstruction;
import java.lang.constant.ClassDesc;
import java.lang.constant.MethodTypeDesc;

/// Effects of instructions on a [Frame].
public final class InstructionEffects {
    private InstructionEffects() {}

    /// Does it, but for what calls of [cedrat.persist.Transaction] mean.
    public static void apply(Frame frame, Instruction instruction) {
        switch (instruction) {
            case LoadInstruction load -> frame.push(frame.locals[load.slot()], words(load.typeKind()));
            case StoreInstruction store -> store(frame, store);
            case ConstantInstruction constant -> frame.push(0, words(constant.typeKind()));
            case ConvertInstruction convert -> {
                frame.pop(words(convert.fromType()));
                frame.push(0, words(convert.toType()));
            }
            case FieldInstruction field -> field(frame, field);
            case InvokeInstruction call -> {
                frame.pop(call.opcode() == Opcode.INVOKESTATIC ? 0 : 1);
                // The receiver lies below the arguments: what is popped has no order here.
                call(frame, call.typeSymbol());
            }
            case InvokeDynamicInstruction call -> call(frame, call.typeSymbol());
            case ArrayLoadInstruction load -> {
                frame.pop(2);
                frame.push(0, words(load.typeKind()));
            }
            case ArrayStoreInstruction store -> frame.pop(2 + words(store.typeKind()));
            case NewObjectInstruction _ -> frame.push(0);
            case NewPrimitiveArrayInstruction _ -> replace(frame, 1, 1);
            case NewReferenceArrayInstruction _ -> replace(frame, 1, 1);
            case NewMultiArrayInstruction made -> replace(frame, made.dimensions(), 1);
            case TypeCheckInstruction check -> {
                // A cast leaves the value what it is.
                if (check.opcode() == Opcode.INSTANCEOF) {
                    replace(frame, 1, 1);
                }
            }
            case OperatorInstruction operator -> operator(frame, operator);
            case StackInstruction shuffle -> shuffle(frame, shuffle.opcode());
            case BranchInstruction branch -> frame.pop(popped(branch.opcode()));
            case MonitorInstruction _ -> frame.pop(1);
            case LookupSwitchInstruction _ -> frame.pop(1);
            case TableSwitchInstruction _ -> frame.pop(1);
            case ThrowInstruction _ -> frame.pop(1);
            case ReturnInstruction end -> frame.pop(words(end.typeKind()));
            case IncrementInstruction increment -> frame.locals[increment.slot()] = 0;
            case NopInstruction _ -> {}
            default ->
                throw new IllegalArgumentException(
                        "the instruction " + instruction.opcode() + " is of class files before Java 7");
        }
    }

    /// Whether it may throw. What it throws when the stack or the memory is used up is not considered.
    public static boolean mayThrow(Instruction instruction) {
        return switch (instruction) {
            case LoadInstruction _ -> false;
            case StoreInstruction _ -> false;
            case IncrementInstruction _ -> false;
            case ConstantInstruction _ -> false;
            case ConvertInstruction _ -> false;
            case StackInstruction _ -> false;
            case BranchInstruction _ -> false;
            case LookupSwitchInstruction _ -> false;
            case TableSwitchInstruction _ -> false;
            case NopInstruction _ -> false;
            case ReturnInstruction _ -> false;
            // Of compilers' own code for resources, which they do not guard; it is called with another
            // exception.
            case InvokeInstruction call ->
                !call.owner().asInternalName().equals("java/lang/Throwable")
                        || !call.name().equalsString("addSuppressed");
            case OperatorInstruction operator ->
                switch (operator.opcode()) {
                    case IDIV, LDIV, IREM, LREM, ARRAYLENGTH -> true;
                    default -> false;
                };
            default -> true;
        };
    }

    public static int words(TypeKind kind) {
        return kind.slotSize();
    }

    public static int words(ClassDesc type) {
        return TypeKind.from(type).slotSize();
    }

    /// `I`, `J`, `F`, `D` or `L`.
    public static char letter(TypeKind kind) {
        return switch (kind.asLoadable()) {
            case INT -> 'I';
            case LONG -> 'J';
            case FLOAT -> 'F';
            case DOUBLE -> 'D';
            default -> 'L';
        };
    }

    private static void replace(Frame frame, int popped, int pushed) {
        frame.pop(popped);
        frame.push(0, pushed);
    }

    private static void store(Frame frame, StoreInstruction store) {
        int slot = store.slot();
        int words = words(store.typeKind());
        int origin = frame.pop();
        frame.pop(words - 1);
        frame.locals[slot] = origin;
        frame.kinds[slot] = letter(store.typeKind());
        if (words == 2) {
            frame.locals[slot + 1] = 0;
            frame.kinds[slot + 1] = 0;
        }
        // The upper half of a value that began below is no value any more.
        if (slot > 0 && (frame.kinds[slot - 1] == 'J' || frame.kinds[slot - 1] == 'D')) {
            frame.kinds[slot - 1] = 0;
        }
    }

    private static void field(Frame frame, FieldInstruction field) {
        int words = words(field.typeSymbol());
        switch (field.opcode()) {
            case GETSTATIC -> frame.push(0, words);
            case PUTSTATIC -> frame.pop(words);
            case GETFIELD -> replace(frame, 1, words);
            default -> frame.pop(1 + words);
        }
    }

    private static void call(Frame frame, MethodTypeDesc descriptor) {
        for (ClassDesc parameter : descriptor.parameterArray()) {
            frame.pop(words(parameter));
        }
        frame.push(0, words(descriptor.returnType()));
    }

    private static void operator(Frame frame, OperatorInstruction operator) {
        int words = words(operator.typeKind());
        switch (operator.opcode()) {
            case ARRAYLENGTH -> replace(frame, 1, 1);
            case INEG, LNEG, FNEG, DNEG -> {}
            case ISHL, ISHR, IUSHR, LSHL, LSHR, LUSHR -> frame.pop(1);
            case LCMP, DCMPG, DCMPL -> replace(frame, 4, 1);
            case FCMPG, FCMPL -> replace(frame, 2, 1);
            default -> replace(frame, 2 * words, words);
        }
    }

    private static void shuffle(Frame frame, Opcode opcode) {
        switch (opcode) {
            case POP -> frame.pop(1);
            case POP2 -> frame.pop(2);
            case DUP -> frame.duplicate(1, 0);
            case DUP_X1 -> frame.duplicate(1, 1);
            case DUP_X2 -> frame.duplicate(1, 2);
            case DUP2 -> frame.duplicate(2, 0);
            case DUP2_X1 -> frame.duplicate(2, 1);
            case DUP2_X2 -> frame.duplicate(2, 2);
            default -> { // SWAP
                int upper = frame.pop();
                int lower = frame.pop();
                frame.push(upper);
                frame.push(lower);
            }
        }
    }

    /// Returns the number of words that a branch takes off the stack.
    private static int popped(Opcode opcode) {
        return switch (opcode) {
            case GOTO, GOTO_W -> 0;
            case IF_ICMPEQ, IF_ICMPNE, IF_ICMPLT, IF_ICMPGE, IF_ICMPGT, IF_ICMPLE, IF_ACMPEQ, IF_ACMPNE -> 2;
            default -> 1;
        };
    }
}
