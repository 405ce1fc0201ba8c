package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.io.IOException;
import java.nio.file.Path;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// J10: classes that are others when the store is opened again.
class ClassChangeTest {
    @TempDir
    Path folder;

    private final MemoryGraph graph = new MemoryGraph();
    private final StoreOptions options = new StoreOptions();

    private <T> T in(Class<?> program, java.util.function.Function<Store, T> work) {
        try (Store store = Store.open(graph.open(), options.classLoader(program.getClassLoader()))) {
            return work.apply(store);
        }
    }

    private void make(String source) throws IOException {
        Class<?> program = Versions.compile(folder, source);
        in(program, store -> store.setRoot("it", Versions.call(program, "make", null)));
    }

    private Object show(String source) throws IOException {
        Class<?> program = Versions.compile(folder, source);
        return in(program, store -> Versions.call(program, "show", store.root("it", Object.class)));
    }

    /// Changes it in a transaction, and shows it after another opening.
    private Object change(String source) throws IOException {
        Class<?> program = Versions.compile(folder, source);
        in(program, store -> {
            Object found = store.root("it", Object.class);
            Transaction.run(() -> {
                Versions.call(program, "change", found);
            });
            return null;
        });
        return in(program, store -> Versions.call(program, "show", store.root("it", Object.class)));
    }

    private String problems(String source) throws IOException {
        Class<?> program = Versions.compile(folder, source);
        Supplier<Object> opening = () -> in(program, store -> null);
        return assertThrows(StoreException.class, opening::get).getMessage();
    }

    private static final String FIRST = """
            static class Base { int a = 1; Object b = "b"; }
            static class Item extends Base { byte tiny = -5; char letter = 'x'; int number = -7; float real = 1.5f;
                boolean flag = true; String text = "text"; List<Item> others = new ArrayList<>(List.of(this)); }
            static Object make() { return new Item(); }
            """;

    /// J10.
    @Test
    void fieldsAreAddedRemovedReorderedAndWidened() throws IOException {
        make(FIRST);
        String second = """
                static class Base { Object b; long added = 9; int a; }
                static class Item extends Base { Object more; List<Item> others; CharSequence text; double real; long number;
                    int letter; short tiny; }
                static Object show(Object it) { Item i = (Item) it; return i.a + " " + i.b + " " + i.added + " " + i.tiny
                    + " " + i.letter + " " + i.number + " " + i.real + " " + i.text + " " + (i.others.get(0) == i)
                    + " " + i.more; }
                static void change(Object it) { Item i = (Item) it; i.number = 1L << 40; i.more = i; i.added++; }
                """;
        assertEquals("1 b 0 -5 120 -7 1.5 text true null", show(second));
        assertTrue(((String) change(second)).startsWith("1 b 1 -5 120 1099511627776 1.5 text true Program$Item@"));
        String third = """
                static class Base { int a; Object b; long added; }
                static class Item extends Base { Object more; long number; }
                static Object show(Object it) { Item i = (Item) it; return i.a + " " + i.b + " " + i.added + " " + i.number
                    + " " + (i.more == i); }
                """;
        assertEquals("1 b 1 1099511627776 true", show(third));
    }

    /// J10: the superclass keeps its definition, whose order the definition of the subclass goes on.
    @Test
    void superclassFieldsMoveWhileSubclassGrows() throws IOException {
        String show =
                " static Object show(Object it) { Item i = (Item) it; return i.a + \" \" + i.b + \" \" + i.c + \" \" + i.d; }"
                        + " static void change(Object it) { Item i = (Item) it; i.a++; i.c = \"changed\"; }";
        make(
                "static class Base { int a = 1, b = 2; Object c = \"c\", d = \"d\"; } static class Item extends Base { int e; }"
                        + " static Object make() { return new Item(); }" + show);
        String second =
                "static class Base { Object d, c; int b, a; } static class Item extends Base { long f; int e; }" + show;
        assertEquals("1 2 c d", show(second));
        assertEquals("2 2 changed d", change(second));
        assertEquals("3 2 changed d", change(second));
    }

