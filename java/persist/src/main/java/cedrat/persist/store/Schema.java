package cedrat.persist.store;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.PersistenceRuntime;
import cedrat.persist.StoreException;
import cedrat.persist.boot.Persistable;
import cedrat.persist.codec.ArrayShape;
import cedrat.persist.codec.CommitBuffer;
import cedrat.persist.codec.ConvertedFields;
import cedrat.persist.codec.DeletedShape;
import cedrat.persist.codec.EnumShape;
import cedrat.persist.codec.Layout;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.RefusedException;
import cedrat.persist.codec.Shape;
import cedrat.persist.codec.StoredClass;
import cedrat.persist.codec.StoredClass.Kind;
import cedrat.persist.codec.StoredClass.Member;
import cedrat.persist.codec.Words;
import cedrat.persist.form.Form;
import cedrat.persist.form.FormShape;
import cedrat.persist.form.Forms;
import cedrat.persist.lock.Unbroken;
import cedrat.persist.memory.Fields;
import cedrat.persist.memory.HashSource;
import cedrat.persist.memory.Slot;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;

/// The classes of a store, and which of the program's they are.
///
/// - All classes of the store are compared with those of the program when the store is opened; all
///   mismatches are reported at once. The new names that the program states are compared too
///   ([RenamedFields]).
///
/// A class's definition is never changed: what the class has become gets a number of its own when the first
/// object is stored by it, and older objects are read as they were stored.
///
/// **Threads:** any.
final class Schema {
    private static final String SEPARATOR = "\n  - ";

    private final GraphStore graph;
    private final Fields slots;
    private final PersistenceRuntime.Settings settings;
    private final ClassLoader loader;
    private final Forms forms;
    private final RenamedFields renamed;
    private final ConvertedFields converted;
    private final HashKeys keys;
    /// Shapes by which objects are stored.
    private final ConcurrentHashMap<Class<?>, Shape> current = new ConcurrentHashMap<>();
    /// Layouts of superclasses whose transient fields are stored with the objects of a subclass, and not with
    /// their own.
    private final ConcurrentHashMap<Class<?>, Layout> ofSubclasses = new ConcurrentHashMap<>();

    private final ConcurrentHashMap<Form, Shape> formShapes = new ConcurrentHashMap<>();
    /// Shapes by which stored objects are read, and their definitions; the first has number 1.
    private volatile Shape[] shapes;

    /// Null of those that were dropped.
    private StoredClass[] definitions;
    /// Held by a commit that defines classes, from before it numbers them until the store has answered.
    private final ReentrantLock defining = new ReentrantLock();
    /// Number of classes that the store has defined. The shapes beyond are those of the commit that holds the
    /// lock: other threads may read its objects before its call returns.
    private int defined;
    /// By the definitions that the store had when it was opened, whether transient fields belong to them.
    private final boolean[] withTransient;

    /// @throws StoreException if classes do not fit: it says which
    Schema(GraphStore graph, Fields slots, PersistenceRuntime.Settings settings, Forms forms, HashKeys keys)
            throws GraphStoreException {
        this.keys = keys;
        this.graph = graph;
        this.slots = slots;
        this.settings = settings;
        this.forms = forms;
        loader = settings.classLoader();
        renamed = new RenamedFields(settings);
        converted = new ConvertedFields(settings);
        List<byte[]> stored = graph.classes(1);
        definitions = new StoredClass[stored.size()];
        for (int i = 0; i < definitions.length; i++) {
            definitions[i] = UnusedClasses.parse(i + 1, stored.get(i));
        }
        shapes = new Shape[definitions.length];
        defined = definitions.length;
        withTransient = findTransient();
        Set<String> problems = new LinkedHashSet<>();
        // What objects will be stored by has to be known before what older ones are read by.
        for (int number = 1; number <= definitions.length; number++) {
            findCurrent(number);
        }
        for (int number = 1; number <= definitions.length; number++) {
            check(number, problems);
        }
        renamed.check(this::find, problems);
        converted.check(this::find, problems);
        if (!problems.isEmpty()) {
            throw new StoreException("the classes of the store do not match those of the program:" + SEPARATOR
                    + String.join(SEPARATOR, problems));
        }
    }

