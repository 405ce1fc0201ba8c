package cedrat.persist.memory;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/// Memo fields: fields in which an object keeps a view of itself or a hash code when it is first read.
///
/// - An assignment to a memo field belongs to no transaction: it takes no lock, a rollback does not undo it, and the
///   field is not stored. That is right for a value that follows from the identity of the object, or from what
///   never changes, as a view and the hash code of an immutable object do. Such a value is never stale: not after
///   a rollback, not after a load, and whichever thread has computed it. A value that follows from what may change
///   must not be listed.
///
/// The fields of known libraries are one resource, `memo.fields`, a line for each class: its name, and the fields.
/// A name that ends with `.*` means all classes of a package and of those below it. The agent's argument adds
/// others.
///
/// **Threads:** any.
public final class MemoFields {
    /// Memo fields by declaring class, with slashes in its name.
    private final Map<String, Set<String>> ofClasses = new HashMap<>();
    /// By the beginnings of the names of classes.
    private final Map<String, Set<String>> ofPackages = new HashMap<>();
    /// The names of all of them.
    private final Set<String> names = new HashSet<>();
    /// Fields of the agent's argument, by their classes.
    private final Map<String, Set<String>> added = new HashMap<>();

    /// @param more further ones, each as `com.example.Point#hash`
    /// @throws IllegalArgumentException if one of these has another form
    public MemoFields(List<String> more) {
        try (InputStream in = MemoFields.class.getResourceAsStream("memo.fields");
                BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
            lines.lines().forEach(this::addLine);
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read the list of memo fields", e);
        }
        for (String name : more) {
            int sign = name.indexOf('#');
            if (sign <= 0 || sign == name.length() - 1) {
                throw new IllegalArgumentException("invalid memo field `" + name
                        + "`: write the class that declares it and the field, as in com.example.Point#hash");
            }
            String owner = name.substring(0, sign).replace('.', '/');
            String field = name.substring(sign + 1);
            put(ofClasses, owner, field);
            put(added, owner, field);
        }
    }

    private void addLine(String line) {
        int space = line.indexOf(' ');
        String owner = line.substring(0, space).replace('.', '/');
        boolean isPackage = owner.endsWith("/*");
        for (String field : line.substring(space + 1).split(",")) {
            if (isPackage) {
                put(ofPackages, owner.substring(0, owner.length() - 1), field);
            } else {
                put(ofClasses, owner, field);
            }
        }
    }

    private void put(Map<String, Set<String>> fields, String owner, String field) {
        fields.computeIfAbsent(owner, key -> new HashSet<>()).add(field);
        names.add(field);
    }

    /// Whether a field of this name may be one.
    public boolean mayHave(String name) {
        return names.contains(name);
    }

    /// Whether a class declares such a field, if it declares a field of this name.
    ///
    /// @param internalName the name of the class, with slashes
    public boolean has(String internalName, String name) {
        if (!names.contains(name)) {
            return false;
        }
        Set<String> own = ofClasses.get(internalName);
        if (own != null && own.contains(name)) {
            return true;
        }
        for (Map.Entry<String, Set<String>> one : ofPackages.entrySet()) {
            if (internalName.startsWith(one.getKey()) && one.getValue().contains(name)) {
                return true;
            }
        }
        return false;
    }

    /// Returns whether a field is a memo field.
    public boolean has(Field field) {
        // Its value comes from the constructor, which no load calls.
        return !Modifier.isFinal(field.getModifiers())
                && names.contains(field.getName())
                && has(field.getDeclaringClass().getName().replace('.', '/'), field.getName());
    }

    /// Returns the fields of a class that the agent's argument has added.
    public List<String> added(String internalName) {
        return new ArrayList<>(added.getOrDefault(internalName, Set.of()));
    }
}
