package cedrat.oracle.server;

import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;

/// The roles and limits of clients by their names. **Threads:** any may call.
///
/// A file of them has a line for each rule: a role, and a name. The name is that in a certificate, as RFC 2253 writes
/// it, or `token:NAME`, or `kerberos:PRINCIPAL`. In it, `*` stands for any text without a comma and without a backslash
/// at its end, and in a principal also without a slash and an at sign. The first rule that fits the whole name counts.
/// A line of limits is `limits`, one or more of `connections=N`, `outstanding=N`, `bytes=N` and `rate=N`, and a name,
/// or nothing for all clients. Empty lines, and lines that begin with `#`, are skipped.
public final class Roles {
    /// Everyone is an administrator, without limits.
    public static final Roles ALL =
            new Roles(null, new Rules(List.of(new Rule<>(Role.ADMINISTRATOR, Pattern.compile(".*"))), List.of(), null));

    private static final String OF_KERBEROS = "kerberos:";

    /// In a certificate, a comma behind a backslash belongs to a part of the name and does not end it. A part that ends
    /// with a backslash fits no `*`, and so has no role that it should not have.
    private static final String NO_BACKSLASH_BEFORE = "(?<!\\\\)";

    /// `null` if there is none.
    private final Path file;
    private volatile Rules rules;

    private record Rule<T>(T value, Pattern name) {}

    private record Rules(List<Rule<Role>> roles, List<Rule<Limits>> limits, FileVersion version) {}

    private Roles(Path file, Rules rules) {
        this.file = file;
        this.rules = rules;
    }

    /// Reads a file of rules.
    ///
    /// @throws IOException if it cannot be read, or a line is no rule
    public static Roles read(Path file) throws IOException {
        return new Roles(file, load(file, FileVersion.of(file)));
    }

    private static Rules load(Path file, FileVersion version) throws IOException {
        List<String> lines;
        try {
            lines = Files.readAllLines(file);
        } catch (CharacterCodingException binary) {
            throw new IOException(file + " is not text in UTF-8", binary);
        } catch (IOException problem) {
            throw new IOException("cannot read the roles in " + file + ": " + problem, problem);
        }
        List<Rule<Role>> roles = new ArrayList<>();
        List<Rule<Limits>> limits = new ArrayList<>();
        for (int number = 0; number < lines.size(); number++) {
            String line = lines.get(number).strip();
            if (line.isEmpty() || line.startsWith("#")) {
                continue;
            }
            String place = file + ", line " + (number + 1);
            if (line.split("\\s", 2)[0].equals("limits")) {
                limits.add(limits(line, place));
            } else {
                roles.add(role(line, place));
            }
        }
        return new Rules(roles, limits, version);
    }

    /// Reads the file again if it has changed. Clients that are connected keep the role and limits of their hello.
    ///
    /// @throws IOException if it cannot be used. The rules from before stay in use until it changes again
    synchronized void refresh() throws IOException {
        if (file == null) {
            return;
        }
        FileVersion version = FileVersion.of(file);
        if (!version.equals(rules.version)) {
            rules = new Rules(rules.roles, rules.limits, version);
            rules = load(file, version);
        }
    }

    private static Rule<Role> role(String line, String place) throws IOException {
        String[] words = line.split("\\s+", 2);
        if (words.length < 2) {
            throw new IOException(place + ": write a role, and the name of a client");
        }
        for (Role role : Role.values()) {
            if (text(role).equals(words[0])) {
                return new Rule<>(role, name(words[1]));
            }
        }
        throw new IOException(
                place + ": no role " + words[0] + "; choose client, cleaner or administrator, or write limits");
    }

    private static Rule<Limits> limits(String line, String place) throws IOException {
        String rest = line.substring("limits".length()).strip();
        Limits limits = Limits.NONE;
        int count = 0;
        while (!rest.isEmpty()) {
            String[] words = rest.split("\\s+", 2);
            Limits.Kind kind = kind(words[0]);
            if (kind == null) {
                break;
            }
            String most = words[0].substring(words[0].indexOf('=') + 1);
            if (!most.matches("[1-9]\\d{0,17}")) {
                throw new IOException(place + ": invalid limit " + words[0] + ": write a number from 1 on");
            }
            limits = limits.with(kind, Long.parseLong(most));
            count++;
            rest = words.length < 2 ? "" : words[1];
        }
        if (count == 0) {
            throw new IOException(place + ": no limit; choose from connections=N, outstanding=N, bytes=N and rate=N");
        }
        return new Rule<>(limits, rest.isEmpty() ? Pattern.compile(".*") : name(rest));
    }

    /// Returns the kind of the limit that a word begins with; `null` if it is none.
    private static Limits.Kind kind(String word) {
        return Arrays.stream(Limits.Kind.values())
                .filter(kind -> word.startsWith(text(kind) + "="))
                .findFirst()
                .orElse(null);
    }

    private static String text(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT);
    }

    private static Pattern name(String pattern) {
        String[] parts = pattern.split("\\*", -1);
        for (int part = 0; part < parts.length; part++) {
            parts[part] = Pattern.quote(parts[part]);
        }
        String any = pattern.startsWith(OF_KERBEROS) ? "[^,/@]*" : "[^,]*";
        return Pattern.compile(String.join(any + NO_BACKSLASH_BEFORE, parts));
    }

    private static <T> T first(List<Rule<T>> rules, String name, T otherwise) {
        for (Rule<T> rule : rules) {
            if (rule.name.matcher(name).matches()) {
                return rule.value;
            }
        }
        return otherwise;
    }

    /// Returns the role of the client with this name; `null` if it has none.
    Role of(String name) {
        return first(rules.roles, name, null);
    }

    /// Returns the limits of the client with this name.
    Limits limits(String name) {
        return first(rules.limits, name, Limits.NONE);
    }
}
