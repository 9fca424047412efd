//! Mocks on loopback: a port for each host, so that a client only needs a base URL.

use std::{
    convert::Infallible,
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use bytes::Bytes;
use hothouse_mock::{Effect, Integration, Mock, MockSpec, Request};
use http_body_util::{BodyExt, Full};
use hyper::{Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;

/// Mocks that listen until the test ends.
pub(crate) struct Served {
    pub(crate) ports: Vec<(String, u16)>,
    webhooks: Arc<Mutex<Vec<String>>>,
}

impl Served {
    /// Listens for each host; all share one mock.
    pub(crate) fn start(hosts: &[&str]) -> Self {
        let integration = Integration {
            name: "all".into(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            vendor: None,
        };
        let (mock, problems) =
            Mock::load(MockSpec { integrations: vec![integration], ..MockSpec::default() });
        assert_eq!(problems, []);
        let mock = Arc::new(Mutex::new(mock));
        let webhooks = Arc::new(Mutex::new(Vec::new()));
        let listen = |host: &&str| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let (host, mock, webhooks) =
                ((*host).to_owned(), Arc::clone(&mock), Arc::clone(&webhooks));
            let name = host.clone();
            thread::spawn(move || serve(listener, &host, &mock, &webhooks));
            (name, port)
        };
        Self { ports: hosts.iter().map(listen).collect(), webhooks }
    }

    pub(crate) fn webhooks(&self) -> Vec<String> {
        self.webhooks.lock().unwrap().clone()
    }
}

fn serve(
    listener: TcpListener,
    host: &str,
    mock: &Arc<Mutex<Mock>>,
    webhooks: &Arc<Mutex<Vec<String>>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((socket, _)) = listener.accept().await {
            let (host, mock, webhooks) = (host.to_owned(), Arc::clone(mock), Arc::clone(webhooks));
            let service = service_fn(move |request| {
                let (host, mock, webhooks) =
                    (host.clone(), Arc::clone(&mock), Arc::clone(&webhooks));
                async move { Ok::<_, Infallible>(answer(request, &host, &mock, &webhooks).await) }
            });
            // A client that disconnects is not an error of the server.
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
        }
    });
}

async fn answer(
    request: hyper::Request<Incoming>,
    host: &str,
    mock: &Mutex<Mock>,
    webhooks: &Mutex<Vec<String>>,
) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
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
    let answer = mock.lock().unwrap().answer(&request, Timestamp::now());
    for Effect::Webhook { kind, .. } in answer.effects {
        webhooks.lock().unwrap().push(kind);
    }
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response.body(Full::new(answer.body.bytes().into())).unwrap()
}
