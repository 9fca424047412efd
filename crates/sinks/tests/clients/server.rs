//! Sinks on loopback: a port for each host and one for SMTP, so that a client only needs a base
//! URL.

use std::{
    convert::Infallible,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use bytes::Bytes;
use hothouse_mock::Request;
use hothouse_sinks::{
    Call, Context, FlagSet, Recorded, find,
    mail::{
        delivered,
        smtp::{Action, Session, SessionSpec},
    },
};
use http_body_util::{BodyExt, Full};
use hyper::{Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;

type Records = Arc<Mutex<Vec<Recorded>>>;

/// Sinks that listen until the test ends.
pub(crate) struct Served {
    pub(crate) ports: Vec<(String, u16)>,
    records: Records,
}

impl Served {
    /// Listens for each host, and for SMTP.
    pub(crate) fn start(hosts: &[&'static str]) -> Self {
        let records = Records::default();
        let mut ports = Vec::new();
        for &host in hosts {
            let (listener, port) = listen();
            let records = Arc::clone(&records);
            thread::spawn(move || serve_http(listener, host, &records));
            ports.push((host.to_owned(), port));
        }
        let (listener, port) = listen();
        let own = Arc::clone(&records);
        thread::spawn(move || serve_smtp(&listener, &own));
        ports.push(("smtp".to_owned(), port));
        Self { ports, records }
    }

    pub(crate) fn records(&self) -> Vec<Recorded> {
        self.records.lock().unwrap().clone()
    }
}

fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn serve_smtp(listener: &TcpListener, records: &Records) {
    while let Ok((socket, _)) = listener.accept() {
        let records = Arc::clone(records);
        // A client that disconnects is not an error of the server.
        thread::spawn(move || converse(socket, &records).ok());
    }
}

fn converse(mut socket: TcpStream, records: &Records) -> std::io::Result<()> {
    let spec = SessionSpec { hostname: "mx.test".into(), ..SessionSpec::default() };
    let (mut session, mut actions) = Session::new(spec);
    let mut buffer = [0; 4096];
    loop {
        while !actions.is_empty() {
            let mut next = Vec::new();
            for action in actions {
                match action {
                    Action::Send(bytes) => socket.write_all(&bytes)?,
                    Action::Deliver(delivery) => {
                        records.lock().unwrap().push(delivered(&delivery));
                        next.extend(session.on_delivered(Ok("1".into())));
                    }
                    Action::Close => return Ok(()),
                    Action::StartTls | Action::Wait(_) => unreachable!("neither was offered"),
                }
            }
            actions = next;
        }
        let count = socket.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        actions = session.on_bytes(&buffer[..count]);
    }
}

fn serve_http(listener: TcpListener, host: &'static str, records: &Records) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((socket, _)) = listener.accept().await {
            let records = Arc::clone(records);
            let service = service_fn(move |request| {
                let records = Arc::clone(&records);
                async move { Ok::<_, Infallible>(answer(request, host, &records).await) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
        }
    });
}

async fn answer(
    request: hyper::Request<Incoming>,
    host: &str,
    records: &Records,
) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let mut body = body.collect().await.unwrap().to_bytes().to_vec();
    let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.to_string(), value.as_bytes().to_vec())
    };
    let headers: Vec<(String, Vec<u8>)> = parts.headers.iter().map(header).collect();
    if parts.headers.get("content-encoding").is_some_and(|coding| coding == "gzip") {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
        body = plain;
    }
    let call = Call::read(Request {
        method: parts.method.as_str(),
        host,
        path: parts.uri.path(),
        query: parts.uri.query().unwrap_or_default(),
        headers: &headers,
        body: &body,
    });
    let mut next = 0;
    let mut random = || {
        next += 1;
        [next; 16]
    };
    let flags = FlagSet::default();
    let mut context = Context {
        now: Timestamp::now(),
        random: &mut random,
        flags: &flags,
        mails: &hothouse_sinks::no_mails,
    };
    let taken = (find(host).unwrap().take)(&call, &mut context);
    records.lock().unwrap().extend(taken.records);
    let mut response = Response::builder().status(taken.answer.status);
    for (name, value) in taken.answer.headers {
        response = response.header(name, value);
    }
    response.body(Full::new(taken.answer.body.bytes().into())).unwrap()
}
