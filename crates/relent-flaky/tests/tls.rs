//! TLS with a certificate made at the start.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use relent_flaky::{Flaky, Handle, Identity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A connection that trusts this certificate and no other.
async fn connect(server: &Handle, pem: &str, protocol: &str) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(server.addr()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

#[test]
fn both_protocols_are_served_and_broken_over_tls() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = async {
        let identity = Identity::generate(["localhost"]).unwrap();
        let pem = identity.certificate_pem().to_owned();
        let script = "503,reset,429".parse().unwrap();
        let server = Flaky::builder().script(script).tls(identity).start().await.unwrap();
        assert!(server.url().starts_with("https://127.0.0.1:"));

        let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let mut stream = connect(&server, &pem, "http/1.1").await;
        stream.write_all(request).await.unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 503");

        let mut stream = connect(&server, &pem, "http/1.1").await;
        stream.write_all(request).await.unwrap();
        let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);

        let stream = connect(&server, &pem, "h2").await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::get("https://localhost/").body(()).unwrap();
        let (response, _) = client.send_request(request, true).unwrap();
        assert_eq!(response.await.unwrap().status(), 429);
        server.shutdown().await;
    };
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), test).await.unwrap() });
}
