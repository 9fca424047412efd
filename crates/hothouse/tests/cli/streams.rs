//! Slow responses and requests: what comes in pieces is forwarded in pieces.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use hothouse_testkit::{git, skip};

use crate::{
    router::parts,
    surroundings,
    url::{CONFIG, curl, has},
};

/// Sends one event, and the next on request.
const SERVER: &str = r#"
import http.server, threading, collections
told = collections.defaultdict(threading.Event)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def begin(self, kind="text/plain"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
    def piece(self, text):
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()
    def do_GET(self):
        what, _, key = self.path[1:].partition("/")
        if what == "events":
            self.begin("text/event-stream")
            self.piece("data: one\n\n")
            assert told[key].wait(60)
            self.piece("data: two\n\n")
        elif what == "poll":
            assert told[key].wait(60)
            self.begin()
            self.piece("told\n")
        else:
            told[key].set()
            self.begin()
            self.piece("ok\n")
        self.piece("")
    def do_PUT(self):
        self.begin()
        total = 0
        while size := int(self.rfile.readline(), 16):
            total += len(self.rfile.read(size)); self.rfile.readline()
            self.piece("had %d\n" % total)
        self.rfile.readline()
        self.piece("")
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Handler).serve_forever()
"#;

/// Sends the second piece of an upload when the app has confirmed the first.
const UPLOAD: &str = r#"
import socket, ssl, sys
host, port = sys.argv[1], int(sys.argv[2])
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
tls = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=60), server_hostname=host)
tls.sendall(f"PUT /upload HTTP/1.1\r\nHost: {host}:{port}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
said = b""
for total in [5, 10]:
    tls.sendall(b"5\r\npiece\r\n")
    while b"had %d\n" % total not in said: said += tls.recv(4096)
    print("had", total)
tls.sendall(b"0\r\n\r\n")
"#;

/// Starts a curl whose output is read as it arrives.
fn slow(words: &[&str]) -> (std::process::Child, impl Iterator<Item = String> + use<>) {
    let mut child = Command::new("curl")
        .args(["-skN", "--noproxy", "*", "-m", "60"])
        .args(words)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines.map(Result::unwrap).filter(|line| !line.is_empty()))
}

#[test]
fn events_polls_and_uploads_are_passed_on_as_they_come() {
    if !has("curl") || !has("python3") {
        return skip("streams", "curl or python3");
    }
    let env = surroundings();
    if !env.can_have_rooms("streams") {
        return;
    }
    let repository = env.repository("u", CONFIG);
    fs::write(repository.join("server.py"), SERVER).unwrap();
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-qm", "server"]);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let url = env.ok(&repository, &["url", "web", "-w", "a"]).trim().to_owned();
    for version in ["--http1.1", "--http2"] {
        let tell = |key: &str| assert_eq!(curl(&[version, &format!("{url}/tell/{key}")]), "ok\n");
        let key = format!("events{version}");
        let (mut events, mut said) = slow(&[version, &format!("{url}/events/{key}")]);
        assert_eq!(said.next().as_deref(), Some("data: one"), "before there is a second");
        tell(&key);
        assert_eq!(said.next().as_deref(), Some("data: two"));
        assert!(events.wait().unwrap().success());
        let key = format!("poll{version}");
        let (mut poll, mut said) = slow(&[version, &format!("{url}/poll/{key}")]);
        tell(&key);
        assert_eq!(said.next().as_deref(), Some("told"));
        assert!(poll.wait().unwrap().success());
    }
    let (host, port) = parts(&url);
    let uploaded = Command::new("python3").args(["-c", UPLOAD, &host, &port]).output().unwrap();
    let said = String::from_utf8_lossy(&uploaded.stdout).into_owned();
    assert_eq!(said, "had 5\nhad 10\n", "{}", String::from_utf8_lossy(&uploaded.stderr));
    // Only this machine can reach the router.
    let hex = format!("{:04X}", port.parse::<u16>().unwrap());
    let listens = |file: &str, loopback: &str| {
        let sockets = fs::read_to_string(file).unwrap_or_default();
        let listening = sockets.lines().filter(|line| line.contains(" 0A "));
        let local = listening.filter_map(|line| line.split_whitespace().nth(1));
        let all: Vec<_> = local.filter_map(|at| at.strip_suffix(&format!(":{hex}"))).collect();
        // Another process may have the port on another loopback address.
        let inner = |address: &&str| *address == loopback || address.ends_with("7F");
        assert!(all.iter().all(inner), "{file}: {all:?}");
        all.iter().filter(|address| **address == loopback).count()
    };
    assert_eq!(listens("/proc/net/tcp", "0100007F"), 1);
    listens("/proc/net/tcp6", "00000000000000000000000001000000");
}
