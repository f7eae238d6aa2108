//! A certificate made at the start, and TLS with it.

use std::fmt;
use std::io;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A key and the certificate of it, signed by itself: clients must be told to trust it.
pub struct Identity {
    key: PrivateKeyDer<'static>,
    certificate: CertificateDer<'static>,
    pem: String,
}

impl Identity {
    /// A new one for these names and addresses.
    ///
    /// # Errors
    ///
    /// If a name is none, or the system gives no randomness.
    pub fn generate(names: impl IntoIterator<Item = impl Into<String>>) -> io::Result<Self> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(names).map_err(io::Error::other)?;
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).map_err(io::Error::other)?;
        Ok(Self { key, certificate: cert.der().clone(), pem: cert.pem() })
    }

    /// The certificate in the form that `curl --cacert` takes.
    pub fn certificate_pem(&self) -> &str {
        &self.pem
    }

    pub(crate) fn acceptor(self) -> io::Result<TlsAcceptor> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let mut config = builder
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate], self.key)
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl fmt::Debug for Identity {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificate", &self.pem).finish_non_exhaustive()
    }
}
