//! The client library over TLS, by a connector of the test's own (rustls): a memcached that speaks
//! TLS, real certificates.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use larder_client::{
    Address, Client, Config, Connecting, Connection, Connector, Error, Server, SharedConnector,
    State, Store, dial,
};
use larder_tests::client::{config, patient, run, value};
use larder_tests::{Memcached, Papers};
use std::sync::Arc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

/// TLS to servers on TCP.
struct Tls(TlsConnector);

impl Connector for Tls {
    fn connect<'a>(&'a self, address: &'a Address) -> Connecting<'a> {
        Box::pin(async move {
            let plain = dial(address).await?;
            let Address::Tcp(host, _) = address else { return Ok(plain) };
            let name = ServerName::try_from(host.clone()).map_err(std::io::Error::other)?;
            Ok(Box::new(self.0.connect(name, plain).await?) as Box<dyn Connection>)
        })
    }
}

/// The servers of the tests.
trait Servers {
    fn memcached(&self) -> Memcached;
    fn connector(&self) -> SharedConnector;
}

impl Servers for Papers {
    /// Debian's memcached with the server's certificate.
    fn memcached(&self) -> Memcached {
        let (chain, key) = (self.path("server.pem"), self.path("server.key"));
        let options = format!("ssl_chain_cert={chain},ssl_key={key}");
        Memcached::debian(&["-Z", "-o", &options])
    }

    /// Believes what this authority signs.
    fn connector(&self) -> SharedConnector {
        Arc::new(Tls(TlsConnector::from(self.client()))).into()
    }
}

#[test]
fn values_of_every_size_go_through_tls() {
    let papers = Papers::issue();
    let servers = [papers.memcached(), papers.memcached()];
    let config = Config { connector: Some(papers.connector()), ..config(&servers.each_ref()) };
    run(async {
        let client = Client::new(config).unwrap();
        assert!(client.version().await.iter().all(Result::is_ok));
        let sizes = [0, 1, 100, 2048, 2049, 16_384, 16_385, 100_000, 1_000_000];
        let value = |size: usize| -> Bytes { (0..size).map(|n| (n % 251) as u8).collect() };
        for size in sizes {
            let key = format!("size-{size}");
            assert!(
                client
                    .set(key.as_bytes(), value(size), Store::default())
                    .await
                    .unwrap()
                    .is_stored()
            );
        }
        let keys: Vec<String> = sizes.iter().map(|size| format!("size-{size}")).collect();
        let asked: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        for (answer, size) in client.get_many(&asked).await.into_iter().zip(sizes) {
            assert!(answer.unwrap().unwrap().value == value(size), "{size}");
        }
    });
}

/// More than sockets and TLS hold: what TLS has taken and not passed on must be passed on. Through
/// a terminator, as memcached 1.6.18 forgets what it has decrypted behind a large value until more
/// comes (`openssl s_client` shows it as well).
#[test]
fn a_large_batch_is_flushed_to_its_end() {
    let papers = Papers::issue();
    let server = Memcached::debian(&[]);
    let terminator =
        larder_tests::client::server(papers.terminator("server", server.addr(), false));
    run(async {
        let config = Config { connector: Some(papers.connector()), ..patient(vec![terminator]) };
        let client = Client::new(config).unwrap();
        let large = Bytes::from(vec![b'x'; 500_000]);
        for n in 0..60 {
            let key = format!("{n}");
            client.set_quietly(key.as_bytes(), large.clone(), Store::default()).await.unwrap();
            client
                .set_quietly(format!("small-{n}").as_bytes(), key.into(), Store::default())
                .await
                .unwrap();
        }
        client.settle().await;
        assert_eq!(value(&client, "small-59").await.as_deref(), Some("59"));
        assert!(client.get(b"59").await.unwrap().unwrap().value == large);
        let view = &client.servers()[0];
        assert_eq!((view.errors, view.timeouts, view.connects), (0, 0, 1));
    });
}

#[test]
fn a_certificate_that_is_not_believed_is_a_failure_and_nothing_is_sent() {
    let (papers, others) = (Papers::issue(), Papers::issue());
    let server = papers.memcached();
    run(async {
        let config = Config { connector: Some(others.connector()), ..config(&[&server]) };
        let client = Client::new(config).unwrap();
        let refused = client.set(b"k", "secret".into(), Store::default()).await;
        assert_eq!(refused, Err(Error::Connect(std::io::ErrorKind::InvalidData)));
        assert_eq!(client.servers()[0].state, State::Down);
        let name = Config {
            connector: Some(papers.connector()),
            ..patient(vec![Server::tcp("localhost", server.addr().port())])
        };
        let refused = Client::new(name).unwrap().get(b"k").await;
        assert_eq!(
            refused,
            Err(Error::Connect(std::io::ErrorKind::InvalidData)),
            "of another name"
        );
    });
}
