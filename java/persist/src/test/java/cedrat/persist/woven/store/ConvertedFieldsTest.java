package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDate;
import java.util.Date;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// J10: fields whose type was another one when they were stored.
class ConvertedFieldsTest {
    private static final String FIRST = """
            static class Base { int cents = 250; String code = "42"; }
            static class Item extends Base { String day = "2026-11-28"; Date date = new Date(5000); long millis = 7000;
                Integer boxed = 3; int number = 8; List<Item> others = new ArrayList<>(List.of(this)); String none;
                boolean flag = true; String kept = "kept"; }
            static Object make() { return new Item(); }
            """;

    private static final String SECOND = """
            static class Base { double cents; int code; }
            static class Item extends Base { LocalDate day; Instant date; Instant millis; int boxed; String number;
                Item[] others; LocalDate none; String flag; Object kept; int changes; }
            static Object show(Object it) { Item i = (Item) it; return i.cents + " " + i.code + " " + i.day + " " + i.date
                + " " + i.millis + " " + i.boxed + " " + i.number + " " + (i.others[0] == i) + " " + i.none + " " + i.flag
                + " " + i.kept + " " + i.changes; }
            static Object day(Object it) { return ((Item) it).day; }
            static void change(Object it) { ((Item) it).changes++; }
            static void other(Object it) { ((Item) it).day = ((Item) it).day.plusDays(1); }
            """;

    private static final String SHOWN =
            "2.5 42 2026-11-28 1970-01-01T00:00:05Z 1970-01-01T00:00:07Z 3 8 true null true" + " kept ";

    @TempDir
    Path folder;

    private final MemoryGraph graph = new MemoryGraph();
    private final AtomicInteger conversions = new AtomicInteger();

    private <T> T in(Class<?> program, StoreOptions options, Function<Store, T> work) {
        try (Store store = Store.open(graph.open(), options.classLoader(program.getClassLoader()))) {
            return work.apply(store);
        }
    }

    private void make(String source) throws IOException {
        Class<?> program = Versions.compile(folder, source);
        in(program, new StoreOptions(), store -> store.setRoot("it", Versions.call(program, "make", null)));
    }

    private StoreOptions declared(Class<?> program) {
        return new StoreOptions()
                .convertField("Program$Base", "cents", int.class, cents -> cents / 100.0)
                .convertField("Program$Base", "code", String.class, Integer::valueOf)
                .convertField("Program$Item", "day", String.class, text -> {
                    conversions.incrementAndGet();
                    return LocalDate.parse(text);
                })
                .convertField("Program$Item", "date", Date.class, Date::toInstant)
                .convertField("Program$Item", "millis", long.class, Instant::ofEpochMilli)
                .convertField("Program$Item", "boxed", Integer.class, boxed -> boxed)
                .convertField("Program$Item", "number", int.class, String::valueOf)
                .convertField("Program$Item", "others", List.class, list -> array(program, list))
                .convertField("Program$Item", "none", String.class, LocalDate::parse)
                .convertField("Program$Item", "flag", boolean.class, String::valueOf);
    }

    private static Object array(Class<?> program, List<?> list) {
        Class<?> type;
        try {
            type = Class.forName("Program$Item", false, program.getClassLoader());
        } catch (ClassNotFoundException e) {
            throw new AssertionError(e);
        }
        return list.toArray((Object[]) java.lang.reflect.Array.newInstance(type, 0));
    }

    private static void transact(Class<?> program, String method, Object found, boolean isCommitted) {
        Transaction.run(transaction -> {
            Versions.call(program, method, found);
            if (!isCommitted) {
                transaction.rollback();
            }
        });
    }

    /// J10.
    @Test
    void declaredFieldsAreConverted() throws IOException {
        make(FIRST);
        Class<?> program = Versions.compile(folder, SECOND);
        for (int opening = 0; opening < 2; opening++) {
            in(program, declared(program), store -> {
                Object found = store.<Object>root("it", Object.class);
                assertEquals(SHOWN + 0, Versions.call(program, "show", found));
                assertEquals(SHOWN + 0, Versions.call(program, "show", found));
                transact(program, "other", found, false);
                assertEquals(SHOWN + 0, Versions.call(program, "show", found));
                return null;
            });
        }
        assertEquals(2, conversions.get());
    }

    /// J10: fields that were not read are converted by the commit that stores the object.
    @Test
    void changedObjectIsStoredWithNewTypes() throws IOException {
        make(FIRST);
        Class<?> program = Versions.compile(folder, SECOND);
        in(program, declared(program), store -> {
            transact(program, "change", store.<Object>root("it", Object.class), true);
            return null;
        });
        String after = SHOWN + 1;
        assertEquals(
                after,
                in(
                        program,
                        declared(program),
                        store -> Versions.call(program, "show", store.<Object>root("it", Object.class))));
        assertEquals(1, conversions.get());
        // All is stored with the present types, but the definition of the former ones stays.
        in(program, declared(program), store -> {
            assertEquals(after, Versions.call(program, "show", store.<Object>root("it", Object.class)));
            transact(program, "other", store.<Object>root("it", Object.class), true);
            assertTrue(Versions.call(program, "show", store.<Object>root("it", Object.class))
                    .toString()
                    .contains("2026-11-29"));
            return null;
        });
        assertEquals(1, conversions.get());
    }

