package cedrat.oracle.server;

import cedrat.oracle.tls.TlsOptions;
import java.io.IOException;
import java.nio.file.Path;

/// A certificate authority that issues options of TLS.
public final class Authority {
    private final cedrat.services.Authority authority;

    /// The one whose files are in this folder.
    public Authority(Path folder) throws IOException {
        authority = cedrat.services.Authority.in(folder);
    }

    /// Returns its own certificate.
    String certificate() throws IOException {
        return authority.certificate();
    }

    /// Issues a certificate for a client or server with this name, who accepts those of `trusted`. A server is at this
    /// host.
    public TlsOptions issue(String name, String host, Authority trusted) throws IOException {
        cedrat.services.Authority.Identity issued = authority.issue(name, host, trusted.authority);
        return new TlsOptions(issued.certificate(), issued.key(), issued.authorities());
    }
}
