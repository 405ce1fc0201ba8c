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
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/// The attribute `cedrat.Woven` of a class that a build has woven.
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

    /// The version of the weaver.
    final String version;
    /// Choices of the agent's arguments for the classes whose fields the class reads and writes ([Classes#choices]).
    final Map<String, String> choices;
    /// The fields that the class reads by methods ([ReadFields]).
    final List<Accessors.Field> readFields;

    WovenAttribute(String version, Map<String, String> choices, List<Accessors.Field> readFields) {
        super(MAPPER);
        this.version = version;
        this.choices = choices;
        this.readFields = readFields;
    }

    /// Loads the classes that reading an attribute needs.
    static void prepare() {
        try {
            byte[] content = new WovenAttribute(WeaverVersion.get(), Map.of(), List.of()).content();
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

    /// Whether a weaver of this version and with these arguments would weave the class in the same way.
    boolean isSame(Classes classes, ClassLoader loader) {
        return difference(classes, loader) == null;
    }

    /// @throws IllegalArgumentException if a weaver of this version and with these arguments would weave the class
    ///                                  otherwise
    void check(Classes classes, ClassLoader loader) {
        String difference = difference(classes, loader);
        if (difference != null) {
            throw new IllegalArgumentException(difference);
        }
    }

    private String difference(Classes classes, ClassLoader loader) {
        if (!version.equals(WeaverVersion.get())) {
            return "a build has woven it with another version of Cedrat: run a clean build with the version of the agent, "
                    + "as with `mvn clean package`";
        }
        for (Map.Entry<String, String> built : choices.entrySet()) {
            String name = built.getKey();
            String chosen = classes.choice(loader, name);
            if (!built.getValue().equals(chosen)) {
                return "a build has woven it with other arguments: "
                        + (name.isEmpty() ? "" : name.replace('/', '.') + " is ") + "`" + built.getValue()
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

    /// Reads no more than the version if that is another one: what follows may have another form.
    private static WovenAttribute read(DataInputStream in) throws IOException {
        String version = in.readUTF();
        Map<String, String> choices = new TreeMap<>();
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
        return new WovenAttribute(version, choices, readFields);
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
