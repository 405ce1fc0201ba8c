package cedrat.oracle.server;

import cedrat.oracle.authentication.Credentials;
import cedrat.oracle.protocol.AdminKind;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.protocol.ReplyReader;
import cedrat.oracle.tls.TlsOptions;
import cedrat.oracle.transport.ClientExchange;
import cedrat.oracle.transport.Tls;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/// The connection of an administrator's command to the server that serves. For one thread.
final class AdminConnection implements AutoCloseable {
    private static final int REQUEST_BYTES = 1 << 10;

    private final InetSocketAddress server;
    private final int timeoutMs;
    /// `null` without TLS.
    private final Tls tls;
    private Socket socket = new Socket();
    private final FrameWriter out = new FrameWriter(REQUEST_BYTES);
    private final ReplyReader reply = new ReplyReader();
    private final byte[] bytes = new byte[Protocol.FRAME_BYTES_MAX];
    private int from;
    private int end;
    private long newestId;
    private final long session = new SecureRandom().nextLong() | 1;

    /// Connects to the first of these servers that serves. Standby servers do not listen.
    ///
    /// @throws IOException if none does, or a file of TLS cannot be used
    static AdminConnection open(List<InetSocketAddress> servers, ClientSecurity security, int timeoutMs)
            throws IOException {
        Optional<TlsOptions> files = security.tls();
        Optional<Credentials> credentials = security.credentials();
        Tls tls = files.isPresent() ? Tls.client(files.get()) : null;
        List<String> problems = new ArrayList<>();
        for (InetSocketAddress server : servers) {
            AdminConnection connection = new AdminConnection(server, tls, timeoutMs);
            try {
                connection.connect();
                if (credentials.isPresent()) {
                    connection.authenticate(credentials.get());
                }
                connection.hello();
                return connection;
            } catch (IOException problem) {
                connection.socket.close();
                problems.add(problem.getMessage());
            }
        }
        throw new IOException(String.join("; ", problems));
    }

    private AdminConnection(InetSocketAddress server, Tls tls, int timeoutMs) {
        this.server = server;
        this.tls = tls;
        this.timeoutMs = timeoutMs;
    }

    /// HOST:PORT of the server.
    String address() {
        return server.getHostString() + ":" + server.getPort();
    }

    /// The name of the session of this connection.
    long session() {
        return session;
    }

    private void connect() throws IOException {
        try {
            socket.connect(new InetSocketAddress(server.getHostString(), server.getPort()), timeoutMs);
        } catch (UnknownHostException unknown) {
            throw unreachable("unknown host", unknown);
        } catch (IOException refused) {
            throw unreachable(refused.getMessage(), refused);
        }
        socket.setSoTimeout(timeoutMs);
        socket.setTcpNoDelay(true);
        if (tls != null) {
            try {
                socket = tls.over(socket, server);
            } catch (IOException failed) {
                throw unreachable("TLS: " + failed.getMessage(), failed);
            }
        }
    }

    private void authenticate(Credentials credentials) throws IOException {
        try (ClientExchange exchange = ClientExchange.begin(credentials, server.getHostString())) {
            byte[] message = exchange.first();
            while (message != null) {
                out.authenticate(++newestId, exchange.mechanism(), message);
                receive(Protocol.AUTHENTICATE);
                message = exchange.next(reply.message(), (reply.flags() & Protocol.FLAG_DONE) != 0);
            }
        }
    }

    private void hello() throws IOException {
        out.hello(++newestId, Protocol.VERSION_LOWEST, Protocol.VERSION, session);
        receive(Protocol.HELLO);
    }

    private IOException unreachable(String why, IOException cause) {
        return new IOException(
                "cannot reach an oracle at " + address() + " (" + why
                        + "): start one, or name the address of one that serves with --oracle",
                cause);
    }

    /// Returns the only entry of a reply.
    long[] entry(AdminKind kind, long about) throws IOException {
        out.admin(++newestId, kind, about);
        receive(Protocol.ADMIN);
        return entry(kind, 0);
    }

    /// Returns the entries of all pages from `first` on, or of as many pages as have `countMax` entries together.
    List<long[]> entries(AdminKind kind, long first, int countMax) throws IOException {
        List<long[]> entries = new ArrayList<>();
        long next = first;
        boolean isMore = true;
        while (isMore && entries.size() < countMax) {
            long about = next;
            out.admin(++newestId, kind, about);
            receive(Protocol.ADMIN);
            int count = (reply.values() - AdminKind.HEAD) / kind.width();
            for (int index = 0; index < count; index++) {
                entries.add(entry(kind, index));
            }
            isMore = reply.value(1) != 0;
            next = reply.value(2);
            if (isMore && next <= about) {
                throw problem("has answered with a page that begins at " + next + " behind one that begins at " + about
                        + ": update the server, or this command");
            }
        }
        return entries;
    }

