package cedrat.persist.javac;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// J15: every way of leaving a transaction statement, with what it does to fields, arrays, statics,
/// collections, locals and parameters (Transactions for Java, §2.1).
class LeavingTest {
    private enum End {
        COMMIT,
        ROLLBACK,
        DEFAULT
    }

    /// Further statements that a way out of a transaction ends.
    private enum Leaves {
        NOTHING,
        LOOPS,
        METHOD,
        METHOD_BY_EXCEPTION
    }

    /// Statements between a nested transaction and the one around it; other loops are around both.
    private enum Between {
        NOTHING("", ""),
        LOOPS(LOOPS_BEGIN, "}"),
        CATCH("try {", "} catch (Leaving e) { }");

        final String begin;
        final String end;

        Between(String begin, String end) {
            this.begin = begin;
            this.end = end;
        }

        boolean stops(Leaves leaves) {
            return switch (leaves) {
                case NOTHING -> true;
                case LOOPS -> this == LOOPS;
                case METHOD -> false;
                case METHOD_BY_EXCEPTION -> this == CATCH;
            };
        }
    }

    private record Way(String code, End end, Leaves leaves) {
        Way(String code, End end) {
            this(code, end, Leaves.NOTHING);
        }
    }

    private static final String LOOPS_BEGIN =
            "again: for (int round = 0; round < 1; round++) for (int inner = 0; inner < 1; inner++) {";

    private static final List<Way> WAYS = List.of(
            new Way("commit;", End.COMMIT),
            new Way("rollback;", End.ROLLBACK),
            new Way("", End.DEFAULT),
            new Way("break;", End.DEFAULT, Leaves.LOOPS),
            new Way("continue;", End.DEFAULT, Leaves.LOOPS),
            new Way("break again;", End.DEFAULT, Leaves.LOOPS),
            new Way("continue again;", End.DEFAULT, Leaves.LOOPS),
            new Way("break own;", End.DEFAULT),
            new Way("return;", End.DEFAULT, Leaves.METHOD),
            new Way("throw new Leaving();", End.DEFAULT, Leaves.METHOD_BY_EXCEPTION),
            new Way("leave();", End.DEFAULT, Leaves.METHOD_BY_EXCEPTION),
            new Way("if (field > 0) { commit; } else { rollback; }", End.COMMIT),
            new Way("if (field < 0) commit; else rollback;", End.ROLLBACK),
            new Way("if (field < 0) commit;", End.DEFAULT),
            new Way("if (field < 0) rollback;", End.DEFAULT),
            new Way("switch (local) { case 1: commit; default: rollback; }", End.COMMIT),
            new Way("switch (local) { case 0 -> commit; default -> rollback; }", End.ROLLBACK),
            new Way("switch (local) { case 0 -> commit; case 2 -> rollback; default -> { break; } }", End.DEFAULT),
            new Way("int v = switch (local) { case 1: yield 2; default: yield 3; }; if (v == 2) commit;", End.COMMIT),
            new Way("while (true) { commit; }", End.COMMIT),
            new Way("for (;;) { while (true) rollback; }", End.ROLLBACK),
            new Way("while (true) { if (local == 1) break; rollback; }", End.DEFAULT),
            new Way("for (int i = 0; ; i++) { if (i == 3) commit; }", End.COMMIT),
            new Way("block: { if (local == 1) break block; rollback; }", End.DEFAULT),
            new Way("synchronized (this) { commit; }", End.COMMIT),
            new Way("synchronized (this) { if (local == 1) leave(); }", End.DEFAULT, Leaves.METHOD_BY_EXCEPTION),
            new Way("try { throw new Leaving(); } catch (Leaving e) { commit; }", End.COMMIT),
            new Way("try { leave(); } finally { commit; }", End.COMMIT),
            new Way("try { commit; } finally { rollback; }", End.ROLLBACK),
            new Way("try { commit; } finally { continue; }", End.DEFAULT, Leaves.LOOPS),
            new Way("try { rollback; } finally { return; }", End.DEFAULT, Leaves.METHOD),
            new Way("try { commit; } finally { if (local == 1) leave(); }", End.DEFAULT, Leaves.METHOD_BY_EXCEPTION),
            new Way("try { rollback; } finally { field += 10; field -= 10; }", End.ROLLBACK),
            new Way("{ { commit; } }", End.COMMIT));

    private static final String HEAD = """
            import java.util.ArrayList;
            import java.util.List;
            class Ways {
                static class Leaving extends Exception { private static final long serialVersionUID = 1; }
                static int count;
                int field;
                final int[] array = new int[2];
                final List<String> list = new ArrayList<>();
                String seen;
                void leave() throws Leaving {
                    throw new Leaving();
                }
                void change() throws Leaving {
                    field++;
                    array[1]++;
                    count++;
                    list.add("more");
                }
                String state(int local, String parameter) {
                    return field + " " + array[1] + " " + count + " " + list.size() + " " + local + " " + parameter;
                }
            """;