    /// A superclass is defined before its subclasses.
    private boolean[] findTransient() {
        boolean[] found = new boolean[definitions.length];
        for (int i = found.length - 1; i >= 0; i--) {
            StoredClass definition = definitions[i];
            boolean isObject = definition != null && definition.kind() == Kind.OBJECT;
            Class<?> type = isObject ? find(settings.className(definition.name())) : null;
            if (type == null) {
                continue;
            }
            found[i] = found[i] && SerialFields.hasTransient(type) || SerialFields.keepsTransient(type);
            if (definition.superclass() != 0) {
                found[definition.superclass() - 1] |= found[i];
            }
        }
        return found;
    }

    boolean isEmpty() {
        return definitions.length == 0;
    }

    /// Returns the shape by which the objects of a class of the store are read.
    Shape shape(ObjectBytes in) {
        Shape[] known = shapes;
        int number = in.classNumber();
        if (number <= 0 || number > known.length || known[number - 1] == null) {
            throw in.damaged("its class number is " + number + " of " + known.length);
        }
        return known[number - 1];
    }

    // ---- definitions of new classes

    /// Begins the definitions of a commit. Other commits that define classes wait until it has ended them.
    void beginDefinitions() throws GraphStoreException {
        Unbroken.lock(defining);
        try {
            addDefined();
        } catch (GraphStoreException | RuntimeException | Error e) {
            endDefinitions(false);
            throw e;
        }
    }

    /// Adds definitions that a branch has left which the store has refused.
    private void addDefined() throws GraphStoreException {
        for (byte[] bytes : graph.classes(defined + 1)) {
            add(UnusedClasses.parse(defined + 1, bytes), null);
            defined++;
        }
    }

    /// Drops the definitions of classes that a completed collection has found without objects.
    void dropUnused(GraphStore.Collection collection) throws GraphStoreException {
        Unbroken.lock(defining);
        try {
            addDefined();
            UnusedClasses.drop(collection, definitions, shapes);
        } finally {
            Unbroken.unlock(defining);
        }
    }

    /// Waits until no definitions are being dropped.
    void awaitDrop() {
        Unbroken.lock(defining);
        Unbroken.unlock(defining);
    }

    /// Returns the number of a class. If the store lacks the class, its definition becomes a part of the commit.
    int number(Shape shape, CommitBuffer buffer) {
        if (shape.number() != 0) {
            return shape.number();
        }
        return shape.proposed() != 0 ? shape.proposed() : define(shape, buffer);
    }

    private int define(Shape shape, CommitBuffer buffer) {
        StoredClass definition = shape instanceof Layout layout ? definition(layout, buffer) : shape.definition();
        byte[] bytes = definition.bytes();
        add(definition, shape);
        int number = definitions.length;
        shape.proposed(number);
        buffer.beginClass(number);
        buffer.putBytes(bytes, 0, bytes.length);
        buffer.end();
        return number;
    }

    private void add(StoredClass definition, Shape shape) {
        int number = definitions.length + 1;
        definitions = Arrays.copyOf(definitions, number);
        definitions[number - 1] = definition;
        Shape[] more = Arrays.copyOf(shapes, number);
        more[number - 1] = shape;
        shapes = more;
    }

    /// Ends the definitions of a commit.
    ///
    /// @param isStored whether the store has them; otherwise their numbers are free again
    void endDefinitions(boolean isStored) {
        try {
            for (int number = defined + 1; number <= definitions.length; number++) {
                Shape shape = shapes[number - 1];
                shape.proposed(0);
                if (isStored) {
                    shape.number(number);
                }
            }
            if (!isStored && definitions.length != defined) {
                definitions = Arrays.copyOf(definitions, defined);
                shapes = Arrays.copyOf(shapes, defined);
            }
            defined = definitions.length;
        } finally {
            Unbroken.unlock(defining);
        }
    }

    // ---- classes of the program

    /// Returns the shape by which an object is stored.
    ///
    /// @throws RefusedException if it cannot be stored
    Shape of(Object object) throws RefusedException {
        Class<?> type = object.getClass();
        Shape known = hasOwnForm(object) ? null : current.get(type);
        return known != null ? known : find(object, type);
    }

