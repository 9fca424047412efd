//! Serves HTTP on a loopback port for as long as a command is running.

use std::{convert::Infallible, error::Error, net::Ipv4Addr, sync::Arc, time::Duration};

use hothouse_model::{Failure, FailureKind};
use hyper::{
    Request, Response,
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore};

/// How long to wait after a connection could not be accepted, for example for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The limits for clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLimits {
    /// How many connections may be open at a time; the next one waits.
    pub(crate) connections: usize,
    /// How long a client may take to send the head of a request.
    pub(crate) patience: Duration,
}

/// Listens on a loopback port, by default a free one; returns it too.
pub(crate) async fn bind(port: Option<u16>) -> Result<(TcpListener, u16), Failure> {
    let failed = |error: std::io::Error| Failure::of(FailureKind::Host, &error);
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await;
    let listener = bound.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    Ok((listener, port))
}

/// Answers requests until Ctrl-C.
pub(crate) async fn serve<A, F, B>(listener: TcpListener, limits: ClientLimits, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    tokio::select! {
        () = accept(listener, limits, answer) => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

async fn accept<A, F, B>(listener: TcpListener, limits: ClientLimits, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(limits.connections));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let answer = answer.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answered = answer(request);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.patience)
                .serve_connection(TokioIo::new(stream), service);
            // A client that disconnects needs nothing more.
            served.await.ok();
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use http_body_util::Full;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        sync::mpsc,
    };

    use super::*;

    const REQUEST: &str = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

    /// Sends bytes and returns the whole answer.
    async fn ask(port: u16, text: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn connections_over_the_limit_wait_and_are_answered() {
        let (listener, port) = bind(None).await.unwrap();
        let limits = ClientLimits { connections: 2, patience: Duration::from_secs(600) };
        let (running, release) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        // handler --number running--> test
        let (running_tx, mut running_rx) = mpsc::unbounded_channel();
        let answering = release.clone();
        let serving = tokio::spawn(accept(listener, limits, move |_| {
            let (running, release) = (running.clone(), answering.clone());
            let running_tx = running_tx.clone();
            async move {
                running_tx.send(running.fetch_add(1, Ordering::SeqCst) + 1).unwrap();
                drop(release.acquire().await.unwrap());
                running.fetch_sub(1, Ordering::SeqCst);
                Response::new(Full::<Bytes>::from("done"))
            }
        }));
        let clients: Vec<_> = (0..5).map(|_| tokio::spawn(ask(port, REQUEST))).collect();
        let mut most = 0;
        for _ in 0..2 {
            most = most.max(running_rx.recv().await.unwrap());
        }
        assert_eq!(most, 2, "as many as may are answered at a time");
        release.add_permits(1);
        for client in clients {
            let answer = client.await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
        }
        while let Ok(running) = running_rx.try_recv() {
            most = most.max(running);
        }
        assert_eq!(most, 2);
        serving.abort();
    }

    #[tokio::test]
    async fn a_client_that_sends_no_whole_request_is_left() {
        let (listener, port) = bind(None).await.unwrap();
        let limits = ClientLimits { connections: 1, patience: Duration::from_millis(200) };
        let serving = tokio::spawn(accept(listener, limits, |_| async {
            Response::new(Full::<Bytes>::from("done"))
        }));
        assert!(!ask(port, "GET / HTTP/1.1\r\nhost").await.contains("200"));
        assert!(ask(port, REQUEST).await.ends_with("done"), "its place is free again");
        serving.abort();
    }
}
