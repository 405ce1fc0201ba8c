package cedrat.persist.weave;

import cedrat.persist.weave.code.Code;
import cedrat.persist.weave.code.Frame;
import cedrat.persist.weave.code.InstructionEffects;
import cedrat.persist.weave.code.Probes;
import java.lang.classfile.ClassModel;
import java.lang.classfile.CodeModel;
import java.lang.classfile.Instruction;
import java.lang.classfile.MethodModel;
import java.lang.classfile.Opcode;
import java.lang.classfile.TypeKind;
import java.lang.classfile.attribute.CodeAttribute;
import java.lang.classfile.instruction.IncrementInstruction;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.classfile.instruction.ReturnInstruction;
import java.lang.classfile.instruction.StoreInstruction;
import java.lang.classfile.instruction.TypeCheckInstruction;
import java.lang.reflect.AccessFlag;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Set;

/// Begin and close of a method's transactions, and the locals that they change: found by following the
/// flow of control and of values through its instructions. Tables for debuggers, which compilers leave out,
/// are not read.
///
/// - When a scope was rolled back, the locals that it assigns have the values with which it began. A
///   transaction is closed on each way out of the method that began it, or the class does not load.
///
/// A local is restored if it has a value for certain when the transaction begins, and lies below the local in
/// which the transaction itself is kept: compilers give out locals as variables come into scope, so what lies
/// above is declared inside of the transaction. A value that a variable has left there which is gone is none: at
/// the handler that closes the transaction, whatever happens, the compiler says which locals had one when it
/// began. A local in which a handler stores the exception that it has
/// caught is not restored: it is declared by a `catch`, or is a compiler's own, for the exception that is to
/// leave the scope.
///
/// **Threads:** one.
final class Scopes {
    /// The bits of a long, and 0 is none.
    private static final int SITES_MAX = 63;

    /// Types of a transaction.
    private static final Set<String> TYPES =
            Set.of("cedrat/persist/Transaction", "java/lang/AutoCloseable", "java/lang/Object");

    private static final Set<String> KOTLINS_CLOSE = Set.of("kotlin/AutoCloseableKt", "kotlin/jdk7/AutoCloseableKt");

    /// A local that a scope assigns.
    record Local(int slot, char kind) {}

    private final String place;
    private final Code code;
    /// The assignments of JaCoCo, which throw nothing. It puts one between the begin of a transaction and the `try`.
    private final BitSet probes;
    private final int[] sites;
    private final List<Integer> begins = new ArrayList<>();
    private final Frame[] frames;
    private final ArrayDeque<Integer> pending = new ArrayDeque<>();
    private final List<List<Local>> saved = new ArrayList<>();

    /// @throws UnstructuredException    if a transaction is not closed on each way out
    /// @throws IllegalArgumentException if the code has instructions that no compiler writes any more
    Scopes(ClassModel type, MethodModel method, CodeModel model) throws UnstructuredException {
        place = type.thisClass().asInternalName().replace('/', '.') + "."
                + method.methodName().stringValue() + method.methodTypeSymbol().displayDescriptor();
        this.code = new Code(model);
        probes = Probes.in(type, model);
        sites = new int[code.size()];
        findBegins();
        frames = new Frame[code.size()];
        if (!begins.isEmpty()) {
            follow(method, ((CodeAttribute) model).maxLocals());
            for (int site = 1; site <= begins.size(); site++) {
                saved.add(assigned(site));
            }
        }
    }

    /// Whether there is anything to restore.
    boolean hasLocals() {
        return saved.stream().anyMatch(locals -> !locals.isEmpty());
    }

    /// Which call of `begin` an instruction is, from 1 on, or 0.
    int begin(int instruction) {
        return sites[instruction];
    }

    /// Which transaction an instruction closes, or 0.
    int closed(int instruction) {
        Frame frame = frames[instruction];
        boolean isKotlins = frame != null && isKotlinsClose(instruction);
        return isKotlins ? frame.peek(1) : receiver(instruction, "close");
    }

