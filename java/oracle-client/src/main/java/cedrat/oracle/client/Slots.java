package cedrat.oracle.client;

import cedrat.oracle.protocol.Protocol;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.function.Consumer;

/// Slots of a pipeline: its requests that were not answered. For one thread at a time.
final class Slots<T> {
    private static final int FIRST = 16;

    private Slot<T>[] slots = newSlots(FIRST);
    private int count;
    private final ArrayDeque<Slot<T>> free = new ArrayDeque<>();
    private int outstanding;

    @SuppressWarnings("unchecked")
    private static <T> Slot<T>[] newSlots(int count) {
        return (Slot<T>[]) new Slot<?>[count];
    }

    /// Returns the number of requests that were not answered. The requests of a batch count, and the batch does not.
    int outstanding() {
        return outstanding;
    }

    /// Takes a slot.
    Slot<T> take(byte kind, T tag, long start) {
        Slot<T> slot = free.isEmpty() ? make() : free.pop();
        slot.kind = kind;
        slot.tag = tag;
        slot.start = start;
        outstanding += kind == Protocol.BATCH ? 0 : 1;
        return slot;
    }

    private Slot<T> make() {
        if (count == slots.length) {
            slots = Arrays.copyOf(slots, 2 * count);
        }
        Slot<T> slot = new Slot<>(count);
        slots[count++] = slot;
        return slot;
    }

    /// Gives a slot back.
    void give(Slot<T> slot) {
        outstanding -= slot.kind == Protocol.BATCH ? 0 : 1;
        slot.kind = 0;
        slot.tag = null;
        slot.isInternal = false;
        slot.outage = null;
        slot.memberCount = 0;
        slot.cleaned = 0;
        slot.uses++;
        slot.frame.clear();
        free.push(slot);
    }

    /// Returns the slot of a request that was not answered; `null` if there is none with this number.
    Slot<T> find(long id) {
        int index = (int) id;
        if (index < 0 || index >= count || slots[index].kind == 0 || slots[index].id() != id) {
            return null;
        }
        return slots[index];
    }

    /// Calls `each` for all requests that were not answered, and for batches, but not for requests that it makes.
    void forEach(Consumer<Slot<T>> each) {
        int known = count;
        int[] uses = new int[known];
        for (int index = 0; index < known; index++) {
            uses[index] = slots[index].uses;
        }
        for (int index = 0; index < known; index++) {
            Slot<T> slot = slots[index];
            if (slot.kind != 0 && slot.uses == uses[index]) {
                each.accept(slot);
            }
        }
    }
}
