package cedrat.persist.codec;

import java.util.ArrayList;
import java.util.List;

/// The constants of an enum that a store knows: by name, because their order changes. They are no objects of
/// the store; a reference to one is a word.
///
/// **Threads:** any.
public final class EnumShape extends Shape {
    private final String name;
    private final List<String> names;
    /// By their numbers in the definition; null of one that is no more.
    private final Enum<?>[] constants;

    /// @param name  the class's name in the store
    /// @param names those of the constants in the store
    public EnumShape(String name, List<String> names, Enum<?>[] constants) {
        this.name = name;
        this.names = names;
        this.constants = constants;
    }

    @Override
    public StoredClass definition() {
        List<StoredClass.Member> members = new ArrayList<>();
        for (String constant : names) {
            members.add(new StoredClass.Member(constant, ""));
        }
        return new StoredClass(StoredClass.Kind.ENUM, 0, 0, name, members);
    }

    /// The number of a constant, or -1.
    public int find(Enum<?> constant) {
        int likely = constant.ordinal();
        if (likely < constants.length && constants[likely] == constant) {
            return likely;
        }
        for (int i = 0; i < constants.length; i++) {
            if (constants[i] == constant) {
                return i;
            }
        }
        return -1;
    }

    /// @return null if there is none
    public Enum<?> constant(int number) {
        return number < constants.length ? constants[number] : null;
    }

    @Override
    public void write(Object object, ObjectWriter out) {
        throw new AssertionError("constants of enums are no objects of a store");
    }

    @Override
    public Object create(ObjectBytes in) {
        throw in.damaged("it has the class of an enum");
    }

    @Override
    public Object fill(Object created, ObjectBytes in, Object[] references) {
        throw in.damaged("it has the class of an enum");
    }

    @Override
    public String step(Object object, int reference) {
        throw new AssertionError("constants of enums are no objects of a store");
    }
}
