//! The load generator of the sinks benchmark, which runs in a room: this program again, with
//! arguments.
//!
//! One client for both sides of a comparison, so that its own cost affects both alike.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use hothouse_host::files;

/// Runs the named load; prints the operations per second.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let number = |word: &str| word.parse::<usize>().map_err(|_| format!("`{word}` is no number"));
    match words {
        ["smtp", address, count, connections] => {
            rate((number(count)?, number(connections)?), &|| smtp(address))
        }
        ["post", address, path, body, count, connections] => {
            let body = files::read_capped(Path::new(body), 1 << 20).map_err(|e| e.to_string())?;
            let request = head("POST", path, body.len());
            let request = [request.as_bytes(), &body].concat();
            rate((number(count)?, number(connections)?), &|| http(address, &request))
        }
        ["put", address, size, count, connections] => {
            let (size, next) = (number(size)?, AtomicUsize::new(0));
            let body = vec![b'x'; size];
            rate((number(count)?, number(connections)?), &|| {
                let mut stream = Http::open(address)?;
                let (next, body) = (&next, body.clone());
                Ok(Box::new(move || {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let head = head("PUT", &format!("/bench/{at}"), body.len());
                    stream.write(head.as_bytes())?;
                    stream.write(&body)?;
                    stream.answer(200)
                }))
            })
        }
        ["get", address, count, connections] => {
            let next = AtomicUsize::new(0);
            rate((number(count)?, number(connections)?), &|| {
                let (mut stream, next) = (Http::open(address)?, &next);
                Ok(Box::new(move || {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    stream.write(head("GET", &format!("/bench/{at}"), 0).as_bytes())?;
                    stream.answer(200)
                }))
            })
        }
        ["serve", address, folder] => serve(address, Path::new(folder)),
        _ => Err("load smtp|post|put|get|serve …".into()),
    }
}

/// What one connection does repeatedly.
type Work<'a> = Box<dyn FnMut() -> Result<(), String> + Send + 'a>;

/// Does something this many times in total, over several connections, and prints the rate.
fn rate<'a>(
    (count, connections): (usize, usize),
    open: &(dyn Fn() -> Result<Work<'a>, String> + Sync),
) -> Result<(), String> {
    let left = AtomicUsize::new(count);
    let begun = Instant::now();
    let outcomes: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let one = || -> Result<(), String> {
            let mut work = open()?;
            let take =
                || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
            while take().is_ok() {
                work()?;
            }
            Ok(())
        };
        let all: Vec<_> = (0..connections).map(|_| scope.spawn(one)).collect();
        all.into_iter()
            .map(|one| one.join().unwrap_or_else(|_| Err("it panicked".into())))
            .collect()
    });
    outcomes.into_iter().collect::<Result<(), String>>()?;
    let seconds = begun.elapsed().as_secs_f64();
    let done = u32::try_from(count).map_err(|error| error.to_string())?;
    super::super::print(&format!("{:.1}", f64::from(done) / seconds));
    Ok(())
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}

/// Sends one mail after the other in one session.
fn smtp<'a>(address: &str) -> Result<Work<'a>, String> {
    let stream = TcpStream::connect(address).map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    let mut reader = BufReader::new(stream.try_clone().map_err(text)?);
    let mut writer = stream;
    let mut reply = move |expected: char| -> Result<(), String> {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).map_err(text)?;
            match line.as_bytes() {
                [first, _, _, b'-', ..] if *first == expected as u8 => {}
                [first, ..] if *first == expected as u8 => return Ok(()),
                _ => return Err(format!("the server said: {line}")),
            }
        }
    };
    reply('2')?;
    writer.write_all(b"EHLO bench\r\n").map_err(text)?;
    reply('2')?;
    let body = "A line of a mail, about as long as lines of mails are.\r\n".repeat(30);
    let message = format!(
        "From: shop@acme.example\r\nTo: buyer@example.com\r\nSubject: Your order\r\n\
         Message-ID: <1@acme.example>\r\nDate: Tue, 17 Nov 2026 08:00:00 +0000\r\n\r\n{body}.\r\n"
    );
    Ok(Box::new(move || {
        let envelope = b"MAIL FROM:<shop@acme.example>\r\nRCPT TO:<buyer@example.com>\r\nDATA\r\n";
        writer.write_all(envelope).map_err(text)?;
        reply('2')?;
        reply('2')?;
        reply('3')?;
        writer.write_all(message.as_bytes()).map_err(text)?;
        reply('2')
    }))
}

