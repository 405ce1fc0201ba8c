package cedrat.persist.weave;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.classfile.AttributeMapper;
import java.lang.classfile.AttributedElement;
import java.lang.classfile.BufWriter;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.ClassReader;
import java.lang.classfile.ClassTransform;
import java.lang.classfile.CustomAttribute;
import java.lang.constant.ClassDesc;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;

/// The attribute `cedrat.Woven` of a class that a build has woven.
///
/// Its first three parts have the same form in each version.
///
/// It refers to no constants of the class, so that other tools copy it as it is.
///
/// **Threads:** any.
final class WovenAttribute extends CustomAttribute<WovenAttribute> {
    private static final String NAME = "cedrat.Woven";
    private static final byte[] NAME_BYTES = NAME.getBytes(StandardCharsets.UTF_8);
    private static final Mapper MAPPER = new Mapper();
    private static final ClassFile CLASS_FILE =
            ClassFile.of(ClassFile.AttributeMapperOption.of(name -> name.equalsString(NAME) ? MAPPER : null));

    /// Why a class with barriers and without the attribute is refused: it would get its barriers twice.
    static final String REMOVED = "it has barriers, but another tool has removed its attribute " + NAME
            + ": let that tool keep the attribute, or weave the class afterwards";

    /// The version of the weaver.
    final String version;
    /// The internal name of the class.
    final String name;
    /// A checksum of the class as it was compiled.
    final long original;
    /// Choices of the agent's arguments that concern the class ([Classes#choices]).
    final Map<String, String> choices;
    /// The fields that the class reads by methods ([ReadFields]).
    final List<Accessors.Field> readFields;

    WovenAttribute(
            String version, String name, long original, Map<String, String> choices, List<Accessors.Field> readFields) {
        super(MAPPER);
        this.version = version;
        this.name = name;
        this.original = original;
        this.choices = choices;
        this.readFields = readFields;
    }

    /// Loads the classes that reading an attribute needs.
    static void prepare() {
        try {
            byte[] content = new WovenAttribute(WeaverVersion.get(), "", 0, Map.of(), List.of()).content();
            read(new DataInputStream(new ByteArrayInputStream(content)));
        } catch (IOException e) {
            throw new UncheckedIOException("cannot prepare for classes that a build has woven", e);
        }
    }

    /// Returns the attribute of a class, or null: no build has woven it.
    static WovenAttribute of(byte[] type) {
        return mayBeIn(type) ? find(CLASS_FILE.parse(type)) : null;
    }

    private static WovenAttribute find(ClassModel type) {
        return type.findAttribute(MAPPER).orElse(null);
    }

    /// Whether bytes contain the name of the attribute: classes of the application are many, and to skip the methods
    /// of one takes longer.
    private static boolean mayBeIn(byte[] type) {
        for (int i = 0; i <= type.length - NAME_BYTES.length; i++) {
            int at = 0;
            while (at < NAME_BYTES.length && type[i + at] == NAME_BYTES[at]) {
                at++;
            }
            if (at == NAME_BYTES.length) {
                return true;
            }
        }
        return false;
    }

    /// Returns a checksum of a class file.
    static long checksum(byte[] type) {
        CRC32 one = new CRC32();
        one.update(type);
        CRC32C other = new CRC32C();
        other.update(type);
        return one.getValue() << Integer.SIZE | other.getValue();
    }

    /// Whether a weaver of this version and with these arguments would weave the class in the same way.
    boolean isSame(Classes classes, ClassLoader loader, ClassModel type) {
        return difference(classes, loader, type) == null;
    }

    /// @throws IllegalArgumentException if a weaver of this version and with these arguments would weave the class
    ///                                  otherwise, or if another tool has renamed it
    void check(Classes classes, ClassLoader loader, ClassModel type) {
        String difference = difference(classes, loader, type);
        if (difference != null) {
            throw new IllegalArgumentException(difference);
        }
    }