    /// Whether an object of the program is not stored by its fields.
    boolean hasOwnForm(Object object) {
        return (object instanceof Persistable || object.getClass() == Object.class) && forms.hasOwnForm(object);
    }

    private synchronized Shape find(Object object, Class<?> type) throws RefusedException {
        if (object instanceof Persistable && !hasOwnForm(object)) {
            return layout(type, SerialFields.keepsTransient(type));
        }
        if (type.isArray()) {
            return array(type);
        }
        Shape shape = formShapes.computeIfAbsent(forms.of(object), FormShape::new);
        if (forms.isChosenByClass(type)) {
            current.put(type, shape);
        }
        return shape;
    }

    /// The layout of a class as it is.
    private synchronized Layout layout(Class<?> type, boolean withTransient) throws RefusedException {
        Layout known = known(type, withTransient);
        if (known != null) {
            return known;
        }
        refuseIfUnfit(type);
        List<Layout.StoredField> fields = new ArrayList<>();
        if (Persistable.class.isAssignableFrom(type.getSuperclass())) {
            // In the order of its definition, which need not be that of the class: the store knows an older one, maybe.
            fields.addAll(superLayout(type, withTransient).fields());
        }
        for (Field field : SerialFields.of(type, withTransient, slots.memos())) {
            fields.add(new Layout.StoredField(member(field), slots.slot(field)));
        }
        Layout made = new Layout(type, null, fields, null);
        add(made, withTransient);
        return made;
    }

    /// The layout of a class as it is, or null: it is not made yet.
    private Layout known(Class<?> type, boolean withTransient) {
        return withTransient == SerialFields.keepsTransient(type) ? (Layout) current.get(type) : ofSubclasses.get(type);
    }

    private void add(Layout made, boolean withTransient) {
        if (withTransient == SerialFields.keepsTransient(made.type())) {
            current.put(made.type(), made);
        } else {
            ofSubclasses.put(made.type(), made);
        }
    }

    private Layout superLayout(Class<?> type, boolean withTransient) throws RefusedException {
        Class<?> superclass = type.getSuperclass();
        return layout(superclass, withTransient && SerialFields.hasTransient(superclass));
    }

    private static Member member(Field field) {
        return new Member(field.getName(), field.getType().descriptorString());
    }

    private void refuseIfUnfit(Class<?> type) throws RefusedException {
        if (type.isHidden()) {
            throw new RefusedException(
                    type.getName() + " is a hidden class, which no name leads to: use a class with a name");
        }
        Class<?> topmost = type;
        while (Persistable.class.isAssignableFrom(topmost.getSuperclass())) {
            topmost = topmost.getSuperclass();
        }
        Class<?> ancestor = topmost.getSuperclass();
        if (!SerialFields.isStateless(ancestor) && !SerialFields.isStoredWithSubclass(ancestor, topmost)) {
            throw new RefusedException(type.getName() + " extends " + ancestor.getName()
                    + ", whose fields have no barriers: "
                    + (ancestor.getClassLoader() == null
                            ? ""
                            : "remove it from exclude=… in the agent's argument, add it to include=… if there is one, ")
                    + "keep a field of type " + ancestor.getSimpleName()
                    + " in place of the superclass, or call StoreOptions.convert");
        }
        if (find(type.getName()) != type) {
            throw new RefusedException("the class loader of the store does not find " + type.getName()
                    + ": set StoreOptions.classLoader when the store is opened");
        }
        if (keys.isContainer(type) && HashSource.findsByIdentity(type)) {
            throw new RefusedException(type.getName() + " finds objects by System.identityHashCode, which differs in "
                    + "each process: use java.util.IdentityHashMap");
        }
    }

    private Class<?> find(String name) {
        try {
            return Class.forName(name, false, loader);
        } catch (ClassNotFoundException | LinkageError e) {
            return null;
        }
    }

    /// The definition of a class as it is; its superclass is defined before.
    private StoredClass definition(Layout layout, CommitBuffer buffer) {
        Class<?> type = layout.type();
        boolean withTransient = known(type, true) == layout;
        int superclass = 0;
        if (Persistable.class.isAssignableFrom(type.getSuperclass())) {
            try {
                superclass = number(superLayout(type, withTransient), buffer);
            } catch (RefusedException e) {
                throw new AssertionError("a subclass has been stored", e);
            }
        }
        return definition(type, withTransient, superclass);
    }

