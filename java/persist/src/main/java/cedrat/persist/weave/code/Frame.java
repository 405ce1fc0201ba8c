package cedrat.persist.weave.code;

import java.util.Arrays;

/// Known state of a method's locals and stack before one of its instructions.
///
/// Values of 64 bits take two words of the stack, as the instructions that shuffle it see them. Of a word it
/// is known which call of [cedrat.persist.Transaction#begin()] has returned it: its number from 1 on, or 0 for anything
/// else.
public final class Frame {
    /// Kind of value of each local, or 0: unknown.
    public final char[] kinds;
    /// Origins of the values of locals.
    public final int[] locals;

    private int[] stack = new int[8];
    private int depth;
    /// The calls of `begin` whose transactions may not be closed yet, as bits.
    public long open;

    public Frame(int locals) {
        kinds = new char[locals];
        this.locals = new int[locals];
    }

    private Frame(Frame other) {
        kinds = other.kinds.clone();
        locals = other.locals.clone();
        stack = other.stack.clone();
        depth = other.depth;
        open = other.open;
    }

    public Frame copy() {
        return new Frame(this);
    }

    /// This, at a handler of exceptions.
    public Frame thrown() {
        Frame frame = copy();
        frame.depth = 0;
        frame.push(0);
        return frame;
    }

    public boolean isOpen(int site) {
        return (open & 1L << site) != 0;
    }

    public void push(int origin) {
        if (depth == stack.length) {
            stack = Arrays.copyOf(stack, 2 * depth);
        }
        stack[depth++] = origin;
    }

    /// Values of which nothing is known.
    public void push(int origin, int words) {
        for (int i = 0; i < words; i++) {
            push(origin);
        }
    }

    public int pop() {
        return stack[--depth];
    }

    public void pop(int words) {
        depth -= words;
    }

    /// The origin of the word that lies below `words` others.
    public int peek(int words) {
        return stack[depth - 1 - words];
    }

    /// Returns the number of words on the stack.
    public int depth() {
        return depth;
    }

    /// Returns the origins of the words above so many others.
    public int[] above(int words) {
        return Arrays.copyOfRange(stack, words, Math.max(words, depth));
    }

    /// The instructions `dup…`: copies the uppermost `words` below the `under` words under them.
    public void duplicate(int words, int under) {
        int[] upper = new int[words];
        int[] lower = new int[under];
        for (int i = words - 1; i >= 0; i--) {
            upper[i] = pop();
        }
        for (int i = under - 1; i >= 0; i--) {
            lower[i] = pop();
        }
        for (int[] part : new int[][] {upper, lower, upper}) {
            for (int origin : part) {
                push(origin);
            }
        }
    }

    /// Merges the state of `other` into this one, for an instruction that both lead to.
    ///
    /// @return whether less is known than before
    public boolean meet(Frame other) {
        boolean isLess = (open | other.open) != open;
        open |= other.open;
        for (int i = 0; i < locals.length; i++) {
            if (locals[i] != 0 && locals[i] != other.locals[i]) {
                locals[i] = 0;
                isLess = true;
            }
            if (kinds[i] != 0 && kinds[i] != other.kinds[i]) {
                kinds[i] = 0;
                isLess = true;
            }
        }
        for (int i = 0; i < depth; i++) {
            if (stack[i] != 0 && stack[i] != other.stack[i]) {
                stack[i] = 0;
                isLess = true;
            }
        }
        return isLess;
    }
}
