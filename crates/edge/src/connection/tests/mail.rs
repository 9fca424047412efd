//! Mail to hosts with a mail sink: the server speaks first, and nothing is dialled.

use std::{net::SocketAddr, sync::atomic::AtomicUsize};

use hothouse_model::policy::{AnsweredHere, Answerer, NamedLists, OwnAddresses, RequestLine};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::{Sendable, ledger};

/// Covers every host, and greets as a mail server does.
struct Greeter(Arc<AtomicUsize>);

impl Terminate for Greeter {
    fn covers(&self, _: &str, _: u16) -> bool {
        true
    }

    fn names(&self) -> Vec<HostName> {
        Vec::new()
    }

    fn admits(&self, _: &HostName, _: u16, _: &RequestLine<'_>, _: Answerer) -> Result<(), String> {
        Ok(())
    }

    fn serve(&self, mut client: Rewound, _: Endpoint, _: Dial, _: Note) -> Sendable<'_, ()> {
        Box::pin(async move { client.write_all(b"HTTP").await.unwrap() })
    }

    fn serve_mail(&self, mut client: Rewound, target: Endpoint) -> Sendable<'_, ()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let greeting = format!("220 {} {}", target.name, target.tls);
            client.write_all(greeting.as_bytes()).await.unwrap();
            // Until it ends, or is cut.
            client.read_to_end(&mut Vec::new()).await.ok();
        })
    }
}

fn sunk(classes: &[(&str, &str)]) -> Policy {
    let integration = |(host, class): &(&str, &str)| {
        let name = host.replace('.', "-");
        format!("[integration.{name}]\nclass = \"{class}\"\nhosts = [\"{host}\"]\n")
    };
    let text: String = classes.iter().map(integration).collect();
    let text = format!("[egress]\nmode = \"open\"\n{text}");
    let config = hothouse_config::parse("t", &text).unwrap().config;
    Policy::new(&config.egress, &[], &NamedLists::default(), OwnAddresses(|_| false))
        .with_answered_here(AnsweredHere::of(&config))
}

/// Connects to a port of a host as a room would, and returns the client's end.
async fn connect(edge: &Arc<RoomEdge>, host: &str, port: u16) -> TcpStream {
    let inside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(inside.local_addr().unwrap()).await.unwrap();
    let (caught, _) = inside.accept().await.unwrap();
    let address = edge.book().synthesize(&host.parse().unwrap())[0];
    let target = SocketAddr::new(address, port);
    tokio::spawn(serve(edge.clone(), caught, target, Vec::new(), Way::Caught));
    client
}

#[tokio::test]
async fn a_silent_client_of_a_sunk_host_is_greeted_and_of_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let classes =
        [("smtp.mail.example", "sink"), ("pay.example", "mock"), ("off.example", "disable")];
    let edge = wall_of(sunk(&classes), folder.path(), Vec::new(), None);
    let greeted = Arc::new(AtomicUsize::new(0));
    edge.set_terminate(Some(Arc::new(Greeter(greeted.clone()))));
    for (port, tls) in [(25, false), (587, false), (465, true)] {
        let mut client = connect(&edge, "smtp.mail.example", port).await;
        let mut greeting = vec![0; 100];
        let length = client.read(&mut greeting).await.unwrap();
        let expected = format!("220 smtp.mail.example {tls}");
        assert_eq!(String::from_utf8_lossy(&greeting[..length]), expected, "{port}");
    }
    // Anything but mail is refused in its own protocol, immediately if that is known.
    for (host, port) in [("smtp.mail.example", 22), ("pay.example", 587), ("off.example", 25)] {
        let mut client = connect(&edge, host, port).await;
        client.write_all(b"SSH-2.0-x\r\n").await.unwrap();
        let mut said = Vec::new();
        client.read_to_end(&mut said).await.ok();
        let refusal = b"SSH-2.0-Hothouse\r\n";
        assert!(said.is_empty() || said.starts_with(refusal), "{host}:{port} said {said:?}");
    }
    assert_eq!(greeted.load(Ordering::Relaxed), 3);
    let records = ledger::read(folder.path());
    let mail: Vec<_> =
        records.iter().filter(|record| record.protocol.as_deref() == Some("SMTP")).collect();
    assert!(mail.iter().all(|record| record.allowed && record.inspected), "{mail:?}");
    assert!(mail.iter().all(|record| record.address.is_none()), "nobody was dialled: {mail:?}");
}

#[tokio::test]
async fn a_session_is_cut_when_the_host_no_longer_takes_mail() {
    let folder = tempfile::tempdir().unwrap();
    let edge = wall_of(sunk(&[("smtp.mail.example", "sink")]), folder.path(), Vec::new(), None);
    edge.set_terminate(Some(Arc::new(Greeter(Arc::default()))));
    let mut client = connect(&edge, "smtp.mail.example", 25).await;
    client.read_exact(&mut [0; 4]).await.unwrap();
    edge.set_policy(sunk(&[("smtp.mail.example", "test-mode")]).into());
    client.read_to_end(&mut Vec::new()).await.ok();
    let last = ledger::read(folder.path()).pop().unwrap();
    assert!(!last.allowed, "{last:?}");
}