    private StoredClass definition(Class<?> type, boolean withTransient, int superclass) {
        List<Member> members = new ArrayList<>();
        for (Field field : SerialFields.of(type, withTransient, slots.memos())) {
            members.add(member(field));
        }
        Kind kind = Kind.of(type);
        int version = 0;
        if (kind == Kind.OBJECT) {
            version = isAbstract(type) ? StoredClass.ABSTRACT : StoredClass.CONCRETE;
        }
        return new StoredClass(kind, version, superclass, type.getName(), members);
    }

    private static boolean isAbstract(Class<?> type) {
        return Modifier.isAbstract(type.getModifiers());
    }

    private Shape array(Class<?> type) throws RefusedException {
        Class<?> element = type;
        while (element.isArray()) {
            element = element.getComponentType();
        }
        if (!element.isPrimitive() && find(element.getName()) != element) {
            throw new RefusedException("the class loader of the store does not find " + element.getName()
                    + ": set StoreOptions.classLoader when the store is opened");
        }
        Shape made = new ArrayShape(type, type.getName());
        current.put(type, made);
        return made;
    }

    /// The word of a constant, whose enum becomes a part of the commit if the store lacks it.
    long word(Enum<?> constant, CommitBuffer buffer) throws RefusedException {
        EnumShape shape = shape(constant);
        return Words.constant(number(shape, buffer), shape.find(constant));
    }

    /// Returns the shape of the enum of a constant.
    ///
    /// @throws RefusedException if the constant cannot be stored
    EnumShape shape(Enum<?> constant) throws RefusedException {
        Class<?> type = constant.getDeclaringClass();
        EnumShape shape = (EnumShape) current.get(type);
        if (shape == null || shape.find(constant) < 0) {
            shape = constants(type);
        }
        if (!Words.fitsConstant(shape.find(constant))) {
            throw new RefusedException(
                    type.getName() + " has more constants than a reference can number: store their names");
        }
        return shape;
    }

    private synchronized EnumShape constants(Class<?> type) throws RefusedException {
        if (find(type.getName()) != type) {
            throw new RefusedException("the class loader of the store does not find " + type.getName()
                    + ": set StoreOptions.classLoader when the store is opened");
        }
        Enum<?>[] constants = (Enum<?>[]) type.getEnumConstants();
        List<String> names = new ArrayList<>();
        for (Enum<?> constant : constants) {
            names.add(constant.name());
        }
        EnumShape made = new EnumShape(type.getName(), names, constants);
        current.put(type, made);
        return made;
    }

    /// The constant of a word.
    Enum<?> constant(long word) {
        Shape[] known = shapes;
        int number = Words.constantClass(word);
        Enum<?> constant = number > 0 && number <= known.length && known[number - 1] instanceof EnumShape shape
                ? shape.constant(Words.constantNumber(word))
                : null;
        if (constant == null) {
            throwIfDeleted(number, Words.constantNumber(word));
            throw new StoreException("the reference 0x" + Long.toHexString(word)
                    + " leads to no constant of an enum: run `cedrat verify`, and restore the store from a copy");
        }
        return constant;
    }

    private void throwIfDeleted(int number, int constant) {
        Shape shape = number > 0 && number <= shapes.length ? shapes[number - 1] : null;
        if (shape instanceof DeletedShape deleted) {
            throw deleted.refused("a referenced constant");
        }
        StoredClass definition = shape instanceof EnumShape ? definitions[number - 1] : null;
        if (definition != null && constant < definition.members().size()) {
            throw new StoreException("a reference leads to the constant "
                    + settings.className(definition.name()) + "."
                    + definition.members().get(constant).name()
                    + ", which StoreOptions.deleteConstant declares deleted: "
                    + "change the reference with a program that has the constant, or add it and remove the call");
        }
    }

    // ---- classes of the store