    /// J10: one class, of which objects of three definitions are there at a time.
    @Test
    void objectsOfSeveralDefinitionsCoexist() throws IOException {
        String methods = """
                static Object make() { return new Node(1); }
                static Object show(Object it) { String all = ""; for (Node n = (Node) it; n != null; n = n.next) all += n;
                    return all; }
                static void change(Object it) { Node n = (Node) it; while (n.next != null) n = n.next;
                    n.next = new Node(n.value + 1); }
                """;
        make("static class Node { int value; Node next; Node(int v) { value = v; } } " + methods);
        String second = "static class Node { Node next; String name = \"new\"; long value; Node(int v) { value = v; }"
                + " Node(long v) { value = v; } public String toString() { return value + name + \" \"; } } " + methods;
        assertEquals("1null 2new ", change(second));
        int classes = graph.classes();
        assertEquals("1null 2new 3new ", change(second));
        assertEquals(classes, graph.classes(), "the definition is there already");
        String third =
                "static class Node { String name; Node next; int more = 5; long value; Node(long v) { value = v; }"
                        + " public String toString() { return value + name + more + \" \"; } } " + methods;
        assertEquals("1null0 2new0 3new0 4null5 ", change(third));
    }

    /// J10.
    @Test
    void classesFieldsAndConstantsAreRenamed() throws IOException {
        make("""
                enum Color { RED, GREEN }
                static class Item { int number = 5; Color color = Color.GREEN; Item[] items = {this}; Object type = Item.class;
                    Object map = new EnumMap<>(Map.of(Color.RED, 1)); }
                static Object make() { return new Item(); }
                """);
        options.renameClass("Program$Item", "Program$Thing")
                .renameClass("Program$Color", "Program$Shade")
                .renameField("Program$Thing", "number", "count")
                .renameField("Program$Shade", "GREEN", "LIME");
        String second = """
                enum Shade { BLUE, LIME, RED }
                static class Thing { Object map; Object type; int count; Shade color; Thing[] items; Shade more; }
                static Object show(Object it) { Thing t = (Thing) it; return t.count + " " + t.color + " " + (t.items[0] == t)
                    + " " + t.items.getClass().getSimpleName() + " " + t.type + " " + t.map + " " + t.more; }
                static void change(Object it) { Thing t = (Thing) it; t.count++; t.more = Shade.BLUE; }
                """;
        assertEquals("5 LIME true Thing[] class Program$Thing {RED=1} null", show(second));
        assertEquals("6 LIME true Thing[] class Program$Thing {RED=1} BLUE", change(second));
    }

    private static final String WITH_GONE = """
            enum Color { RED, GREEN } enum Hue { WARM }
            static class Gone { int value = 3; }
            static class Base { int inherited = 4; }
            static class Item extends Base { int number = 5; Object gone = new Gone(); Object array = new Gone[1];
                Object hue = Hue.WARM; Object green = Color.GREEN; Object red = Color.RED; }
            static Object make() { return new Item(); }
            """;

    private static final String WITHOUT_GONE = """
            enum Color { RED }
            static class Item { Object array; Object hue; Object green; Object red; Object gone; int number; }
            static void change(Object it) { Item i = (Item) it; i.number++; }
            """;

    private void assertDeleted(String access, String why) {
        String show = WITHOUT_GONE + "static Object show(Object it) { return \"\" + ((Item) it)." + access + "; }";
        String message = assertThrows(StoreException.class, () -> show(show)).getMessage();
        assertTrue(message.contains(why), message);
    }

    /// J10c.
    @Test
    void declaredDeletionsOpenAndRefuseLoads() throws IOException {
        make(WITH_GONE);
        String problems = problems(WITHOUT_GONE);
        for (String call : new String[] {"Gone: ", "Base: ", "Hue: ", "constant GREEN: "}) {
            assertTrue(problems.contains(call), problems);
        }
        options.deleteClass("Program$Gone")
                .deleteClass("Program$Base")
                .deleteClass("Program$Hue")
                .deleteClass("Program$Never")
                .deleteConstant("Program$Color", "GREEN")
                .deleteConstant("Program$Color", "NEVER");
        assertDeleted("gone", "is of the class Program$Gone, which StoreOptions.deleteClass");
        assertDeleted("array", "is of the class [LProgram$Gone;, which StoreOptions.deleteClass");
        assertDeleted("hue", "is of the class Program$Hue, which StoreOptions.deleteClass");
        assertDeleted("green", "constant Program$Color.GREEN, which StoreOptions.deleteConstant");
        String show = "static Object show(Object it) { Item i = (Item) it; return i.number + \" \" + i.red; }";
        assertEquals("5 RED", show(WITHOUT_GONE + show));
        assertEquals("6 RED", change(WITHOUT_GONE + show));
    }