    /// Whether an instruction calls the function by which Kotlin's `use` closes its receiver. Its second argument is
    /// the exception with which the scope ends.
    boolean isKotlinsClose(int instruction) {
        return code.instruction(instruction) instanceof InvokeInstruction call
                && call.opcode() == Opcode.INVOKESTATIC
                && call.name().equalsString("closeFinally")
                && KOTLINS_CLOSE.contains(call.owner().asInternalName());
    }

    /// Which transaction an instruction rolls back, or 0.
    int rolledBack(int instruction) {
        return receiver(instruction, "rollback");
    }

    /// The locals that the scope of a transaction assigns.
    List<Local> locals(int site) {
        return saved.get(site - 1);
    }

    private int receiver(int instruction, String name) {
        Frame frame = frames[instruction];
        return frame != null && isCall(code.instruction(instruction), name) ? frame.peek(0) : 0;
    }

    private static boolean isCall(Instruction instruction, String name) {
        return instruction instanceof InvokeInstruction call
                && call.opcode() != Opcode.INVOKESTATIC
                && call.name().equalsString(name)
                && call.type().equalsString("()V");
    }

    private void findBegins() throws UnstructuredException {
        for (int i = 0; i < code.size(); i++) {
            if (code.instruction(i) instanceof InvokeInstruction call
                    && call.opcode() == Opcode.INVOKESTATIC
                    && call.owner().asInternalName().equals("cedrat/persist/Transaction")
                    && call.name().equalsString("begin")) {
                begins.add(i);
                sites[i] = begins.size();
            }
        }
        if (begins.size() > SITES_MAX) {
            throw new UnstructuredException(
                    place + " begins transactions at more than " + SITES_MAX + " places: split the method");
        }
    }

    // ---- the flow

    private void follow(MethodModel method, int localsMax) throws UnstructuredException {
        Frame first = new Frame(localsMax);
        int slot = 0;
        if (!method.flags().has(AccessFlag.STATIC)) {
            first.kinds[slot++] = 'L';
        }
        for (var parameter : method.methodTypeSymbol().parameterArray()) {
            var kind = TypeKind.from(parameter);
            first.kinds[slot] = InstructionEffects.letter(kind);
            slot += kind.slotSize();
        }
        arrive(0, first);
        while (!pending.isEmpty()) {
            step(pending.poll());
        }
    }

    private void step(int at) throws UnstructuredException {
        Instruction instruction = code.instruction(at);
        Frame after = frames[at].copy();
        int closed = closed(at);
        InstructionEffects.apply(after, instruction);
        if (closed != 0) {
            after.open &= ~(1L << closed);
        }
        if (InstructionEffects.mayThrow(instruction) && !isUpcast(at) && !probes.get(at)) {
            Frame thrown = frames[at].thrown();
            thrown.open = after.open;
            raise(at, thrown);
        }
        if (sites[at] != 0) {
            if (after.isOpen(sites[at])) {
                throw unclosed(sites[at], "it is begun again before it is closed");
            }
            after.open |= 1L << sites[at];
            after.pop();
            after.push(sites[at]);
        }
        leave(at, instruction, after);
    }

    /// Whether an instruction casts a transaction to a type that it has, as compilers of other languages do.
    private boolean isUpcast(int at) {
        return code.instruction(at) instanceof TypeCheckInstruction cast
                && cast.opcode() == Opcode.CHECKCAST
                && frames[at].peek(0) != 0
                && TYPES.contains(cast.type().asInternalName());
    }

    private void raise(int at, Frame thrown) throws UnstructuredException {
        for (Code.Handler handler : code.handlers()) {
            if (handler.covers(at)) {
                arrive(handler.at(), thrown);
                if (handler.catchesAll()) {
                    return;
                }
            }
        }
        end(thrown, at, "an exception may leave the method");
    }

