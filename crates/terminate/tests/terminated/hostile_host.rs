//! Hosts that attack over HTTP/2: each floods until it can no longer write. What it sends must take
//! a bounded amount of our memory, and end no later than its client.

use std::{
    io,
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use http_body_util::BodyExt;
use hyper::{Request, StatusCode, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use crate::ground::{Ground, HOST, PLACEHOLDER, Plan, body_of};

/// What a host does once it has been asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attack {
    /// Frames of a header block that never ends: long ones, and empty ones.
    Continuations,
    EmptyContinuations,
    /// A block that refers to one long header again and again.
    HeaderBomb,
    /// Endless interim responses.
    Interim,
    /// Endless interim responses with long headers.
    LongInterim,
    /// Pushed responses to requests that nobody made.
    Pushes,
    Settings,
    Pings,
    WindowUpdates,
    Priorities,
    UnknownFrames,
    /// A body that exceeds the window; endless empty frames; endless padding.
    Data,
    EmptyData,
    Padding,
    /// Endless trailers.
    Trailers,
    /// Resets of streams that never existed.
    Resets,
}

const ALL: [Attack; 16] = [
    Attack::Continuations,
    Attack::EmptyContinuations,
    Attack::HeaderBomb,
    Attack::Interim,
    Attack::LongInterim,
    Attack::Pushes,
    Attack::Settings,
    Attack::Pings,
    Attack::WindowUpdates,
    Attack::Priorities,
    Attack::UnknownFrames,
    Attack::Data,
    Attack::EmptyData,
    Attack::Padding,
    Attack::Trailers,
    Attack::Resets,
];

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH: u8 = 5;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const ACKNOWLEDGED: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// `:status: 200`, from the static table of RFC 7541.
const FINE: u8 = 0x88;
/// `:status: 103`, written out.
const HINTS: [u8; 5] = [0x08, 3, b'1', b'0', b'3'];

/// How many hosts can no longer write.
static ENDED: AtomicU64 = AtomicU64::new(0);

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Encodes a header with a value of 4,000 bytes; `first` decides whether it is indexed.
fn long_header(first: u8) -> Vec<u8> {
    // Its length, as an integer with a prefix of seven bits.
    [&[first, 1, b'a', 0x7f, 0xa1, 0x1e][..], &[b'x'; 4000]].concat()
}

impl Attack {
    /// Starts a host; returns its address.
    pub(crate) async fn serve(self, acceptor: TlsAcceptor) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                if let Ok(stream) = acceptor.accept(stream).await {
                    self.flood(stream).await.ok();
                    ENDED.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        address
    }

    async fn flood(
        self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> io::Result<()> {
        until_asked(&mut stream).await?;
        let (mut from, mut to) = tokio::io::split(stream);
        tokio::spawn(async move { tokio::io::copy(&mut from, &mut tokio::io::sink()).await });
        to.write_all(&self.begins()).await?;
        let (mut at, mut batch) = (0_u32, Vec::new());
        loop {
            while batch.len() < 16 << 10 {
                at += 1;
                batch.extend(self.goes_on(at));
            }
            to.write_all(&batch).await?;
            to.flush().await?;
            batch.clear();
        }
    }

    fn begins(self) -> Vec<u8> {
        match self {
            Self::Continuations | Self::EmptyContinuations => frame(HEADERS, 0, 1, &[FINE]),
            Self::HeaderBomb => frame(HEADERS, 0, 1, &[&[FINE][..], &long_header(0x40)].concat()),
            Self::Data | Self::EmptyData | Self::Padding | Self::Trailers => {
                frame(HEADERS, END_HEADERS, 1, &[FINE])
            }
            _ => Vec::new(),
        }
    }

    fn goes_on(self, at: u32) -> Vec<u8> {
        match self {
            Self::Continuations => frame(CONTINUATION, 0, 1, &long_header(0)),
            Self::EmptyContinuations => frame(CONTINUATION, 0, 1, &[]),
            // The newest entry of the dynamic table.
            Self::HeaderBomb => frame(CONTINUATION, 0, 1, &[0xbe; 16 << 10]),
            Self::Interim => frame(HEADERS, END_HEADERS, 1, &HINTS),
            Self::LongInterim => {
                let long = [&HINTS[..], &long_header(0), &long_header(0), &long_header(0)].concat();
                frame(HEADERS, END_HEADERS, 1, &long)
            }
            Self::Pushes => {
                let promised = (at * 2).to_be_bytes();
                // `GET https://a/`.
                let request = [0x82, 0x87, 0x84, 0x41, 1, b'a'];
                let answer = frame(HEADERS, END_HEADERS, at * 2, &[FINE]);
                let promise = [&promised[..], &request].concat();
                [frame(PUSH, END_HEADERS, 1, &promise), answer].concat()
            }
            Self::Settings => {
                // Another window and another table each time.
                let size = (at % 60_000 + 1).to_be_bytes();
                let settings = [&[0, 4][..], &size, &[0, 1], &size].concat();
                frame(SETTINGS, 0, 0, &settings)
            }
            Self::Pings => frame(PING, 0, 0, &u64::from(at).to_be_bytes()),
            Self::WindowUpdates => frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
            Self::Priorities => frame(PRIORITY, 0, at * 2 + 1, &[0, 0, 0, 0, 9]),
            Self::UnknownFrames => frame(0xbb, 0xff, at, &[7; 100]),
            Self::Data => frame(DATA, 0, 1, &[b'x'; 16 << 10]),
            Self::EmptyData => frame(DATA, 0, 1, &[]),
            Self::Padding => frame(DATA, PADDED, 1, &[&[255][..], &[0; 255]].concat()),
            Self::Trailers => frame(HEADERS, END_HEADERS, 1, &long_header(0)),
            Self::Resets => frame(RESET, 0, at * 2 + 1, &8_u32.to_be_bytes()),
        }
    }
}

/// Completes the handshake, and reads until the client has sent the head of a request.
pub(crate) async fn until_asked(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        stream.read_exact(&mut payload).await?;
        // The windows that a client offers count from then on.
        if head[3] == SETTINGS && head[4] & ACKNOWLEDGED == 0 {
            stream.write_all(&frame(SETTINGS, ACKNOWLEDGED, 0, &[])).await?;
        }
        if head[3] == HEADERS {
            return Ok(());
        }
    }
}

/// Returns the peak memory of this process, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_floods_takes_bounded_memory_and_ends_with_its_client() {
    // The memory that every connection needs is not counted.
    let ground = Ground::lay(Plan::default()).await;
    let request = ground.request("GET", "/echo").header("authorization", PLACEHOLDER);
    ground.send(request.body(body_of("")).unwrap()).await.into_body().collect().await.unwrap();
    let before = peak();
    for (at, attack) in ALL.into_iter().enumerate() {
        let ground = Ground::lay(Plan { attack: Some(attack), ..Plan::default() }).await;
        let stream = ground.greet(HOST, b"h2").await.unwrap();
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = Request::builder().uri(format!("https://{}/", ground.named(HOST)));
        let request = request.header("authorization", PLACEHOLDER).body(body_of("")).unwrap();
        // The client waits for an answer, and for more of it than it reads.
        let answered = timeout(Duration::from_millis(700), sender.send_request(request)).await;
        if let Ok(Ok(response)) = &answered {
            assert!(
                matches!(response.status(), StatusCode::OK | StatusCode::BAD_GATEWAY),
                "{attack:?} {response:?}"
            );
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let grown = peak() - before;
        eprintln!("{attack:?}: {grown} MiB, ended {}, {answered:?}", ENDED.load(Ordering::Relaxed));
        assert!(grown < 24, "{attack:?} took {grown} MiB");
        drop((answered, sender));
        connection.abort();
        let ended = async {
            while ENDED.load(Ordering::Relaxed) <= at as u64 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let ended = timeout(Duration::from_secs(20), ended).await;
        assert!(ended.is_ok(), "{attack:?} goes on without its client");
    }
}
