package cedrat.persist.form;

import cedrat.persist.codec.MapPart;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.codec.Parts;
import cedrat.persist.codec.Words;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/// The form of a part of a large hash table: as references its keys and values in turn, or its elements. Short texts
/// that are keys are in its data, so that they are no objects of the store.
///
/// **Threads:** any.
public final class PartForm extends Form {
    /// Maximum length of a text in the data.
    private static final int SHORT_MAX = 64;

    private final boolean hasValues;

    PartForm(String name, boolean hasValues) {
        super(name);
        this.hasValues = hasValues;
    }

    int width() {
        return hasValues ? 2 : 1;
    }

    /// The nodes that a part has in memory, in their order.
    static List<Object> nodes(MapPart part) {
        Object collection = part.collection != null ? part.collection : part.parts.owner.get();
        Object[] table = HashNodes.table(part.hasValues ? collection : HashNodes.map(collection));
        int from = Parts.first(part.number);
        List<Object> nodes = new ArrayList<>();
        HashNodes.forEach(table, from, Math.min(table.length, Parts.first(part.number + 1)), nodes::add);
        return nodes;
    }

    @Override
    void write(Object part, ObjectWriter out) {
        List<Object> nodes = nodes((MapPart) part);
        long[] texts = new long[nodes.size()];
        for (int i = 0; i < texts.length; i++) {
            if (HashNodes.key(nodes.get(i)) instanceof String text && isShort(text)) {
                texts[i] = Words.of(Words.TEXT, out.buffer.dataSize());
                out.buffer.putByte(text.length());
                out.buffer.putBytes(text.getBytes(StandardCharsets.ISO_8859_1), 0, text.length());
            }
        }
        out.endData();
        for (int i = 0; i < texts.length; i++) {
            Object node = nodes.get(i);
            if (texts[i] != 0) {
                out.word(texts[i]);
            } else {
                out.reference(HashNodes.key(node));
            }
            if (hasValues) {
                out.reference(HashNodes.value(node));
            }
        }
    }

    private static boolean isShort(String text) {
        boolean isShort = text.length() <= SHORT_MAX;
        for (int i = 0; isShort && i < text.length(); i++) {
            isShort = text.charAt(i) < 0x100;
        }
        return isShort;
    }

    /// @return the references: who loads the part puts them into its buckets
    @Override
    Object fill(Object created, ObjectBytes in, Object[] references) {
        if (references.length % width() != 0) {
            throw in.damaged("its last entry is not whole");
        }
        for (int i = 0; i < references.length; i += width()) {
            if (!HashNodes.isLasting(references[i])) {
                throw in.damaged("a key of it is an object of "
                        + references[i].getClass().getName());
            }
        }
        return references;
    }

    @Override
    String step(Object part, int reference) {
        List<Object> nodes = nodes((MapPart) part);
        int entry = reference / width();
        if (!hasValues) {
            return "an element";
        }
        return reference % width() == 0 || entry >= nodes.size()
                ? "a key"
                : "[" + CollectionForms.show(HashNodes.key(nodes.get(entry))) + "]";
    }

    @Override
    String storedStep(int reference) {
        return hasValues && reference % 2 == 0 ? "a key" : super.storedStep(reference);
    }

    @Override
    int storedKey(int reference) {
        return hasValues && reference % 2 == 1 ? reference - 1 : -1;
    }
}
