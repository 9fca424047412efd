//! Sinks on loopback: a port for each host, so that a client only needs a base URL.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    io::Read,
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use bytes::Bytes;
use flate2::read::GzDecoder;
use hothouse_mock::Request;
use hothouse_model::flag::effective;
use hothouse_sinks::{Call, Context, FlagSet, Taken, find, flags, llm};
use http_body_util::{BodyExt, Full};
use hyper::{Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::{Value, json};

type Records = Arc<Mutex<Vec<(String, Value)>>>;

/// Sinks that listen until the test ends.
pub(crate) struct Served {
    pub(crate) ports: Vec<(String, u16)>,
    records: Records,
}

impl Served {
    /// Listens for each host; all records are collected together.
    pub(crate) fn start(hosts: &[&str]) -> Self {
        let records = Records::default();
        let listen = |host: &&str| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let (host, records) = ((*host).to_owned(), records.clone());
            let name = host.clone();
            thread::spawn(move || serve(listener, &host, &records));
            (name, port)
        };
        Self { ports: hosts.iter().map(listen).collect(), records: records.clone() }
    }

    pub(crate) fn records(&self) -> Vec<(String, Value)> {
        self.records.lock().unwrap().clone()
    }
}

fn serve(listener: TcpListener, host: &str, records: &Records) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((socket, _)) = listener.accept().await {
            let (host, records) = (host.to_owned(), records.clone());
            let service = service_fn(move |request| {
                let (host, records) = (host.clone(), records.clone());
                async move { Ok::<_, Infallible>(answer(request, &host, &records).await) }
            });
            // A client that disconnects is not an error of the server.
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
        }
    });
}

fn pinned() -> FlagSet {
    let pins = [("new-ui", json!(true)), ("arm", json!("test"))];
    let pins: BTreeMap<String, Value> =
        pins.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    effective(&BTreeMap::new(), &pins)
}

async fn answer(
    request: hyper::Request<Incoming>,
    host: &str,
    records: &Mutex<Vec<(String, Value)>>,
) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let mut body = body.collect().await.unwrap().to_bytes().to_vec();
    if parts.headers.get("content-encoding").is_some_and(|coding| coding == "gzip") {
        let mut inflated = Vec::new();
        GzDecoder::new(body.as_slice()).read_to_end(&mut inflated).unwrap();
        body = inflated;
    }
    let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.to_string(), value.as_bytes().to_vec())
    };
    let headers: Vec<(String, Vec<u8>)> = parts.headers.iter().map(header).collect();
    let request = Request {
        method: parts.method.as_str(),
        host,
        path: parts.uri.path(),
        query: parts.uri.query().unwrap_or_default(),
        headers: &headers,
        body: &body,
    };
    let Taken { answer, records: made } = taken(&Call::read(request), host);
    let made = made.into_iter().map(|record| (record.kind.to_string(), record.body));
    records.lock().unwrap().extend(made);
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response.body(Full::new(answer.body.bytes().into())).unwrap()
}

fn taken(call: &Call<'_>, host: &str) -> Taken {
    let (mut number, flags) = (0_u8, pinned());
    let mut random = || {
        number += 1;
        [number; 16]
    };
    let mut context = Context {
        now: Timestamp::now(),
        random: &mut random,
        flags: &flags,
        mails: &hothouse_sinks::no_mails,
    };
    if let Some(taken) = llm::echo(call, &mut context) {
        return taken;
    }
    let sink = find(host).unwrap_or(flags::GENERIC);
    (sink.take)(call, &mut context)
}