    /// J10c: a declaration that the program contradicts is a mistake.
    @Test
    void deletionOfPresentClassIsRefused() throws IOException {
        make(WITH_GONE);
        options.deleteClass("Program$Gone").deleteConstant("Program$Color", "RED");
        String problems = problems(WITH_GONE);
        assertTrue(problems.contains("the program has the class Program$Gone, which"), problems);
        assertTrue(problems.contains("Program$Color has the constant RED, which"), problems);
        assertTrue(!problems.contains("Hue"), problems);
    }

    /// J4.
    @Test
    void enumConstantsAreAddedAndReordered() throws IOException {
        String make = "static Object make() { return new ArrayList<>(List.of(Color.RED, Color.GREEN)); } ";
        make("enum Color { RED, GREEN } " + make);
        String second = """
                enum Color { GREEN, BLUE, RED { public String toString() { return "red"; } } }
                static Object show(Object it) { return it.toString(); }
                static void change(Object it) { ((List<Object>) it).add(Color.BLUE); }
                """;
        assertEquals("[red, GREEN]", show(second));
        assertEquals("[red, GREEN, BLUE]", change(second));
        assertTrue(problems("enum Color { RED, BLUE }").contains("Program$Color lacks the stored constant GREEN"));
    }

    /// J10.
    @Test
    void allMisfitsAreReportedAtOnce() throws IOException {
        make("""
                enum Color { RED }
                static class Gone { int value; }
                static class Base { int inherited; }
                static class Item extends Base { long number; int other; String text; Gone gone = new Gone(); Object[] array =
                    new Gone[0]; Object color = Color.RED; }
                static Object make() { return new Item(); }
                """);
        String problems = problems("""
                static class Color { }
                static class Base { int inherited; }
                static class Item { int number; Object other; Integer text; }
                """);
        for (String problem : new String[] {
            "Program$Item.number was J, and is I",
            "Program$Item.other was I, and is Ljava/lang/Object;",
            "Program$Item.text was Ljava/lang/String;, and is Ljava/lang/Integer;",
            "Program$Item no longer extends Program$Base",
            "the program lacks the stored class Program$Gone",
            "Program$Color was an enum, and is a class now",
        }) {
            assertTrue(problems.contains(problem), problem + " is not in " + problems);
        }
    }

    @Test
    void fieldsArePulledUpAndPushedDown() throws IOException {
        make("""
                static class Base { int a = 1; String down = "down"; }
                static class Item extends Base { String up = "up"; int number = 2; }
                static Object make() { return new Item(); }
                """);
        String second = """
                static class Base { int a; String up; }
                static class Item extends Base { long number; String down; }
                static Object show(Object it) { Item i = (Item) it; return i.a + i.down + i.up + i.number; }
                static void change(Object it) { ((Item) it).number++; }
                """;
        assertEquals("1downup2", show(second));
        assertEquals("1downup3", change(second));
    }

    @Test
    void newNameOfUnknownFieldIsRefused() throws IOException {
        make("static class Item { String adress = \"a\"; } static Object make() { return new Item(); }");
        options.renameField("Program$Item", "adress", "addres");
        String problems = problems("static class Item { String address; }");
        assertTrue(problems.contains("Program$Item has no field addres"), problems);
    }

    @Test
    void newNameOfUnknownClassIsRefused() throws IOException {
        make(
                "enum Color { RED } static class Item { Object color = Color.RED; } static Object make() { return new Item(); }");
        options.renameClass("Program$Item", "Program$Thng").renameField("Program$Color", "RED", "SCARLETT");
        String problems = problems("enum Color { SCARLET } static class Thing { Object color; }");
        assertTrue(
                problems.contains(
                        "the program lacks the class Program$Thng, the new name of Program$Item in StoreOptions"),
                problems);
        assertTrue(
                problems.contains(
                        "Program$Color has no constant SCARLETT, the new name of RED in StoreOptions.renameField"),
                problems);
    }

    private static final String MISSPELT = "static class Cust { String adress = \"Elm\"; int age = 41; }"
            + " static Object make() { return new Cust(); }";
    private static final String CUSTOMERS =
            " static Object show(Object it) { Cust c = (Cust) it; return c.address + c.age; }"
                    + " static void change(Object it) { ((Cust) it).age++; }";
    private static final String SPELT = "static class Cust { String address; int age; }" + CUSTOMERS;

