package cedrat.persist.form;

import cedrat.persist.StoreException;
import cedrat.persist.boot.Persistable;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InvalidObjectException;
import java.io.ObjectInputFilter;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.Serializable;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/// Objects that their class has once in each process, as serialisation knows by `writeReplace` or `readResolve`:
/// their serialised bytes. Whether an object is one is tried: it is read back, and has to be the same.
final class CanonicalForm extends ConstantForm {
    /// An object with more bytes is none: it has content of its own.
    private static final int BYTES_MAX = 1024;

    /// Classes of which an object was read back as another one.
    private final Set<Class<?>> others = ConcurrentHashMap.newKeySet();

    CanonicalForm(Forms forms) {
        super("java.io.Serializable", forms);
    }

    /// Whether an object of a class may come back as itself.
    boolean mayContain(Class<?> type) {
        return Persistable.class.isAssignableFrom(type)
                && Serializable.class.isAssignableFrom(type)
                && !Enum.class.isAssignableFrom(type)
                && !Collection.class.isAssignableFrom(type)
                && !Map.class.isAssignableFrom(type)
                && StaticFinals.replacesItself(type)
                && !others.contains(type);
    }

    /// Whether an object comes back as itself.
    boolean contains(Object object) {
        Class<?> type = object.getClass();
        if (!mayContain(type)) {
            return false;
        }
        try {
            if (read(bytes(object)) == object) {
                return true;
            }
        } catch (IOException | ClassNotFoundException | RuntimeException | LinkageError none) {
            // It cannot be serialised, or has too many bytes: its fields are stored.
        }
        others.add(type);
        return false;
    }

    private static byte[] bytes(Object object) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream() {
            @Override
            public synchronized void write(byte[] more, int from, int length) {
                if (count + length > BYTES_MAX) {
                    throw new IllegalArgumentException("more than " + BYTES_MAX + " bytes");
                }
                super.write(more, from, length);
            }
        };
        try (ObjectOutputStream out = new ValueStream(bytes)) {
            out.writeObject(object);
        }
        return bytes.toByteArray();
    }

    /// Writes no collections: these have content of their own, and may keep a view of it when they are read.
    private static final class ValueStream extends ObjectOutputStream {
        ValueStream(ByteArrayOutputStream out) throws IOException {
            super(out);
            enableReplaceObject(true);
        }

        @Override
        protected Object replaceObject(Object written) throws IOException {
            if (written instanceof Collection || written instanceof Map) {
                throw new InvalidObjectException("an object of " + written.getClass() + " has content of its own");
            }
            return written;
        }
    }

    private Object read(byte[] bytes) throws IOException, ClassNotFoundException {
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes)) {
            @Override
            protected Class<?> resolveClass(ObjectStreamClass described) {
                return forms.classOf(described.getName());
            }
        }) {
            // The bytes may have been damaged.
            in.setObjectInputFilter(ObjectInputFilter.Config.createFilter(
                    "maxbytes=" + BYTES_MAX + ";maxarray=" + BYTES_MAX + ";maxdepth=8;maxrefs=100"));
            return in.readObject();
        }
    }

    @Override
    void write(Object object, ObjectWriter out) {
        byte[] bytes;
        try {
            bytes = bytes(object);
        } catch (IOException e) {
            throw out.refuse("it cannot be serialised: " + e);
        }
        out.putText(forms.checkedName(object.getClass().getName(), out));
        out.buffer.putInt(bytes.length);
        out.buffer.putBytes(bytes, 0, bytes.length);
        out.endData();
    }

    @Override
    Object fill(Object created, ObjectBytes in, Object[] references) {
        String name = in.getText();
        byte[] bytes = in.getBytes(in.getCount());
        try {
            return read(bytes);
        } catch (IOException | ClassNotFoundException | RuntimeException e) {
            throw new StoreException(
                    "cannot load an object of " + name + " from its serialised form: " + e
                            + "; use the version of the class that has stored it",
                    e);
        }
    }
}
