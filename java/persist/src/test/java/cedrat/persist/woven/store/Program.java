package cedrat.persist.woven.store;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Collectors;

/// Classes that are made by chance: hierarchies of up to four, abstract ones, sealed and generic ones, inner
/// classes, records, enums and interfaces, with fields of all types, whose names occur in superclasses too.
///
/// A field is called by its class and name, `C2.a`.
public final class Program {
    /// Operations of each object of such a class, in the code of its own class.
    public interface Generated {
        /// Reads all fields, those of superclasses too.
        void fields(java.util.function.BiConsumer<String, Object> reader);

        /// Assigns all fields.
        void fill(java.util.function.Function<String, Object> values);
    }

    /// A field; what another version calls the same has the same name.
    ///
    /// @param type as one writes it
    record Field(String name, String type) {}

    /// A class `Cn`.
    private static final class Type {
        final int number;
        final Type superclass;
        final int depth;
        boolean isAbstract;
        boolean isSealed;
        boolean isGeneric;
        boolean hasInner;
        List<Field> fields = new ArrayList<>();

        Type(int number, Type superclass) {
            this.number = number;
            this.superclass = superclass;
            depth = superclass == null ? 1 : superclass.depth + 1;
        }

        String name() {
            return "C" + number;
        }

        boolean extendsType(Type other) {
            return this == other || superclass != null && superclass.extendsType(other);
        }
    }

    private static final int DEPTH_MAX = 4;
    private static final List<String> PRIMITIVE =
            List.of("boolean", "byte", "char", "short", "int", "long", "float", "double");
    private static final List<String> OF_THE_JDK = List.of(
            "Object",
            "String",
            "Integer",
            "Long",
            "Comparable<String>",
            "int[]",
            "long[][]",
            "Object[]",
            "String[]",
            "List<Object>",
            "ArrayDeque<Object>",
            "Map<String, Object>",
            "TreeMap<Integer, Object>",
            "Set<Integer>",
            "Optional<Object>",
            "java.math.BigInteger",
            "java.time.LocalDate");
    private static final List<String> OWN = List.of("R0", "R1", "E0", "I0", "I1", "C0[]", "I0[]", "E0[]");
    private static final List<String> NAMES = List.of("a", "b", "c", "d", "e", "f", "g", "h");

    /// Wider types that each primitive type may become.
    private static final Map<String, List<String>> WIDER = Map.of(
            "byte", List.of("short", "int", "long", "float", "double"),
            "short", List.of("int", "long", "float", "double"),
            "char", List.of("int", "long", "float", "double"),
            "int", List.of("long", "double"),
            "float", List.of("double"));

    private final List<Type> types = new ArrayList<>();
    private int version;

    private Program() {}

    // ---- by chance

    static Program random(Random random) {
        Program program = new Program();
        int count = 4 + random.nextInt(6);
        for (int number = 0; number < count; number++) {
            Type above = number == 0 || random.nextInt(4) == 0 ? null : program.types.get(random.nextInt(number));
            if (above != null && above.depth == DEPTH_MAX) {
                above = null;
            }
            Type type = new Type(number, above);
            program.types.add(type);
            type.isGeneric = random.nextInt(4) == 0;
            type.hasInner = random.nextInt(3) == 0;
        }
        for (Type type : program.types) {
            boolean isExtended = program.types.stream().anyMatch(other -> other.superclass == type);
            type.isAbstract = isExtended && random.nextInt(3) == 0;
            type.isSealed = isExtended && random.nextInt(3) == 0;
        }
        for (Type type : program.types) {
            List<String> names = new ArrayList<>(NAMES);
            Collections.shuffle(names, random);
            for (String name : names.subList(0, random.nextInt(NAMES.size()))) {
                type.fields.add(new Field(name, program.anyType(random)));
            }
        }
        return program;
    }

    private String anyType(Random random) {
        return switch (random.nextInt(8)) {
            case 0, 1, 2 -> one(PRIMITIVE, random);
            case 3, 4 -> one(OF_THE_JDK, random);
            case 5 -> one(OWN, random);
            default -> one(types, random).name();
        };
    }

    private static <T> T one(List<T> choices, Random random) {
        return choices.get(random.nextInt(choices.size()));
    }

    /// Another version: fields have gone, come, changed places, and become wider.
    Program changed(Random random) {
        Program changed = new Program();
        for (Type type : types) {
            Type same =
                    new Type(type.number, type.superclass == null ? null : changed.types.get(type.superclass.number));
            same.isAbstract = type.isAbstract;
            same.isSealed = type.isSealed;
            same.isGeneric = type.isGeneric;
            same.hasInner = type.hasInner;
            changed.types.add(same);
        }
        changed.version = version + 1;
        for (Type type : types) {
            Type same = changed.types.get(type.number);
            for (Field field : type.fields) {
                if (random.nextInt(5) != 0) {
                    same.fields.add(
                            new Field(field.name, random.nextInt(3) == 0 ? wider(field.type, random) : field.type));
                }
            }
            // Never a name that was taken before: what is stored of that would come back.
            for (int added = random.nextInt(3); added > 0; added--) {
                same.fields.add(new Field("v" + changed.version + "_" + added, anyType(random)));
            }
            if (random.nextBoolean()) {
                Collections.shuffle(same.fields, random);
            }
        }
        return changed;
    }

    private String wider(String type, Random random) {
        if (WIDER.containsKey(type)) {
            return one(WIDER.get(type), random);
        }
        if (PRIMITIVE.contains(type)) {
            return type;
        }
        for (Type each : types) {
            if (each.name().equals(type) && each.superclass != null && random.nextBoolean()) {
                return each.superclass.name();
            }
        }
        return "Object";
    }