    /// If a class of the store is as the program has it, its objects will be stored by that definition.
    private void findCurrent(int number) {
        StoredClass definition = definitions[number - 1];
        if (definition == null) {
            return;
        }
        Class<?> type = definition.kind() == Kind.OBJECT || definition.kind() == Kind.RECORD
                ? find(settings.className(definition.name()))
                : null;
        boolean withTransient = this.withTransient[number - 1];
        if (type == null
                || !Persistable.class.isAssignableFrom(type)
                || known(type, withTransient) != null
                || !isCurrent(definition, type, withTransient)) {
            return;
        }
        List<Layout.StoredField> fields = match(number, type, new HashSet<>());
        if (fields != null) {
            Layout layout = new Layout(type, definition, fields, null);
            layout.number(number);
            add(layout, withTransient);
            shapes[number - 1] = layout;
        }
    }

    private void check(int number, Set<String> problems) {
        StoredClass definition = definitions[number - 1];
        if (definition == null) {
            return;
        }
        Shape shape =
                switch (definition.kind()) {
                    case OBJECT, RECORD, ENUM -> checkClass(number, definition, problems);
                    case ARRAY -> checkArray(definition, problems);
                    case FORM -> checkForm(definition, problems);
                };
        shapes[number - 1] = shape;
        if (shape != null && shape.number() == 0) {
            shape.number(number);
        }
    }

    private Shape checkForm(StoredClass definition, Set<String> problems) {
        Form form = forms.find(definition.name(), definition.version());
        String converted = Forms.convertedClass(definition.name());
        if (form == null && converted != null && settings.isDeleted(converted)) {
            return new DeletedShape(definition);
        }
        if (form == null && converted != null) {
            problems.add("the store has converted objects of " + settings.className(converted)
                    + ", and the program has no converter for them: call StoreOptions.convert, or deleteClass if it "
                    + "needs them no more");
            return null;
        }
        if (form == null) {
            problems.add("this version of Cedrat does not know version " + definition.version() + " of the form "
                    + definition.name() + ": use the version that has written it");
            return null;
        }
        return formShapes.computeIfAbsent(form, FormShape::new);
    }

    private Shape checkClass(int number, StoredClass definition, Set<String> problems) {
        Class<?> type = find(settings.className(definition.name()));
        if (settings.isDeleted(definition.name())) {
            if (type != null) {
                problems.add("the program has the class " + type.getName()
                        + ", which StoreOptions.deleteClass declares deleted: remove the call, or give the class "
                        + "another name");
            }
            return new DeletedShape(definition);
        }
        if (type == null) {
            problems.add(missing(definition.name()));
            return null;
        }
        Kind stored = definition.kind();
        Kind now = Kind.of(type);
        if (now != stored) {
            problems.add(type.getName() + " was " + Kind.article(stored) + ", and is " + Kind.article(now)
                    + " now: keep the " + Kind.word(stored) + ", and give the " + Kind.word(now) + " another name");
            return null;
        }
        if (isAbstract(type) && stored == Kind.OBJECT && UnusedClasses.mayHaveObjects(number, definitions)) {
            problems.add(
                    type.getName() + " is abstract now, and was concrete when it was stored: make it concrete, or keep "
                            + "a class of this name and give the abstract one another name");
            return null;
        }
        if (shapes[number - 1] != null) {
            return shapes[number - 1];
        }
        return stored == Kind.ENUM
                ? checkConstants(definition, type, problems)
                : checkFields(number, definition, type, problems);
    }

    private Shape checkArray(StoredClass definition, Set<String> problems) {
        String name = definition.name();
        int dimensions = name.lastIndexOf('[') + 1;
        boolean isOfClass = name.length() > dimensions && name.charAt(dimensions) == 'L';
        String now = name;
        if (isOfClass) {
            String element = settings.className(name.substring(dimensions + 1, name.length() - 1));
            now = name.substring(0, dimensions) + "L" + element + ";";
        }
        Class<?> type = find(now);
        if (type == null && isOfClass && settings.isDeleted(name.substring(dimensions + 1, name.length() - 1))) {
            return new DeletedShape(definition);
        }
        if (type == null) {
            problems.add(missing(isOfClass ? name.substring(dimensions + 1, name.length() - 1) : name));
            return null;
        }
        Shape shape = new ArrayShape(type, name);
        if (now.equals(name)) {
            current.put(type, shape);
        }
        return shape;
    }

