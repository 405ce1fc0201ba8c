//! TLS with certificates of both sides.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use cedrat_txn::{Error, ReplicaError};

use crate::timed::Timed;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// The certificate and key of one side, and the authorities that it trusts for the other one.
#[derive(Clone)]
pub struct Credentials {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

impl Credentials {
    /// Reads files in PEM form: the certificate of this side with those between it and its authority, its private key, and the
    /// certificates of the trusted authorities.
    ///
    /// # Errors
    /// A file that cannot be read, or has nothing that is wanted; a key of another certificate.
    pub fn read(certificate: &Path, key: &Path, authorities: &Path) -> io::Result<Credentials> {
        let own = certificates(certificate)?;
        let of_key = PrivateKeyDer::from_pem_file(key).map_err(|error| invalid(key, error))?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(authorities)? {
            roots.add(authority).map_err(|error| invalid(authorities, error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider)).build();
        let verifier = verifier.map_err(|error| invalid(authorities, error))?;
        let versions = &[&rustls::version::TLS13];
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions);
        let server = server
            .and_then(|config| {
                config.with_client_cert_verifier(verifier).with_single_cert(own.clone(), of_key.clone_key())
            })
            .map_err(|error| invalid(certificate, error))?;
        let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
        let client = client
            .and_then(|config| config.with_root_certificates(roots).with_client_auth_cert(own, of_key))
            .map_err(|error| invalid(certificate, error))?;
        Ok(Credentials { server: Arc::new(server), client: Arc::new(client) })
    }
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|error| invalid(file, error))?;
    if read.is_empty() {
        return Err(invalid(file, "it has no certificate in PEM form"));
    }
    Ok(read)
}

fn invalid(file: &Path, why: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {why}", file.display()))
}

/// A TCP connection with TLS 1.3.
#[derive(Debug)]
pub struct TlsStream(Side);

#[derive(Debug)]
enum Side {
    Store(StreamOwned<ServerConnection, Timed>),
    Replica(StreamOwned<ClientConnection, TcpStream>),
}

impl TlsStream {
    /// Begins a connection with a replica. Returns it with the certificate that the replica has shown.
    pub(crate) fn of_store(mut stream: Timed, credentials: &Credentials) -> io::Result<(TlsStream, PeerCertificate)> {
        let mut connection = ServerConnection::new(Arc::clone(&credentials.server)).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        let shown = connection.peer_certificates().and_then(|chain| chain.first());
        let shown = shown.ok_or_else(|| io::Error::other("the replica has shown no certificate"))?;
        let certificate = PeerCertificate(shown.clone().into_owned());
        Ok((TlsStream(Side::Store(StreamOwned::new(connection, stream))), certificate))
    }

    pub(crate) fn of_replica(stream: TcpStream, host: &str, credentials: &Credentials) -> io::Result<TlsStream> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, format!("{host}: {error}")))?;
        let connection = ClientConnection::new(Arc::clone(&credentials.client), name).map_err(io::Error::other)?;
        Ok(TlsStream(Side::Replica(StreamOwned::new(connection, stream))))
    }
}

/// The certificate of a replica, which an authority that the store trusts has issued.
pub(crate) struct PeerCertificate(CertificateDer<'static>);

impl PeerCertificate {
    /// Checks that the certificate has the name of a replica. The error is the reason of a refusal.
    pub(crate) fn may_have(&self, name: &str) -> Result<(), String> {
        let refused = |why: &dyn fmt::Display| {
            format!(
                "its certificate is not for the name \"{name}\" ({why}): follow with a name that the certificate has"
            )
        };
        let wanted = ServerName::try_from(name).map_err(|error| refused(&error))?;
        let certificate = ParsedCertificate::try_from(&self.0).map_err(|error| refused(&error))?;
        verify_server_name(&certificate, &wanted).map_err(|error| refused(&error))
    }
}

/// Whether a connection has ended because one side refuses the certificate of the other one. With the same certificates, the next one
/// ends, too.
pub fn is_certificate_refused(error: &Error) -> bool {
    use rustls::AlertDescription as Alert;
    let Error::Replica(ReplicaError::Torn { source, .. }) = error else { return false };
    match source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => true,
        Some(rustls::Error::AlertReceived(alert)) => matches!(
            alert,
            Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::CertificateRequired
                | Alert::UnknownCA
                | Alert::AccessDenied
                | Alert::DecryptError
        ),
        _ => false,
    }
}

impl Read for TlsStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Side::Store(stream) => stream.read(bytes),
            Side::Replica(stream) => stream.read(bytes),
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Side::Store(stream) => stream.write(bytes),
            Side::Replica(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Side::Store(stream) => stream.flush(),
            Side::Replica(stream) => stream.flush(),
        }
    }
}