    // ---- what it has

    /// The types of all fields, by what they are called.
    Map<String, String> fields() {
        Map<String, String> found = new HashMap<>();
        for (Type type : types) {
            type.fields.forEach(field -> found.put(type.name() + "." + field.name, field.type));
            if (type.isGeneric) {
                found.put(type.name() + ".generic", "Object");
            }
            if (type.hasInner) {
                found.put(type.name() + ".Inner.value", "int");
                found.put(type.name() + ".Inner.next", "Object");
            }
        }
        found.putAll(Map.of("R0.x", "int", "R0.y", "Object", "R1.first", "C0", "R1.second", "E0"));
        return found;
    }

    /// The names of classes that objects can be made of: inner ones behind those around them.
    List<String> concrete() {
        List<String> names = new ArrayList<>();
        for (Type type : types) {
            if (!type.isAbstract) {
                names.add(type.name());
            }
        }
        for (Type type : types) {
            if (type.hasInner && types.stream().anyMatch(other -> !other.isAbstract && other.extendsType(type))) {
                names.add(type.name() + ".Inner");
            }
        }
        return names;
    }

    // ---- as Java

    String source() {
        String records = """
                record R0(int x, Object y) implements I0, Generated {
                    public void fields(BiConsumer<String, Object> r) { r.accept("R0.x", x); r.accept("R0.y", y); }
                    public void fill(Function<String, Object> v) {}
                }
                record R1(C0 first, E0 second) implements Generated {
                    public void fields(BiConsumer<String, Object> r) { r.accept("R1.first", first); r.accept("R1.second", second); }
                    public void fill(Function<String, Object> v) {}
                }
                enum E0 implements I1 { RED, GREEN { int shade() { return 1; } }, BLUE; int shade() { return 0; } }
                interface I0 {}
                interface I1 {}
                """;
        StringBuilder made = new StringBuilder("""
                public class Made {
                    @SuppressWarnings("unchecked")
                    public static Object make(String name, Object outer, Function<String, Object> v) {
                        return switch (name) {
                            case "R0" -> new R0((int) v.apply("R0.x"), v.apply("R0.y"));
                            case "R1" -> new R1((C0) v.apply("R1.first"), (E0) v.apply("R1.second"));
                """);
        for (String name : concrete()) {
            String around = name.replace(".Inner", "");
            made.append("case \"").append(name).append("\" -> ");
            made.append(name.equals(around) ? "new " + name + "()" : "((" + around + ") outer).new Inner()")
                    .append(";\n");
        }
        made.append("default -> throw new AssertionError(name); }; } }\n");
        return "import java.util.*; import java.util.function.*; import " + Generated.class.getCanonicalName() + ";\n"
                + made + records + types.stream().map(this::source).collect(Collectors.joining());
    }

    private String source(Type type) {
        List<String> permitted = types.stream()
                .filter(other -> other.superclass == type)
                .map(Type::name)
                .toList();
        boolean isLeafOfSealed = type.superclass != null && type.superclass.isSealed && !type.isSealed;
        StringBuilder out = new StringBuilder("@SuppressWarnings({\"unchecked\", \"rawtypes\"}) ");
        out.append(type.isSealed ? "sealed " : isLeafOfSealed ? "non-sealed " : "");
        out.append(type.isAbstract ? "abstract " : "").append("class ").append(type.name());
        out.append(type.isGeneric ? "<T>" : "");
        if (type.superclass != null) {
            out.append(" extends ").append(type.superclass.name()).append(type.superclass.isGeneric ? "<String>" : "");
        }
        out.append(" implements Generated").append(type.number % 3 == 0 ? ", I0" : type.number % 3 == 1 ? ", I1" : "");
        out.append(type.isSealed ? " permits " + String.join(", ", permitted) : "")
                .append(" {\n");
        List<Field> all = new ArrayList<>(type.fields);
        for (Field field : type.fields) {
            out.append("private ".repeat(field.name.compareTo("d") < 0 ? 1 : 0));
            out.append(field.type).append(' ').append(field.name).append(";\n");
        }
        if (type.isGeneric) {
            out.append("T generic;\n");
            all.add(new Field("generic", "T"));
        }
        if (type.hasInner) {
            out.append(inner(type.name()));
        }
        String above = type.superclass == null ? "" : "super.";
        out.append("public void fields(BiConsumer<String, Object> r) {");
        out.append(above.isEmpty() ? "" : "super.fields(r);");
        for (Field field : all) {
            out.append("r.accept(\"%s.%s\", %s);".formatted(type.name(), field.name, field.name));
        }
        out.append("}\npublic void fill(Function<String, Object> v) {");
        out.append(above.isEmpty() ? "" : "super.fill(v);");
        for (Field field : all) {
            out.append("%s = (%s) v.apply(\"%s.%s\");".formatted(field.name, field.type, type.name(), field.name));
        }
        return out.append("}\n}\n").toString();
    }

    private static String inner(String around) {
        return """
                class Inner implements Generated { int value; Object next;
                    public void fields(BiConsumer<String, Object> r) { r.accept("AROUND.Inner.outer", AROUND.this);
                        r.accept("AROUND.Inner.value", value); r.accept("AROUND.Inner.next", next); }
                    public void fill(Function<String, Object> v) { value = (int) v.apply("AROUND.Inner.value");
                        next = v.apply("AROUND.Inner.next"); } }
                """.replace("AROUND", around);
    }
}
