package cedrat.oracle.server;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import javax.security.sasl.SaslException;
import javax.security.sasl.SaslServer;

/// The server's side of the mechanism PLAIN (RFC 4616): one message, with a name and a token. For one thread at a time.
final class TokenExchange implements SaslServer {
    private final Tokens tokens;
    private Tokens.Token token;

    TokenExchange(Tokens tokens) {
        this.tokens = tokens;
    }

    /// Returns the token that the client has shown.
    Tokens.Token token() {
        return token;
    }

    @Override
    public String getMechanismName() {
        return "PLAIN";
    }

    /// The message is: the name of another client for whom it acts, which must be absent, a zero, the name of the
    /// client, a zero, the token.
    @Override
    public byte[] evaluateResponse(byte[] message) throws SaslException {
        int first = indexOfZero(message, 0);
        int second = first < 0 ? -1 : indexOfZero(message, first + 1);
        if (second < 0 || indexOfZero(message, second + 1) >= 0) {
            throw new SaslException("invalid message of PLAIN: it does not consist of three parts");
        }
        String name = new String(message, first + 1, second - first - 1, StandardCharsets.UTF_8);
        if (first > 0 && !name.equals(new String(message, 0, first, StandardCharsets.UTF_8))) {
            throw new SaslException("the client " + printable(name) + " acts for another one");
        }
        byte[] secret = Arrays.copyOfRange(message, second + 1, message.length);
        token = tokens.find(name, secret);
        Arrays.fill(secret, (byte) 0);
        if (token == null) {
            throw new SaslException("no such token of the name " + printable(name));
        }
        return null;
    }

    private static int indexOfZero(byte[] message, int from) {
        for (int at = from; at < message.length; at++) {
            if (message[at] == 0) {
                return at;
            }
        }
        return -1;
    }

    /// The name comes from a stranger, and goes to the log of the server.
    private static String printable(String name) {
        return name.substring(0, Math.min(name.length(), 64)).replaceAll("[^A-Za-z0-9._-]", "?");
    }

    @Override
    public boolean isComplete() {
        return token != null;
    }

    @Override
    public String getAuthorizationID() {
        if (token == null) {
            throw new IllegalStateException("the exchange is not complete");
        }
        return token.name();
    }

    @Override
    public byte[] unwrap(byte[] incoming, int offset, int length) {
        throw new IllegalStateException("PLAIN has no security layer");
    }

    @Override
    public byte[] wrap(byte[] outgoing, int offset, int length) {
        throw new IllegalStateException("PLAIN has no security layer");
    }

    @Override
    public Object getNegotiatedProperty(String name) {
        return null;
    }

    @Override
    public void dispose() {
        // It keeps no secret.
    }
}