    /// J10.
    @Test
    void oldNameOfUnknownFieldRefusesDrop() throws IOException {
        make(MISSPELT);
        options.renameField("Program$Cust", "adres", "address");
        String problems = problems(SPELT);
        assertTrue(
                problems.contains("StoreOptions.renameField(\"Program$Cust\", \"adres\", \"address\") "
                        + "matches no field in the store, and these fields would be dropped: Program$Cust.adress"),
                problems);
        options.renameField("Program$Cust", "adress", "address");
        assertEquals("Elm41", show(SPELT));
    }

    @Test
    void declarationOfOtherClassRefusesDrop() throws IOException {
        make("static class Base { String adress = \"Elm\"; } static class Cust extends Base { int age = 41; }"
                + " static Object make() { return new Cust(); }");
        String second = "static class Base { String address; } static class Cust extends Base { int age; }" + CUSTOMERS;
        String dropped = "these fields would be dropped: Program$Base.adress";
        options.renameField("Program$Cust", "adress", "address");
        String problems = problems(second);
        assertTrue(problems.contains("renameField(\"Program$Cust\"") && problems.contains(dropped), problems);
        options.renameField("Program$Bse", "adress", "address");
        problems = problems(second);
        assertTrue(problems.contains("renameField(\"Program$Bse\"") && problems.contains(dropped), problems);
    }

    /// J10.
    @Test
    void aDeclarationStaysWhenObjectsAreConverted() throws IOException {
        make(MISSPELT);
        options.renameField("Program$Cust", "adress", "address");
        assertEquals("Elm42", change(SPELT));
        assertEquals("Elm42", show(SPELT), "a store that was converted");
        // What the program drops on purpose does not make the declaration a mistake.
        assertEquals(
                "Elm",
                show("static class Cust { String address; }"
                        + " static Object show(Object it) { return ((Cust) it).address; }"));
    }

    @Test
    void aStoreWrittenAfterTheRenameOpens() throws IOException {
        make(
                "static class Cust { String address = \"Elm\"; int age = 41; int gone; } static Object make() { return new Cust(); }");
        options.renameField("Program$Cust", "adress", "address");
        assertEquals("Elm41", show(SPELT));
        // The field is removed, and its declaration forgotten.
        assertEquals(
                "41",
                show(
                        "static class Cust { int age; } static Object show(Object it) { return \"\" + ((Cust) it).age; }"));
    }

    /// An abstract class has no objects that it could be dropped from.
    @Test
    void fieldPushedDownIsNotDropped() throws IOException {
        make("static abstract class Base { String address = \"Elm\"; } static class Cust extends Base { int age = 41; }"
                + " static Object make() { return new Cust(); }");
        options.renameField("Program$Base", "x", "y");
        String second =
                "static abstract class Base { int y; } static class Cust extends Base { int age; String address; }"
                        + CUSTOMERS;
        assertEquals("Elm41", show(second));
    }

    @Test
    void storeOlderThanFieldOpensWithoutDrop() throws IOException {
        make("static class Cust { int age = 41; } static Object make() { return new Cust(); }");
        options.renameField("Program$Cust", "adress", "address")
                .renameField("Program$Elsewhere", "adress", "address")
                .renameField("Program$Other", "age", "years");
        assertEquals("null41", show(SPELT + " static class Other { int years; }"));
    }

    /// A field got a name that another field has had, while the declaration of that is still there.
    @Test
    void fieldCannotHaveTwoOldNames() throws IOException {
        String both = "static class Cust { String address = \"now\", adress = \"then\"; int age = 41; }";
        make(both + " static Object make() { return new Cust(); }");
        options.renameField("Program$Cust", "adress", "address");
        for (String program : new String[] {both, SPELT}) {
            String problems = problems(program);
            assertTrue(problems.contains("Program$Cust.address is both address and adress of the store"), problems);
        }
    }

    /// The declaration is of the class that has the field now, and the store has it in another one.
    @Test
    void aFieldIsRenamedAndPulledUp() throws IOException {
        make("static class Base { int gone; } static class Cust extends Base { String adress = \"Elm\"; int age = 41; }"
                + " static Object make() { return new Cust(); }");
        options.renameField("Program$Base", "adress", "address").renameField("Program$Elsewhere", "adress", "address");
        String second = "static class Base { String address; } static class Cust extends Base { int age; }" + CUSTOMERS;
        assertEquals("Elm41", show(second));
    }