    private String missing(String stored) {
        String now = settings.className(stored);
        if (!now.equals(stored)) {
            return "the program lacks the class " + now + ", the new name of " + stored
                    + " in StoreOptions.renameClass: correct the name, or add the class to the class path";
        }
        return "the program lacks the stored class " + stored + ": add it to the class path, or call "
                + "StoreOptions.renameClass if it has another name now, or deleteClass if it is gone";
    }

    private Shape checkConstants(StoredClass definition, Class<?> type, Set<String> problems) {
        Map<String, Enum<?>> byName = new HashMap<>();
        for (Object constant : type.getEnumConstants()) {
            byName.put(((Enum<?>) constant).name(), (Enum<?>) constant);
        }
        List<String> names = new ArrayList<>();
        List<Enum<?>> constants = new ArrayList<>();
        for (Member member : definition.members()) {
            String name = settings.fieldName(type.getName(), member.name());
            Enum<?> constant = byName.get(name);
            if (settings.isDeleted(type.getName(), member.name())) {
                if (constant != null) {
                    problems.add(type.getName() + " has the constant " + name
                            + ", which StoreOptions.deleteConstant declares deleted: remove the call");
                }
            } else if (constant == null && name.equals(member.name())) {
                problems.add(type.getName() + " lacks the stored constant " + name
                        + ": add it, or call StoreOptions.renameField if it has another name now, or "
                        + "deleteConstant if it is gone");
            } else if (constant == null) {
                problems.add(unfound(type, "constant", name, member));
            }
            names.add(member.name());
            constants.add(constant);
        }
        EnumShape shape = new EnumShape(definition.name(), names, constants.toArray(Enum<?>[]::new));
        current.put(type, shape);
        return shape;
    }

    private Shape checkFields(int number, StoredClass definition, Class<?> type, Set<String> problems) {
        if (!Persistable.class.isAssignableFrom(type)) {
            problems.add(type.getName() + " was stored as a class with barriers, and has none now: start Java with the "
                    + "agent, remove the class from its argument exclude=…, and add it or its package to include=… if "
                    + "there is one");
            return null;
        }
        Layout now;
        try {
            now = layout(type, withTransient[number - 1]);
        } catch (RefusedException e) {
            problems.add(e.getMessage());
            return null;
        }
        List<Layout.StoredField> fields = match(number, type, problems);
        if (fields == null) {
            return null;
        }
        return new Layout(type, definition, fields, now);
    }

    /// Whether a class is as a definition says, its superclass included.
    private boolean isCurrent(StoredClass definition, Class<?> type, boolean withTransient) {
        int superclass = 0;
        Class<?> above = type.getSuperclass();
        if (Persistable.class.isAssignableFrom(above)) {
            Layout layout = known(above, withTransient && SerialFields.hasTransient(above));
            superclass = layout == null ? 0 : layout.number();
            if (superclass == 0) {
                return false;
            }
        }
        StoredClass now = definition(type, withTransient, superclass);
        return now.isSameAs(definition);
    }

    /// The fields of a stored class, the superclass's first, and what they are now. Null if something does not
    /// fit.
    private List<Layout.StoredField> match(int number, Class<?> type, Set<String> problems) {
        List<StoredClass> stored = new ArrayList<>();
        for (int at = number; at != 0; at = definitions[at - 1].superclass()) {
            stored.addFirst(definitions[at - 1]);
        }
        Map<String, Class<?>> now = new HashMap<>();
        for (Class<?> one : SerialFields.hierarchy(type)) {
            now.put(one.getName(), one);
        }
        List<Layout.StoredField> fields = new ArrayList<>();
        boolean fits = true;
        for (StoredClass definition : stored) {
            Class<?> declaring = now.get(settings.className(definition.name()));
            if (declaring == null && !definition.members().isEmpty() && !settings.isDeleted(definition.name())) {
                problems.add(type.getName() + " no longer extends " + settings.className(definition.name())
                        + ", which has fields in the store: let it extend that class");
                fits = false;
            }
            for (Member member : definition.members()) {
                Field field = declaring == null ? null : field(declaring, member, withTransient[number - 1]);
                if (field == null && declaring != null) {
                    checkName(member, declaring, problems);
                    field = moved(member, declaring, type, stored, withTransient[number - 1]);
                }
                renamed.add(type, definition, member, field);
                fits &= match(member, field, fields, problems);
            }
        }
        return fits ? fields : null;
    }