    private long[] entry(AdminKind kind, int index) throws IOException {
        if (AdminKind.of(reply.value()) != kind) {
            throw problem("has answered another request: update the server, or this command");
        }
        long[] entry = new long[kind.width()];
        Arrays.setAll(entry, at -> reply.value(AdminKind.HEAD + index * kind.width() + at));
        return entry;
    }

    /// Retires a namespace: no sweep of it is awaited any more.
    void retire(long namespace) throws IOException {
        out.namespace(++newestId, namespace, Protocol.FLAG_RETIRED);
        receive(Protocol.NAMESPACE);
    }

    /// Receives parts of a backup: so many that are requested together. Each replaces the one before when `to` returns.
    void backup(boolean isFirst, int parts, BackupParts to) throws IOException {
        long first = newestId + 1;
        for (int part = 0; part < parts; part++) {
            out.admin(++newestId, AdminKind.BACKUP, isFirst && part == 0 ? 0 : 1);
        }
        send();
        for (int part = 0; part < parts; part++) {
            receive(Protocol.ADMIN, first + part);
            if (AdminKind.of(reply.value()) != AdminKind.BACKUP) {
                throw problem("has answered another request: update the server, or this command");
            }
            int state = (int) reply.value(AdminKind.HEAD);
            if (state == AdminKind.BACKUP_BUSY) {
                throw problem("makes another backup: wait until that command has ended");
            }
            if (state != AdminKind.BACKUP_GOES_ON) {
                throw problem(
                        "has ended the backup, because it was received too slowly: repeat it, nearer to the server");
            }
            to.part(reply.value(AdminKind.HEAD + 1), reply.value(AdminKind.HEAD + 2), bytesOfPart());
        }
    }

    /// Receives parts of a backup.
    interface BackupParts {
        /// The next bytes; and the lengths of the stream up to the end of its snapshot, and so far.
        void part(long whole, long total, byte[] next) throws IOException;
    }

    private byte[] bytesOfPart() throws IOException {
        int first = AdminKind.HEAD + AdminKind.BACKUP_HEAD;
        long count = reply.value(first - 1);
        if (count < 0 || count > (long) (reply.values() - first) * Long.BYTES) {
            throw problem("has answered with a part of " + count + " bytes, of which not all are there: update the"
                    + " server, or this command");
        }
        byte[] part = new byte[(int) count];
        for (int at = 0; at < part.length; at++) {
            part[at] = (byte) (reply.value(first + at / Long.BYTES) >>> at % Long.BYTES * Byte.SIZE);
        }
        return part;
    }

    /// Sends the request, and receives the reply to it.
    private void receive(byte kind) throws IOException {
        send();
        receive(kind, newestId);
    }

    private void send() throws IOException {
        socket.getOutputStream().write(out.bytes(), 0, out.length());
        out.clear();
    }

    private void receive(byte kind, long id) throws IOException {
        try {
            int length = reply.next(bytes, from, end);
            while (length == 0) {
                fill();
                length = reply.next(bytes, from, end);
            }
            from += length;
        } catch (SocketTimeoutException silent) {
            throw problem("has not answered for " + timeoutMs + " ms: see its log and its /health, or wait longer with"
                    + " --timeout-ms");
        } catch (ProtocolException invalid) {
            throw problem("is no oracle, or of another version (" + invalid.getMessage() + "): check the address");
        }
        if (reply.kind() == Protocol.ERROR) {
            throw refusal();
        }
        if (reply.request() != kind || reply.id() != id) {
            throw problem("has answered another request: update the server, or this command");
        }
    }

    private void fill() throws IOException {
        System.arraycopy(bytes, from, bytes, 0, end - from);
        end -= from;
        from = 0;
        int count = socket.getInputStream().read(bytes, end, bytes.length - end);
        if (count < 0) {
            throw problem("has closed the connection: see its log, and try again");
        }
        end += count;
    }

    private IOException refusal() {
        if (reply.errorCode() == ErrorCode.UNSUPPORTED) {
            return problem("does not support this command (" + reply.errorText() + "): update the server");
        }
        return problem("has refused the request: " + reply.errorText());
    }

    private IOException problem(String what) {
        return new IOException("the oracle at " + address() + " " + what);
    }

    /// Ends the session, so that the server does not wait for it to expire.
    @Override
    public void close() {
        Socket ending = socket;
        try (ending) {
            out.plain(Protocol.CLOSE, ++newestId);
            receive(Protocol.CLOSE);
        } catch (IOException lost) {
            // What was asked is answered, or has failed before. The session expires by itself.
        }
    }
}
