package cedrat.oracle.server;

import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;

/// The roles of clients by the names in their certificates. **Threads:** any may call.
///
/// A file of them has a line for each rule: a role, and a name as RFC 2253 writes it, in which `*` stands for any text
/// without a comma. The first rule that fits the whole name counts. Empty lines, and lines that begin with `#`, are
/// skipped.
public final class Roles {
    /// Everyone is an administrator.
    public static final Roles ALL = new Roles(List.of(new Rule(Role.ADMINISTRATOR, Pattern.compile(".*"))));

    private final List<Rule> rules;

    private record Rule(Role role, Pattern name) {}

    private Roles(List<Rule> rules) {
        this.rules = rules;
    }

    /// Reads a file of rules.
    ///
    /// @throws IOException if it cannot be read, or a line is no rule
    public static Roles read(Path file) throws IOException {
        List<String> lines;
        try {
            lines = Files.readAllLines(file);
        } catch (CharacterCodingException binary) {
            throw new IOException(file + " is not text in UTF-8", binary);
        } catch (IOException problem) {
            throw new IOException("cannot read the roles in " + file + ": " + problem, problem);
        }
        List<Rule> rules = new ArrayList<>();
        for (int number = 0; number < lines.size(); number++) {
            String line = lines.get(number).strip();
            if (!line.isEmpty() && !line.startsWith("#")) {
                rules.add(rule(line, file + ", line " + (number + 1)));
            }
        }
        return new Roles(rules);
    }

    private static Rule rule(String line, String place) throws IOException {
        String[] words = line.split("\\s+", 2);
        if (words.length < 2) {
            throw new IOException(place + ": write a role, and the name in a certificate");
        }
        for (Role role : Role.values()) {
            if (role.name().toLowerCase(Locale.ROOT).equals(words[0])) {
                String[] parts = words[1].split("\\*", -1);
                for (int part = 0; part < parts.length; part++) {
                    parts[part] = Pattern.quote(parts[part]);
                }
                return new Rule(role, Pattern.compile(String.join("[^,]*", parts)));
            }
        }
        throw new IOException(place + ": no role " + words[0] + "; choose client, cleaner or administrator");
    }

    /// Returns the role of the client with this name; `null` if it has none.
    Role of(String name) {
        for (Rule rule : rules) {
            if (rule.name.matcher(name).matches()) {
                return rule.role;
            }
        }
        return null;
    }
}