    private void leave(int at, Instruction instruction, Frame after) throws UnstructuredException {
        if (instruction instanceof ReturnInstruction) {
            end(after, at, "the method may return");
        }
        for (int next : code.next(at)) {
            if (!isNullOnly(at, instruction, next)) {
                arrive(next, after);
            }
        }
    }

    /// `begin` does not return null, for which compilers look before they close.
    private boolean isNullOnly(int at, Instruction instruction, int next) {
        boolean looksForNull = instruction.opcode() == Opcode.IFNULL || instruction.opcode() == Opcode.IFNONNULL;
        boolean isJump = next != at + 1;
        return looksForNull && frames[at].peek(0) != 0 && isJump == (instruction.opcode() == Opcode.IFNULL);
    }

    private void arrive(int at, Frame frame) {
        if (frames[at] == null) {
            frames[at] = frame.copy();
            pending.add(at);
            return;
        }
        if (frames[at].meet(frame)) {
            pending.add(at);
        }
    }

    private void end(Frame frame, int at, String how) throws UnstructuredException {
        if (frame.open != 0) {
            throw unclosed(Long.numberOfTrailingZeros(frame.open), how + " at " + code.place(at));
        }
    }

    private UnstructuredException unclosed(int site, String why) {
        return new UnstructuredException(place + ": the transaction that begins at "
                + code.place(begins.get(site - 1)) + " is not closed on each way out of the method, " + why
                + ": write try (var transaction = Transaction.begin()) { … }");
    }

    // ---- locals

    private List<Local> assigned(int site) {
        int begin = begins.get(site - 1);
        int stored = begin + 1 < code.size() && isUpcast(begin + 1) ? begin + 2 : begin + 1;
        // The local of the transaction itself.
        int limit = stored < code.size() && code.instruction(stored) instanceof StoreInstruction store
                ? store.slot()
                : Integer.MAX_VALUE;
        BitSet entries = new BitSet();
        code.handlers().forEach(handler -> entries.set(handler.at()));
        BitSet caught = new BitSet();
        char[] kinds = new char[frames[begin].kinds.length];
        for (int i = 0; i < code.size(); i++) {
            if (frames[i] == null || !frames[i].isOpen(site)) {
                continue;
            }
            if (code.instruction(i) instanceof StoreInstruction store) {
                kinds[store.slot()] = InstructionEffects.letter(store.typeKind());
                if (entries.get(i)) {
                    caught.set(store.slot());
                }
            } else if (code.instruction(i) instanceof IncrementInstruction increment) {
                kinds[increment.slot()] = 'I';
            }
        }
        List<Local> locals = new ArrayList<>();
        for (int slot = 0; slot < Math.min(limit, kinds.length); slot++) {
            boolean isChanged = kinds[slot] != 0 && kinds[slot] == frames[begin].kinds[slot];
            if (isChanged && !caught.get(slot) && hasValueWhereClosed(stored, slot)) {
                locals.add(new Local(slot, kinds[slot]));
            }
        }
        return locals;
    }

    /// Whether a local may have a value at the handlers of the scope whose transaction is stored here.
    private boolean hasValueWhereClosed(int stored, int slot) {
        int next = afterProbe(stored + 1);
        // Kotlin first sets the local to null in which it keeps the exception that ends the scope.
        boolean mayBeKotlins = code.instruction(next).opcode() == Opcode.ACONST_NULL;
        // A `try` around the begin has begun with fewer values.
        return code.handlers().stream()
                .filter(handler ->
                        handler.from() > stored && (handler.covers(next) || mayBeKotlins && handler.covers(next + 2)))
                .allMatch(handler -> code.mayHaveValue(handler.at(), slot));
    }

    /// Returns the first instruction that is not of a probe: an array, an index, and a value are loaded and stored.
    private int afterProbe(int at) {
        return probes.get(at + 3) ? at + 4 : at;
    }
}
