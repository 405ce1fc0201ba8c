package cedrat.oracle.server;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;

/// The tokens by which clients authenticate themselves, in a file. **Threads:** any may call.
///
/// A line is `NAME DATE SALT HASH`: the name of a client, the day when the token was made, and SHA-256 of the salt and
/// the token. A token is 32 random bytes, so a hash that is slow to compute would add nothing. A name may have
/// several tokens, so that one can replace another while clients run. Empty lines, and lines that begin with `#`,
/// are ignored.
final class Tokens {
    private static final int SECRET_BYTES = 32;
    private static final int SALT_BYTES = 16;
    private static final String NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}";
    private static final String HEAD =
            "# Tokens of clients of a Cedrat oracle. Change them with `cedrat-oracle token`.";
    private static final SecureRandom RANDOM = new SecureRandom();
    /// Compared with if there is no such name, so that the time of an answer does not tell.
    private static final Token NO_TOKEN = new Token("", LocalDate.EPOCH, new byte[SALT_BYTES], new byte[SECRET_BYTES]);

    private final Path file;
    private volatile Loaded loaded;

    private record Loaded(List<Token> tokens, Set<String> ids, FileVersion version) {}

    /// A token without its secret.
    record Token(String name, LocalDate made, byte[] salt, byte[] hash) {
        /// Distinguishes it from the other tokens.
        String id() {
            return Base64.getUrlEncoder().withoutPadding().encodeToString(salt);
        }

        private String line() {
            return name + " " + made + " " + id() + " "
                    + Base64.getUrlEncoder().withoutPadding().encodeToString(hash);
        }
    }

    /// Reads the file.
    ///
    /// @throws IOException if it cannot be read, or a line is invalid
    Tokens(Path file) throws IOException {
        this.file = file;
        FileVersion version = FileVersion.of(file);
        load(version);
    }

    private void load(FileVersion version) throws IOException {
        List<Token> tokens = tokens(file, lines(file));
        loaded = new Loaded(tokens, tokens.stream().map(Token::id).collect(Collectors.toSet()), version);
    }

    /// Reads the file again if it has changed. Returns whether it has.
    ///
    /// @throws IOException if it cannot be used. The tokens from before stay in use until it changes again
    synchronized boolean refresh() throws IOException {
        FileVersion version = FileVersion.of(file);
        if (version.equals(loaded.version)) {
            return false;
        }
        loaded = new Loaded(loaded.tokens, loaded.ids, version);
        load(version);
        return true;
    }

    /// Returns the token of this name and secret; `null` if there is none.
    Token find(String name, byte[] secret) {
        List<Token> ofName =
                loaded.tokens.stream().filter(token -> token.name.equals(name)).toList();
        Token found = null;
        for (Token token : ofName.isEmpty() ? List.of(NO_TOKEN) : ofName) {
            if (MessageDigest.isEqual(hash(token.salt, secret), token.hash) && token != NO_TOKEN) {
                found = token;
            }
        }
        return found;
    }

    /// Whether there is a token with this id.
    boolean has(String id) {
        return loaded.ids.contains(id);
    }

    private static byte[] hash(byte[] salt, byte[] secret) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(salt);
            return digest.digest(secret);
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException("every JDK has SHA-256", impossible);
        }
    }

    // ---- the file ---------------------------------------------------------------------------------------------------

    /// Adds a token of this name. Returns the line that its client needs. Creates the file if there is none.
    ///
    /// @throws IOException if the file cannot be changed; nothing has changed then
    static String add(Path file, String name) throws IOException {
        if (!name.matches(NAME)) {
            throw new IOException("invalid name " + name
                    + ": choose 1 to 64 letters, digits, dots, hyphens and underscores, a letter or digit first");
        }
        String secret = Base64.getUrlEncoder().withoutPadding().encodeToString(random(SECRET_BYTES));
        byte[] salt = random(SALT_BYTES);
        Token token = new Token(
                name, LocalDate.now(ZoneOffset.UTC), salt, hash(salt, secret.getBytes(StandardCharsets.UTF_8)));
        change(file, lines -> {
            List<String> changed = new ArrayList<>(lines.isEmpty() ? List.of(HEAD) : lines);
            changed.add(token.line());
            return changed;
        });
        return name + ":" + secret;
    }

    /// Returns the tokens of a file.
    static List<Token> list(Path file) throws IOException {
        return tokens(file, lines(file));
    }

    /// Removes the tokens of this name; all but the last one if `isOlderOnly`. Returns their number.
    static int remove(Path file, String name, boolean isOlderOnly) throws IOException {
        List<Token> ofName =
                list(file).stream().filter(token -> token.name.equals(name)).toList();
        List<Token> removed = isOlderOnly && !ofName.isEmpty() ? ofName.subList(0, ofName.size() - 1) : ofName;
        if (!removed.isEmpty()) {
            Set<String> lines = removed.stream().map(Token::line).collect(Collectors.toSet());
            change(file, before -> before.stream()
                    .filter(line ->
                            !lines.contains(String.join(" ", line.strip().split("\\s+"))))
                    .toList());
        }
        return removed.size();
    }

    private static byte[] random(int count) {
        byte[] bytes = new byte[count];
        RANDOM.nextBytes(bytes);
        return bytes;
    }

    private static List<String> lines(Path file) throws IOException {
        try {
            return Files.readAllLines(file);
        } catch (CharacterCodingException binary) {
            throw new IOException(file + " is not text in UTF-8", binary);
        } catch (NoSuchFileException missing) {
            throw new IOException(
                    "the file of tokens " + file + " does not exist: `cedrat-oracle token add` creates it", missing);
        } catch (IOException problem) {
            throw new IOException("cannot read the tokens in " + file + ": " + problem, problem);
        }
    }

    private static List<Token> tokens(Path file, List<String> lines) throws IOException {
        List<Token> tokens = new ArrayList<>();
        for (int number = 0; number < lines.size(); number++) {
            String line = lines.get(number).strip();
            if (!line.isEmpty() && !line.startsWith("#")) {
                tokens.add(token(line, file + ", line " + (number + 1)));
            }
        }
        return tokens;
    }

    private static Token token(String line, String place) throws IOException {
        String[] words = line.split("\\s+");
        try {
            if (words.length == 4 && words[0].matches(NAME)) {
                byte[] salt = Base64.getUrlDecoder().decode(words[2]);
                byte[] hash = Base64.getUrlDecoder().decode(words[3]);
                if (salt.length == SALT_BYTES && hash.length == SECRET_BYTES) {
                    return new Token(words[0], LocalDate.parse(words[1]), salt, hash);
                }
            }
        } catch (IllegalArgumentException | DateTimeParseException invalid) {
            throw new IOException(place + ": no token: " + invalid.getMessage(), invalid);
        }
        throw new IOException(place + ": no token: `cedrat-oracle token add` writes such lines");
    }

    /// The server may be another user than the one who changes its tokens.
    private static void keepAccess(Path from, Path to) throws IOException {
        PosixFileAttributes before = Files.readAttributes(from, PosixFileAttributes.class);
        PosixFileAttributeView view = Files.getFileAttributeView(to, PosixFileAttributeView.class);
        PosixFileAttributes now = view.readAttributes();
        if (!now.group().equals(before.group())) {
            view.setGroup(before.group());
        }
        if (!now.owner().equals(before.owner())) {
            view.setOwner(before.owner());
        }
        view.setPermissions(before.permissions());
    }

    /// Replaces the file in one step. The new file, which exists meanwhile, keeps others from changing it too.
    private static void change(Path file, UnaryOperator<List<String>> change) throws IOException {
        Path next = file.resolveSibling(file.getFileName() + ".new");
        try (FileChannel out = FileChannel.open(
                next,
                EnumSet.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")))) {
            List<String> lines = Files.exists(file) ? lines(file) : List.of();
            tokens(file, lines);
            ByteBuffer text = StandardCharsets.UTF_8.encode(String.join("\n", change.apply(lines)) + "\n");
            while (text.hasRemaining()) {
                out.write(text);
            }
            if (Files.exists(file)) {
                keepAccess(file, next);
            }
            out.force(true);
            Files.move(next, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            // Otherwise a token that was removed may be there again after a power failure.
            try (FileChannel directory = FileChannel.open(file.toAbsolutePath().getParent(), StandardOpenOption.READ)) {
                directory.force(true);
            }
        } catch (FileAlreadyExistsException busy) {
            throw new IOException(
                    "cannot change " + file + ": " + next + " exists, because another command changes it now, or was"
                            + " interrupted; in that case remove " + next,
                    busy);
        } catch (IOException problem) {
            Files.deleteIfExists(next);
            throw new IOException("cannot change " + file + ": " + problem.getMessage(), problem);
        }
    }
}
