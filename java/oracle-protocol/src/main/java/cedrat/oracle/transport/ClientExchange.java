package cedrat.oracle.transport;

import cedrat.oracle.authentication.Credentials;
import cedrat.oracle.protocol.Mechanism;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslClient;
import javax.security.sasl.SaslException;

/// The client's side of one exchange that authenticates it. May block: Kerberos asks its key distribution centre. For
/// one thread at a time.
///
/// ```text
/// begin ──first──▶ waits for an answer ──next──▶ … ──the answer is the last one──▶ authenticated
/// ```
public final class ClientExchange implements AutoCloseable {
    private static final byte[] NOTHING = {};

    private final Mechanism mechanism;
    /// `null` without Kerberos.
    private final KerberosLogin login;
    private final SaslClient client;

    private ClientExchange(Mechanism mechanism, KerberosLogin login, SaslClient client) {
        this.mechanism = mechanism;
        this.login = login;
        this.client = client;
    }

    /// Begins an exchange with the server on this host, as its client names it.
    ///
    /// @throws IOException if the credentials cannot be used
    public static ClientExchange begin(Credentials credentials, String host) throws IOException {
        return credentials instanceof Credentials.Token
                ? plain(((Credentials.Token) credentials).file(), host)
                : kerberos((Credentials.Kerberos) credentials, host);
    }

    /// Checks that credentials may be sent over connections with, or without, TLS.
    ///
    /// @throws IllegalArgumentException if not
    public static void check(Credentials credentials, boolean hasTls) {
        if (hasTls || !(credentials instanceof Credentials.Token)) {
            return;
        }
        Credentials.Token token = (Credentials.Token) credentials;
        if (!token.isAllowedWithoutTls()) {
            throw new IllegalArgumentException("the token in " + token.file()
                    + " is sent over TLS only, because others could read it: use TLS, or allow connections without");
        }
    }

    private static ClientExchange plain(Path file, String host) throws IOException {
        String line;
        try {
            line = Files.readString(file).strip();
        } catch (CharacterCodingException binary) {
            throw new IOException("the token file " + file + " is not text in UTF-8", binary);
        } catch (IOException problem) {
            throw new IOException("cannot read the token in " + file + ": " + problem, problem);
        }
        int colon = line.indexOf(':');
        if (colon < 1 || colon == line.length() - 1 || line.indexOf('\n') >= 0) {
            throw new IOException("the token file " + file + " is invalid: it has one line, NAME:TOKEN");
        }
        SaslClient client = Sasl.createSaslClient(
                new String[] {Mechanism.PLAIN.name()}, null, "cedrat", host, Map.of(), callbacks -> {
                    for (Callback callback : callbacks) {
                        if (callback instanceof NameCallback) {
                            ((NameCallback) callback).setName(line.substring(0, colon));
                        } else if (callback instanceof PasswordCallback) {
                            char[] token = line.substring(colon + 1).toCharArray();
                            ((PasswordCallback) callback).setPassword(token);
                        } else {
                            throw new UnsupportedCallbackException(callback);
                        }
                    }
                });
        return new ClientExchange(Mechanism.PLAIN, null, created(client, Mechanism.PLAIN));
    }

    private static ClientExchange kerberos(Credentials.Kerberos kerberos, String host) throws IOException {
        KerberosLogin login = KerberosLogin.client(kerberos.principal(), kerberos.keytab());
        String[] mechanisms = {Mechanism.GSSAPI.name()};
        Map<String, String> properties = Map.of(Sasl.QOP, "auth", Sasl.SERVER_AUTH, "true");
        try {
            SaslClient client = login.call(
                    () -> Sasl.createSaslClient(mechanisms, null, kerberos.service(), host, properties, null));
            return new ClientExchange(Mechanism.GSSAPI, login, created(client, Mechanism.GSSAPI));
        } catch (Exception problem) {
            login.close();
            throw failed(problem);
        }
    }

    private static SaslClient created(SaslClient client, Mechanism mechanism) throws IOException {
        if (client == null) {
            throw new IOException("this JDK has no mechanism " + mechanism + ": see jdk.sasl.disabledMechanisms in its"
                    + " java.security");
        }
        return client;
    }

    /// The mechanism of all messages.
    public Mechanism mechanism() {
        return mechanism;
    }

    /// Returns the first message.
    ///
    /// @throws IOException if there is none, for example because Kerberos does not know the server
    public byte[] first() throws IOException {
        return client.hasInitialResponse() ? evaluate(NOTHING) : NOTHING;
    }

    /// Returns the answer to a message of the server; `null` if it was the last one, and both sides know each other.
    ///
    /// @throws IOException if the server is another one, or the message invalid
    public byte[] next(byte[] message, boolean isDone) throws IOException {
        byte[] answer = client.isComplete() && message.length == 0 ? NOTHING : evaluate(message);
        if (!isDone) {
            return answer;
        }
        if (!client.isComplete() || answer.length > 0) {
            throw new IOException("the server has ended the authentication before it was complete");
        }
        return null;
    }

    private byte[] evaluate(byte[] message) throws IOException {
        try {
            byte[] answer = login == null
                    ? client.evaluateChallenge(message)
                    : login.call(() -> client.evaluateChallenge(message));
            return answer == null ? NOTHING : answer;
        } catch (Exception problem) {
            throw failed(problem);
        }
    }

    /// The reason that Kerberos gives is in the innermost cause.
    private static IOException failed(Exception problem) {
        Throwable cause = problem;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        return new IOException("cannot authenticate: " + cause.getMessage(), problem);
    }

    @Override
    public void close() {
        try (login) {
            client.dispose();
        } catch (SaslException impossible) {
            throw new IllegalStateException("an exchange cannot be forgotten", impossible);
        }
    }
}