    /// A method that leaves a transaction, and says what is left of its changes.
    private static String method(int number, String statement) {
        return """
                String way%1$d() {
                    count = 0;
                    try {
                        way%1$d("old");
                    } catch (Leaving e) {
                        seen += " thrown";
                    }
                    return seen;
                }
                void way%1$d(String parameter) throws Leaving {
                    int local = 0;
                    int outerLocal = 0;
                    try {
                        %2$s
                    } finally {
                        seen = state(local, parameter) + " " + outerLocal;
                    }
                }
                """.formatted(number, statement);
    }

    private static String alone(String header, Way way) {
        return """
                %1$s
                    own: %2$s {
                        change();
                        local = 1;
                        parameter = "new";
                        %3$s
                    }
                }
                """.formatted(LOOPS_BEGIN, header, way.code);
    }

    private static String nested(String outer, String outerEnd, Between between, String inner, Way way) {
        return """
                %1$s
                    %2$s {
                        change();
                        outerLocal = 1;
                        parameter = "outer";
                        %3$s
                            own: %4$s {
                                change();
                                local = 1;
                                parameter = "new";
                                if (local == 1) { %5$s }
                            }
                        %6$s
                        %7$s
                    }
                }
                """.formatted(
                        between == Between.LOOPS ? "{" : LOOPS_BEGIN,
                        outer,
                        between.begin,
                        inner,
                        way.code,
                        between.end,
                        outerEnd);
    }

    private record Case(String statement, String expected) {}

    @TempDir
    Path folder;

    private void leave(List<Case> cases, String debug) throws Exception {
        StringBuilder source = new StringBuilder(HEAD);
        for (int i = 0; i < cases.size(); i++) {
            source.append(method(i, cases.get(i).statement));
        }
        Class<?> ways = Compiled.load(folder, "Ways", source.append("}").toString(), debug);
        for (int i = 0; i < cases.size(); i++) {
            assertEquals(cases.get(i).expected, Compiled.run(ways, "way" + i), cases.get(i).statement);
        }
    }

    private static String header(boolean commits) {
        return commits ? "transaction (commit)" : "transaction";
    }

    private static boolean isKept(End end, boolean commitsByDefault) {
        return end == End.COMMIT || end == End.DEFAULT && commitsByDefault;
    }

    private static String expected(int changes, int local, String parameter, int outerLocal, boolean isThrown) {
        String field = changes + " ";
        return field.repeat(4) + local + " " + parameter + " " + outerLocal + (isThrown ? " thrown" : "");
    }

    private static List<Case> alone(String header, boolean commits) {
        List<Case> cases = new ArrayList<>();
        for (Way way : WAYS) {
            boolean isThrown = way.leaves == Leaves.METHOD_BY_EXCEPTION;
            String expected =
                    isKept(way.end, commits) ? expected(1, 1, "new", 0, isThrown) : expected(0, 0, "old", 0, isThrown);
            cases.add(new Case(alone(header, way), expected));
        }
        return cases;
    }

    /// J15.
    @ParameterizedTest
    @ValueSource(strings = {"-g", "-g:none"})
    void rollsBackUnlessItCommits(String debug) throws Exception {
        leave(alone("transaction", false), debug);
        leave(alone("transaction (rollback)", false), debug);
    }

    /// J15.
    @ParameterizedTest
    @ValueSource(strings = {"-g", "-g:none"})
    void commitsUnlessItRollsBack(String debug) throws Exception {
        leave(alone("transaction (commit)", true), debug);
    }

    /// J15: each way out of the inner one, with each end of the outer one where it is reached.
    @ParameterizedTest
    @CsvSource({"false, false", "false, true", "true, false", "true, true"})
    void aNestedOneIsLeftAsAnyOther(boolean outerCommits, boolean innerCommits) throws Exception {
        List<Case> cases = new ArrayList<>();
        for (Way way : WAYS) {
            for (Between between : Between.values()) {
                for (Way outerEnd : WAYS.subList(0, 3)) {
                    String statement = nested(header(outerCommits), outerEnd.code, between, header(innerCommits), way);
                    boolean isStopped = between.stops(way.leaves);
                    boolean isThrown = way.leaves == Leaves.METHOD_BY_EXCEPTION && !isStopped;
                    String expected;
                    if (!isKept(isStopped ? outerEnd.end : End.DEFAULT, outerCommits)) {
                        expected = expected(0, 0, "old", 0, isThrown);
                    } else if (isKept(way.end, innerCommits)) {
                        expected = expected(2, 1, "new", 1, isThrown);
                    } else {
                        expected = expected(1, 0, "outer", 1, isThrown);
                    }
                    cases.add(new Case(statement, expected));
                }
            }
        }
        leave(cases, "-g");
    }
}
