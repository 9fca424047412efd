//! A small blocking client for HTTP/1.1: one request per connection, limited header size, timeouts against stalls.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, pki_types::ServerName};

/// The timeout of a connection attempt.
const CONNECT: Duration = Duration::from_secs(15);

/// The maximum time without data, by default.
const SILENCE: Duration = Duration::from_secs(30);

/// The maximum size of a response's headers.
const HEAD_MOST: usize = 64 << 10;

/// A readable and writable stream.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) secure: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Including the query.
    pub(crate) path: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (secure, rest) = match text.split_once("://")? {
            ("https", rest) => (true, rest),
            ("http", rest) => (false, rest),
            _ => return None,
        };
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let usual = if secure { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (authority, usual),
        };
        let is_plain = |text: &str| {
            !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
        };
        (is_plain(host) && !host.contains('@') && is_plain(path)).then(|| Self {
            secure,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
        })
    }

    /// Resolves a `Location` header.
    pub(crate) fn join(&self, location: &str) -> Option<Self> {
        match location.starts_with('/') {
            true => Some(Self { path: location.to_owned(), ..self.clone() }),
            false => Self::parse(location),
        }
    }

    fn authority(&self) -> String {
        let usual = if self.secure { 443 } else { 80 };
        if self.port == usual { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }
}

/// A response whose body has not been read.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Box<dyn Read>,
}

/// An HTTP client that trusts the host's certificate authorities.
#[derive(Clone)]
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    /// The maximum time without data from a registry.
    pub(crate) silence: Duration,
}

impl Client {
    /// Makes a client that trusts the certificates of a bundle.
    pub(crate) fn new(bundle: &[u8]) -> io::Result<Self> {
        use rustls::pki_types::{CertificateDer, pem::PemObject};
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok);
        roots.add_parsable_certificates(certificates);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { config: Arc::new(config), silence: SILENCE })
    }

    /// Sends a GET request.
    pub(crate) fn get(&self, url: &Url, headers: &[(&str, &str)]) -> io::Result<Answer> {
        let mut stream = self.connect(url)?;
        let mut head = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: hothouse\r\nConnection: close\r\n",
            url.path,
            url.authority()
        );
        for (name, value) in headers {
            if value.contains(['\r', '\n']) {
                return Err(io::Error::other("a header holds a line break"));
            }
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        stream.flush()?;
        answer(BufReader::new(stream))
    }

    fn connect(&self, url: &Url) -> io::Result<Box<dyn Stream>> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (url.host.as_str(), url.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(self.silence))?;
                    stream.set_write_timeout(Some(self.silence))?;
                    return self.secured(url, stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn secured(&self, url: &Url, stream: TcpStream) -> io::Result<Box<dyn Stream>> {
        if !url.secure {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(url.host.clone()).map_err(io::Error::other)?;
        let connection =
            ClientConnection::new(self.config.clone(), name).map_err(io::Error::other)?;
        Ok(Box::new(StreamOwned::new(connection, stream)))
    }
}

fn answer(mut stream: BufReader<Box<dyn Stream>>) -> io::Result<Answer> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let before = head.len();
        stream.by_ref().take((HEAD_MOST - before) as u64).read_until(b'\n', &mut head)?;
        if head.len() == before || head.len() >= HEAD_MOST {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the answer has no proper head",
            ));
        }
    }
    let mut fields = [httparse::EMPTY_HEADER; 100];
    let mut parsed = httparse::Response::new(&mut fields);
    parsed.parse(&head).map_err(io::Error::other)?;
    let status = parsed.code.unwrap_or_default();
    let headers: BTreeMap<String, String> = parsed
        .headers
        .iter()
        .map(|header| {
            (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned())
        })
        .collect();
    let length = headers.get("content-length").and_then(|text| text.parse::<u64>().ok());
    let is_chunked =
        headers.get("transfer-encoding").is_some_and(|text| text.eq_ignore_ascii_case("chunked"));
    let body: Box<dyn Read> = match (is_chunked, length) {
        (true, _) => Box::new(Chunked { stream, left: 0, ended: false }),
        (false, Some(length)) => Box::new(stream.take(length)),
        (false, None) => Box::new(stream),
    };
    Ok(Answer { status, headers, body })
}

/// A body with chunked encoding.
struct Chunked {
    stream: BufReader<Box<dyn Stream>>,
    left: u64,
    ended: bool,
}

impl Read for Chunked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.ended {
            let mut line = String::new();
            let read = |stream: &mut BufReader<Box<dyn Stream>>, line: &mut String| {
                stream.take(128).read_line(line)
            };
            read(&mut self.stream, &mut line)?;
            if line == "\r\n" {
                line.clear();
                read(&mut self.stream, &mut line)?;
            }
            let size = line.split(';').next().unwrap_or_default().trim();
            self.left = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
            self.ended = self.left == 0;
        }
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.stream.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let url = Url::parse("https://r.example:8443/v2/?x=1").unwrap();
        assert_eq!(
            (url.host.as_str(), url.port, url.path.as_str()),
            ("r.example", 8443, "/v2/?x=1")
        );
        assert_eq!(url.join("/other").unwrap().port, 8443);
        assert_eq!(url.join("http://cdn.example/x").unwrap().port, 80);
        for bad in ["ftp://x/", "https:///x", "https://a b/", "https://u@h/"] {
            assert_eq!(Url::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn pieces_are_joined() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n";
        let stream: Box<dyn Stream> = Box::new(io::Cursor::new(text.as_bytes().to_vec()));
        let mut answer = answer(BufReader::new(stream)).unwrap();
        let mut body = String::new();
        answer.body.read_to_string(&mut body).unwrap();
        assert_eq!((answer.status, body.as_str()), (200, "abcde"));
    }
}
