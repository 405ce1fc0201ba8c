package cedrat.persist.codec;

import cedrat.persist.StoreException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;

/// The definition of a class, as a store keeps it beside the objects (docs/formats/java-objects.md).
///
/// @param version    of a logical form; of an object's class whether it is abstract; otherwise 0
/// @param superclass the number of the superclass, if that is woven too; otherwise 0
/// @param name       of a class, an array's class, or a logical form
/// @param members    the class's own fields that last, or an enum's constants
public record StoredClass(Kind kind, int version, int superclass, String name, List<Member> members) {
    private static final int FORMAT = 1;
    /// The version of an object's class that was defined before definitions said whether it is abstract.
    public static final int UNSAID = 0;
    /// That of one that may have objects of its own.
    public static final int CONCRETE = 1;
    /// That of one that has none: it is defined for its subclasses.
    public static final int ABSTRACT = 2;

    /// Structure of a class's objects.
    public enum Kind {
        /// Fields.
        OBJECT(1),
        /// Fields, of a record.
        RECORD(2),
        /// Constants, which are no objects of the store.
        ENUM(3),
        /// Elements.
        ARRAY(4),
        /// As documented for a class of the JDK.
        FORM(5);

        private final int number;

        Kind(int number) {
            this.number = number;
        }

        /// Returns the kind of the objects of a class of the program; null: it is an interface.
        public static Kind of(Class<?> type) {
            if (type.isInterface()) {
                return null;
            }
            if (type.isEnum()) {
                return ENUM;
            }
            return type.isRecord() ? RECORD : OBJECT;
        }

        /// Returns the word for a kind; null: it is an interface.
        public static String word(Kind kind) {
            return switch (kind) {
                case RECORD -> "record";
                case ENUM -> "enum";
                case null -> "interface";
                default -> "class";
            };
        }

        /// Returns the word for a kind with its article.
        public static String article(Kind kind) {
            return (kind == ENUM || kind == null ? "an " : "a ") + word(kind);
        }

        private static Kind of(int number) {
            for (Kind kind : values()) {
                if (kind.number == number) {
                    return kind;
                }
            }
            return null;
        }
    }

    /// A field, or a constant of an enum.
    ///
    /// @param descriptor the field's type; empty for a constant
    public record Member(String name, String descriptor) {
        public boolean isPrimitive() {
            return descriptor.length() == 1;
        }
    }

    /// Whether a class is as an older definition says, with its fields in any order.
    public boolean isSameAs(StoredClass older) {
        return kind == older.kind
                && (version == older.version || older.version == UNSAID)
                && superclass == older.superclass
                && name.equals(older.name)
                && members.size() == older.members.size()
                && new HashSet<>(members).equals(new HashSet<>(older.members));
    }

    /// Its bytes.
    public byte[] bytes() {
        List<byte[]> texts = new ArrayList<>();
        texts.add(name.getBytes(StandardCharsets.UTF_8));
        for (Member member : members) {
            texts.add(member.name.getBytes(StandardCharsets.UTF_8));
            texts.add(member.descriptor.getBytes(StandardCharsets.UTF_8));
        }
        int length = 12;
        for (byte[] text : texts) {
            if (text.length > 0xffff) {
                throw new StoreException(
                        "the name of a class or field has " + text.length + " bytes, and 65535 are possible: " + name);
            }
            length += 2 + text.length;
        }
        ByteBuffer out = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
        out.put((byte) FORMAT).put((byte) kind.number).putShort((short) version);
        out.putInt(superclass).putInt(members.size());
        for (byte[] text : texts) {
            out.putShort((short) text.length).put(text);
        }
        return out.array();
    }

    /// @throws StoreException if these are no definition's bytes
    public static StoredClass parse(int number, byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        try {
            int format = in.get();
            Kind kind = Kind.of(in.get());
            if (format != FORMAT || kind == null) {
                throw new StoreException("the definition of class " + number + " has format " + format
                        + ", which this version of Cedrat does not know: use the version that has written it");
            }
            int version = in.getShort() & 0xffff;
            int superclass = in.getInt();
            int count = in.getInt();
            String name = text(in);
            List<Member> members = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                members.add(new Member(text(in), text(in)));
            }
            if (in.hasRemaining() || superclass < 0 || superclass >= number) {
                throw damaged(number);
            }
            return new StoredClass(kind, version, superclass, name, List.copyOf(members));
        } catch (BufferUnderflowException e) {
            throw damaged(number);
        }
    }

    private static StoreException damaged(int number) {
        return new StoreException("the definition of class " + number
                + " is damaged: run `cedrat verify`, and restore the store from a " + "copy");
    }

    private static String text(ByteBuffer in) {
        byte[] bytes = new byte[in.getShort() & 0xffff];
        in.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