    private String difference(Classes classes, ClassLoader loader, ClassModel type) {
        if (!version.equals(WeaverVersion.get())) {
            return "a build has woven it with another version of Cedrat: run a clean build with the version of the agent, "
                    + "as with `mvn clean package`";
        }
        if (!type.thisClass().name().equalsString(name)) {
            return "another tool has renamed it from " + name.replace('/', '.')
                    + " after a build has woven it: rename classes before they are woven, or leave it to the agent";
        }
        for (Map.Entry<String, String> built : choices.entrySet()) {
            String concerned = built.getKey();
            String chosen = classes.choice(loader, concerned);
            if (!built.getValue().equals(chosen)) {
                return "a build has woven it with other arguments: "
                        + (concerned.isEmpty() ? "" : concerned.replace('/', '.') + " is ") + "`" + built.getValue()
                        + "` in the build, `" + chosen
                        + "` by the agent. Run a clean build with the agent's arguments, "
                        + "or give the agent those of the build";
            }
        }
        return null;
    }

    /// Returns a class with this attribute.
    byte[] addedTo(byte[] type) {
        return CLASS_FILE.transformClass(
                CLASS_FILE.parse(type), ClassTransform.endHandler(builder -> builder.with(this)));
    }

    private byte[] content() throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeUTF(version);
        out.writeUTF(name);
        out.writeLong(original);
        out.writeInt(choices.size());
        for (Map.Entry<String, String> choice : choices.entrySet()) {
            out.writeUTF(choice.getKey());
            out.writeUTF(choice.getValue());
        }
        out.writeInt(readFields.size());
        for (Accessors.Field field : readFields) {
            out.writeUTF(field.owner().descriptorString());
            out.writeUTF(field.name());
            out.writeUTF(field.type().descriptorString());
            out.writeUTF(field.parameter().descriptorString());
            out.writeBoolean(field.isLocked());
        }
        return bytes.toByteArray();
    }

    /// Reads no more than the first three parts if the version is another one: what follows may have another form.
    private static WovenAttribute read(DataInputStream in) throws IOException {
        String version = in.readUTF();
        String name = in.readUTF();
        long original = in.readLong();
        Map<String, String> choices = new LinkedHashMap<>();
        List<Accessors.Field> readFields = new ArrayList<>();
        if (version.equals(WeaverVersion.get())) {
            for (int i = in.readInt(); i > 0; i--) {
                choices.put(in.readUTF(), in.readUTF());
            }
            for (int i = in.readInt(); i > 0; i--) {
                readFields.add(new Accessors.Field(
                        ClassDesc.ofDescriptor(in.readUTF()),
                        in.readUTF(),
                        ClassDesc.ofDescriptor(in.readUTF()),
                        ClassDesc.ofDescriptor(in.readUTF()),
                        in.readBoolean()));
            }
        }
        return new WovenAttribute(version, name, original, choices, readFields);
    }

    private static final class Mapper implements AttributeMapper<WovenAttribute> {
        @Override
        public String name() {
            return NAME;
        }

        @Override
        public WovenAttribute readAttribute(AttributedElement enclosing, ClassReader reader, int at) {
            // The length stands before the content.
            byte[] content = reader.readBytes(at, reader.readInt(at - Integer.BYTES));
            try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(content))) {
                return read(in);
            } catch (IOException e) {
                throw new IllegalArgumentException("invalid attribute " + NAME + ": run the build again", e);
            }
        }

        @Override
        public void writeAttribute(BufWriter out, WovenAttribute attribute) {
            try {
                byte[] content = attribute.content();
                out.writeIndex(out.constantPool().utf8Entry(NAME));
                out.writeInt(content.length);
                out.writeBytes(content);
            } catch (IOException e) {
                throw new UncheckedIOException("cannot write the attribute " + NAME, e);
            }
        }

        @Override
        public AttributeStability stability() {
            return AttributeStability.STATELESS;
        }
    }
}