    /// Checks that a declared name is that of a field: otherwise it is a mistake, and no removal.
    private void checkName(Member member, Class<?> declaring, Set<String> problems) {
        String name = settings.fieldName(declaring.getName(), member.name());
        if (!name.equals(member.name())) {
            problems.add(unfound(declaring, "field", name, member));
        }
    }

    private static String unfound(Class<?> declaring, String what, String renamed, Member member) {
        return declaring.getName() + " has no " + what + " " + renamed + ", the new name of " + member.name()
                + " in StoreOptions.renameField: correct the name, or remove the call";
    }

    /// The field of that name in another class of the hierarchy, if that class had none in the store: a field that was
    /// pulled up, or pushed down.
    private Field moved(
            Member member, Class<?> declaring, Class<?> type, List<StoredClass> stored, boolean withTransient) {
        for (Class<?> other : SerialFields.hierarchy(type)) {
            Field field = other == declaring ? null : field(other, member, withTransient);
            if (field != null && !hadField(other, field.getName(), stored)) {
                return field;
            }
        }
        return null;
    }

    private boolean hadField(Class<?> type, String name, List<StoredClass> stored) {
        for (StoredClass definition : stored) {
            if (settings.className(definition.name()).equals(type.getName())) {
                for (Member member : definition.members()) {
                    if (settings.fieldName(type.getName(), member.name()).equals(name)) {
                        return true;
                    }
                }
            }
        }
        return false;
    }

    private boolean match(Member member, Field field, List<Layout.StoredField> fields, Set<String> problems) {
        if (field == null) {
            fields.add(new Layout.StoredField(member, null));
            return true;
        }
        Class<?> stored = member.isPrimitive() ? null : reference(member.descriptor());
        Function<Object, Object> converter = converted.find(field, member.descriptor(), stored);
        if (converter == null && !fits(member, field.getType())) {
            problems.add(field.getDeclaringClass().getName() + "." + field.getName() + " was " + member.descriptor()
                    + ", and is " + field.getType().descriptorString() + converted.advice(field));
            return false;
        }
        Slot.Field slot = slots.slot(field);
        for (Layout.StoredField other : fields) {
            if (other.slot() == slot) {
                problems.add(field.getDeclaringClass().getName() + "." + field.getName() + " is both "
                        + other.member().name() + " and " + member.name()
                        + " of the store: give it another name, or remove a "
                        + "call of StoreOptions.renameField");
                return false;
            }
        }
        fields.add(new Layout.StoredField(member, slot, converter));
        return true;
    }

    private Field field(Class<?> declaring, Member member, boolean withTransient) {
        String name = settings.fieldName(declaring.getName(), member.name());
        for (Field field : SerialFields.of(declaring, withTransient, slots.memos())) {
            if (field.getName().equals(name)) {
                return field;
            }
        }
        return null;
    }

    private boolean fits(Member member, Class<?> now) {
        String descriptor = now.descriptorString();
        if (descriptor.equals(member.descriptor())) {
            return true;
        }
        if (member.isPrimitive() || now.isPrimitive()) {
            return member.isPrimitive()
                    && now.isPrimitive()
                    && Layout.isWidening(member.descriptor().charAt(0), descriptor.charAt(0));
        }
        Class<?> stored = reference(member.descriptor());
        return stored != null && now.isAssignableFrom(stored);
    }

    /// The class of a reference field in the store, as it is now; null if it is not there.
    private Class<?> reference(String descriptor) {
        int dimensions = descriptor.lastIndexOf('[') + 1;
        if (descriptor.charAt(dimensions) != 'L') {
            return find(descriptor);
        }
        String stored =
                descriptor.substring(dimensions + 1, descriptor.length() - 1).replace('/', '.');
        String element = settings.className(stored);
        return find(dimensions == 0 ? element : descriptor.substring(0, dimensions) + "L" + element + ";");
    }
}