    /// J10, J7: a converted value is not unloaded, also if it has become an object of the store.
    @Test
    void convertedValueSurvivesUnloading() throws IOException {
        make(FIRST);
        Class<?> program = Versions.compile(folder, SECOND);
        in(program, declared(program).loadedBytesMax(1), store -> {
            Object found = store.root("it", Object.class);
            assertEquals(SHOWN + 0, Versions.call(program, "show", found));
            for (int i = 0; i < 3; i++) {
                store.setRoot("day " + i, new Object[] {Versions.call(program, "day", found)});
                assertEquals(SHOWN + 0, Versions.call(program, "show", found));
            }
            return null;
        });
        assertEquals(1, conversions.get());
    }

    /// J10d: the class of a part is initialised before the conversion, which then runs again.
    @Test
    void converterMayCatchEachException() throws Exception {
        make("""
                static class Other { int number = 4; }
                static class Part { Other other = new Other(); }
                static class Item { Part part = new Part(); }
                static Object make() { return new Item(); }
                """);
        String second = """
                static class Other { int number; }
                static class Part { Other other; }
                static class Item { int part; }
                static Object number(Object it) {
                    try { return ((Part) it).other.number; } catch (Throwable e) { return -1; }
                }
                static Object plain(Object it) { return ((Part) it).other.number; }
                static Object show(Object it) { return ((Item) it).part; }
                """;
        for (String converter : List.of("number", "plain")) {
            // Each opening has classes of its own, which are not initialised.
            Class<?> fresh = Versions.compile(folder, second);
            Class<?> part = Class.forName("Program$Part", false, fresh.getClassLoader());
            var options = new StoreOptions()
                    .convertField("Program$Item", "part", part, found -> Versions.call(fresh, converter, found));
            Object shown =
                    in(fresh, options, store -> Versions.call(fresh, "show", store.<Object>root("it", Object.class)));
            assertEquals(4, shown);
        }
    }

    private String problems(String source, StoreOptions options) throws IOException {
        Class<?> program = Versions.compile(folder, source);
        Supplier<Object> opening = () -> in(program, options, store -> null);
        return assertThrows(StoreException.class, opening::get).getMessage();
    }

    /// J10.
    @Test
    void wrongDeclarationsAreReported() throws IOException {
        make("static class Item { String day = \"d\"; } static Object make() { return new Item(); }");
        String second = "static class Item { java.time.LocalDate day; }";
        String undeclared = problems(second, new StoreOptions());
        assertTrue(undeclared.contains("call StoreOptions.convertField"), undeclared);
        String other = problems(
                second, new StoreOptions().convertField("Program$Item", "day", Long.class, LocalDate::ofEpochDay));
        assertTrue(other.contains("converts it from java.lang.Long only"), other);
        String misspelt = problems(
                second, new StoreOptions().convertField("Program$Item", "dai", String.class, LocalDate::parse));
        assertTrue(misspelt.contains("the field Program$Item.dai, which the program lacks"), misspelt);
        String present =
                problems(second, new StoreOptions().convertField("Program$Item", "day", LocalDate.class, day -> day));
        assertTrue(present.contains("from its present type"), present);
    }

    /// J10.
    @Test
    void failedConversionIsReportedByTheRead() throws IOException {
        make(
                "static class Item { String day = \"d\"; String number = \"n\"; } static Object make() { return new Item(); }");
        Class<?> program = Versions.compile(
                folder,
                "static class Item { java.time.LocalDate day; int number; }"
                        + " static Object show(Object it) { return \"\" + ((Item) it).day; }");
        var options = new StoreOptions()
                .convertField("Program$Item", "day", String.class, text -> text)
                .convertField("Program$Item", "number", String.class, String::length);
        in(program, options, store -> {
            Object found = store.<Object>root("it", Object.class);
            var thrown = assertThrows(StoreException.class, () -> Versions.call(program, "show", found));
            assertTrue(thrown.getMessage().contains("has returned an object of java.lang.String"), thrown.getMessage());
            return null;
        });
        var throwing = new StoreOptions()
                .convertField("Program$Item", "day", String.class, LocalDate::parse)
                .convertField("Program$Item", "number", String.class, Integer::valueOf);
        in(program, throwing, store -> {
            var thrown = assertThrows(StoreException.class, () -> store.<Object>root("it", Object.class));
            assertTrue(thrown.getMessage().contains("convertField has thrown"), thrown.getMessage());
            return null;
        });
    }
}