    /// J10.
    @Test
    void changeOfClassKindIsRefused() throws IOException {
        String first = """
                static class A { int k = 1; } static class B { int k = 1; } static class C { int k = 1; } static class D { }
                record E(int k) { } record F(int k) { } record G(int k) { } enum H { X } enum I { X } enum J { X }
                static Object make() { return List.of(new A(), new B(), new C(), new D(), new E(1), new F(1), new G(1), H.X, I.X,
                    J.X); }
                """;
        make(first);
        String problems = problems("""
                record A(int k) { } interface B { } @interface C { } enum D { X } static class E { int k; } interface F { }
                enum G { X; int k; } static class H { } record I() { } interface J { }
                """);
        for (String problem : new String[] {
            "A was a class, and is a record now: keep the class, and give the record another name",
            "B was a class, and is an interface now: keep the class, and give the interface another name",
            "C was a class, and is an interface now: keep the class, and give the interface another name",
            "D was a class, and is an enum now: keep the class, and give the enum another name",
            "E was a record, and is a class now: keep the record, and give the class another name",
            "F was a record, and is an interface now: keep the record, and give the interface another name",
            "G was a record, and is an enum now: keep the record, and give the enum another name",
            "H was an enum, and is a class now: keep the enum, and give the class another name",
            "I was an enum, and is a record now: keep the enum, and give the record another name",
            "J was an enum, and is an interface now: keep the enum, and give the interface another name",
        }) {
            assertTrue(problems.contains("\n  - Program$" + problem), problem + " is not in " + problems);
        }
        assertEquals(11, problems.split("\n").length, problems);
        assertEquals("10", show(first + " static Object show(Object it) { return \"\" + ((List<?>) it).size(); }"));
    }

    private static final String PLACES =
            "static Object make() { List<Object> all = new ArrayList<>(); change(all); return all; }"
                    + " static Object show(Object it) { return \"\" + ((List<?>) it).size(); } ";
    private static final String ITEMS = "static void change(Object it) { ((List<Object>) it).add(new Item()); } ";
    private static final String ABSTRACT_BASE =
            "static abstract class Base { int k = 4; } static class Item extends Base { int more; } " + ITEMS + PLACES;

    @Test
    void classWithObjectsCannotBecomeAbstract() throws IOException {
        make("static class Item { int k = 4; } " + ITEMS + PLACES);
        String problems = problems("static abstract class Item { int k; }");
        assertTrue(
                problems.endsWith(
                        "\n  - Program$Item is abstract now, and was concrete when it was stored: make it concrete, or "
                                + "keep a class of this name and give the abstract one another name"),
                problems);
    }

    /// J10: objects of a class may be stored though it is the superclass of others.
    @Test
    void concreteSuperclassCannotBecomeAbstract() throws IOException {
        make("static class Base { int k = 4; } static class Item extends Base { int more; }"
                + " static void change(Object it) { ((List<Object>) it).add(new Item()); ((List<Object>) it).add(new Base()); } "
                + PLACES);
        String problems = problems(ABSTRACT_BASE);
        assertTrue(problems.contains("Program$Base is abstract now"), problems);
    }

    /// J10.
    @Test
    void abstractSuperclassMayBecomeConcrete() throws IOException {
        make(ABSTRACT_BASE);
        assertEquals("2", change(ABSTRACT_BASE));
        int classes = graph.classes();
        assertEquals("3", change(ABSTRACT_BASE));
        assertEquals(classes, graph.classes(), "the definitions are there already");
        String concrete = "static class Base { int k = 4; } static class Item extends Base { int more; }"
                + " static void change(Object it) { ((List<Object>) it).add(new Base()); } " + PLACES;
        assertEquals("4", change(concrete));
        assertEquals("5", change(concrete));
        String problems = problems(ABSTRACT_BASE);
        assertTrue(problems.contains("Program$Base is abstract now"), problems);
    }

    /// Stores may have definitions that do not say whether their class was abstract.
    @Test
    void undeclaredAbstractnessHoldsForSuperclassesOnly() throws IOException {
        make(ABSTRACT_BASE);
        graph.clearVersionsOfClasses();
        int classes = graph.classes();
        assertEquals("2", change(ABSTRACT_BASE));
        assertEquals(classes, graph.classes(), "the definitions are there already");
        String problems =
                problems("static abstract class Base { int k; } static abstract class Item extends Base { int more; }");
        assertTrue(problems.contains("Program$Item is abstract now"), problems);
        assertFalse(problems.contains("Program$Base"), problems);
    }
}