fn http<'a>(address: &str, request: &'a [u8]) -> Result<Work<'a>, String> {
    let mut stream = Http::open(address)?;
    Ok(Box::new(move || {
        stream.write(request)?;
        stream.answer(200)
    }))
}

/// Formats the head of a request; nobody verifies its signature.
fn head(method: &str, path: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\n\
         authorization: AWS4-HMAC-SHA256 Credential=bench\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n\
         x-sentry-auth: Sentry sentry_key=bench, sentry_version=7\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// The host of requests for which it matters.
const HOST: &str = "us.i.posthog.com";

/// A persistent HTTP/1.1 connection.
struct Http {
    reader: BufReader<TcpStream>,
}

impl Http {
    fn open(address: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(address).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        Ok(Self { reader: BufReader::with_capacity(256 << 10, stream) })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.reader.get_mut().write_all(bytes).map_err(text)
    }

    /// Reads an answer to its end.
    fn answer(&mut self, expected: u16) -> Result<(), String> {
        let (first, length) = read_head(&mut self.reader)?;
        if first.split(' ').nth(1) != Some(&expected.to_string()) {
            let mut body = vec![0; length.min(500)];
            self.reader.read_exact(&mut body).map_err(text)?;
            return Err(format!("{first}: {}", String::from_utf8_lossy(&body)));
        }
        let mut body = (&mut self.reader).take(length as u64);
        std::io::copy(&mut body, &mut std::io::sink()).map_err(text)?;
        Ok(())
    }
}

/// Reads the head of a message: its first line, and how long its body is.
fn read_head(reader: &mut impl BufRead) -> Result<(String, usize), String> {
    let (mut first, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).map_err(text)? == 0 {
            return Err("the connection ended".into());
        }
        let line = line.trim_end();
        if line.is_empty() {
            return Ok((first, length));
        }
        if first.is_empty() {
            line.clone_into(&mut first);
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(|_| "a length that is no number")?;
        }
    }
}

/// Serves the peer of the object store: a body is copied to a file, which is synced, and back.
fn serve(address: &str, folder: &Path) -> Result<(), String> {
    files::make_private_folder(folder).map_err(|error| error.to_string())?;
    let listener = TcpListener::bind(address).map_err(text)?;
    for stream in listener.incoming() {
        let (stream, folder) = (stream.map_err(text)?, folder.to_owned());
        std::thread::spawn(move || while_open(stream, &folder));
    }
    Ok(())
}

fn while_open(stream: TcpStream, folder: &Path) -> Result<(), String> {
    stream.set_nodelay(true).map_err(text)?;
    let mut writer = stream.try_clone().map_err(text)?;
    let mut reader = BufReader::with_capacity(256 << 10, stream);
    loop {
        let (first, length) = read_head(&mut reader)?;
        let name = first.split(' ').nth(1).unwrap_or_default().replace('/', "_");
        let file: PathBuf = folder.join(name);
        if first.starts_with("PUT") {
            let mut to = File::create(&file).map_err(text)?;
            std::io::copy(&mut (&mut reader).take(length as u64), &mut to).map_err(text)?;
            to.sync_data().map_err(text)?;
            writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").map_err(text)?;
        } else {
            let mut from = File::open(&file).map_err(text)?;
            let length = from.metadata().map_err(text)?.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            writer.write_all(head.as_bytes()).map_err(text)?;
            std::io::copy(&mut from, &mut writer).map_err(text)?;
        }
    }
}
