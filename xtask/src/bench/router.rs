//! The router against nginx as a TLS reverse proxy: one processor each, the same program behind both.

mod lookup;

use std::{path::Path, time::Duration};

use hothouse_host::{Program, RunError, files};

use super::{
    bars::{Bar, bar},
    figures::Figures,
    print,
    room::Ground,
};

const ROUNDS: usize = 5;
const SECONDS: &str = "4s";
const CONNECTIONS: &str = "64";

/// The processor of the proxies; everything else uses the other.
const PROXY_CPU: &str = "0";
const OTHER_CPU: &str = "1";

/// The program behind both: nginx itself, which is fast enough not to affect the result.
const BACKEND: &str = "daemon off; master_process off; pid PLACE/PORT.pid; error_log /dev/null;\n\
    events { worker_connections 4096; }\n\
    http { access_log off; keepalive_requests 100000000; client_body_temp_path PLACE/PORT.b; proxy_temp_path PLACE/PORT.p;\n\
    fastcgi_temp_path PLACE/PORT.f; uwsgi_temp_path PLACE/PORT.u; scgi_temp_path PLACE/PORT.s;\n\
    server { listen 127.0.0.1:PORT; location / { default_type text/plain; return 200 \"hello from the backend, as long as a short answer is\\n\"; } } }\n";

const PEER: &str = "daemon off; master_process off; pid PLACE/peer.pid; error_log /dev/null;\n\
    events { worker_connections 4096; }\n\
    http { access_log off; keepalive_requests 100000000; client_body_temp_path PLACE/peer.b; proxy_temp_path PLACE/peer.p;\n\
    fastcgi_temp_path PLACE/peer.f; uwsgi_temp_path PLACE/peer.u; scgi_temp_path PLACE/peer.s;\n\
    upstream app { server 127.0.0.1:BACK; keepalive 128; keepalive_requests 100000000; }\n\
    server { listen 127.0.0.1:PORT ssl; ssl_certificate PLACE/peer.pem; ssl_certificate_key PLACE/peer.key; ssl_protocols TLSv1.3;\n\
    location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host $host;\n\
    proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto https; proxy_set_header X-Forwarded-Host $host; } } }\n";

/// Echoes WebSocket frames, and counts how many at once; the client opens a thousand.
const SOCKETS: &str = include_str!("sockets.py");

/// One run of wrk.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    rate: f64,
    /// In milliseconds.
    p99: f64,
}

/// Measures the lookup of routes in this build.
pub(super) fn within() -> Result<(), String> {
    lookup::run();
    Ok(())
}

/// Measures the router of a binary.
pub(super) fn measure(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let missing = ["nginx", "wrk", "taskset", "openssl", "python3"].into_iter().find(|program| {
        matches!(Program::new(program).arg("--version").run(), Err(RunError::Missing { .. }))
    });
    if let Some(program) = missing {
        print(&format!("router: SKIPPED, {program} is missing here"));
        return Ok(());
    }
    proxies(binary, figures)
}

/// One of our programs, which ends with us.
struct Running(Option<hothouse_host::command::Talker>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(hothouse_host::command::Talker::end);
    }
}

fn proxies(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let ground = Ground::new(binary)?;
    let place = ground.folder.path().join("nginx");
    files::make_folder(&place).map_err(|error| error.to_string())?;
    let (back, port) = (free_port()?, free_port()?);
    let fill = |text: &str, place: &str, port: u16| {
        text.replace("PLACE", place)
            .replace("BACK", &back.to_string())
            .replace("PORT", &port.to_string())
    };
    let written = |name: &str, text: String| {
        let file = place.join(name);
        files::write(&file, text).map(|()| file).map_err(|error| error.to_string())
    };
    let shown = place.display().to_string();
    let backend = written("backend.conf", fill(BACKEND, &shown, back))?;
    let peer = written("peer.conf", fill(PEER, &shown, port))?;
    ground.shell(&format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
         -keyout {shown}/peer.key -out {shown}/peer.pem 2>/dev/null"
    ))?;
    let inside = ground.repository();
    files::write(&inside.join("backend.conf"), fill(BACKEND, "/tmp", 3000))
        .map_err(|error| error.to_string())?;
    files::write(&inside.join("sockets.py"), SOCKETS).map_err(|error| error.to_string())?;
    let config = format!(
        "[project]\nname = \"bench\"\n[service.web]\nrun = \"taskset -c {OTHER_CPU} nginx -e /dev/null -c $PWD/backend.conf\"\nport = 3000\n\
         ready = {{ tcp = true }}\nurl = \"web\"\n[service.echo]\nrun = \"python3 sockets.py serve 3001\"\nport = 3001\nready = {{ tcp = true }}\nurl = \"echo\"\n"
    );
    files::write(&inside.join("hothouse.toml"), config).map_err(|error| error.to_string())?;
    ground.shell("cd r && git add -A && git commit -qm bench")?;
    ground.hothouse(&["fork", "a"])?;
    if ground.hothouse(&["up", "-w", "a"]).is_err() {
        print("router: SKIPPED, it needs rooms on this host");
        return Ok(());
    }
    let url = ground.hothouse(&["url", "web", "-w", "a"])?.trim().to_owned();
    let echo = ground.hothouse(&["url", "echo", "-w", "a"])?.trim().to_owned();
    let daemon = ground.hothouse(&["daemon", "status", "--json"])?;
    let daemon: serde_json::Value =
        serde_json::from_str(&daemon).map_err(|error| error.to_string())?;
    let pid = daemon["pid"].to_string();
    let _backend = start(&["-c", OTHER_CPU, "nginx", "-e", "/dev/null", "-c"], &backend)?;
    let _peer = start(&["-c", PROXY_CPU, "nginx", "-e", "/dev/null", "-c"], &peer)?;
    let theirs = format!("https://127.0.0.1:{port}");
    wait_for(&theirs)?;
    ground.shell(&format!("taskset -acp {PROXY_CPU} {pid} >/dev/null"))?;
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        peers.push(wrk(&theirs)?);
        ours.push(wrk(&url)?);
    }
    report(&ours, &peers, figures);
    ground.shell(&format!("taskset -acp 0-1023 {pid} >/dev/null"))?;
    let told = Program::new("python3")
        .args(["-c", SOCKETS, "ask", &echo, "1000"])
        .output_within(Duration::from_secs(120))
        .map_err(|error| error.to_string())?;
    print(&format!(
        "  WebSockets                {} (bar: 1,000 at once, all echoed)",
        String::from_utf8_lossy(&told).trim()
    ));
    ground.hothouse(&["nuke", "--yes"])?;
    ground.hothouse(&["daemon", "stop"]).map(drop)
}

fn report(ours: &[Load], peers: &[Load], figures: &mut Figures) {
    let median = |loads: &[Load], of: fn(&Load) -> f64| {
        let mut all: Vec<f64> = loads.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let (rate, peer_rate) = (median(ours, |load| load.rate), median(peers, |load| load.rate));
    let (p99, peer_p99) = (median(ours, |load| load.p99), median(peers, |load| load.p99));
    figures.add("router, rate", rate, "req/s");
    figures.add("router, p99", p99, "ms");
    print(&format!(
        "router: TLS 1.3, {CONNECTIONS} connections, {SECONDS} each, median of {ROUNDS}, alternating, a processor each"
    ));
    print(&format!(
        "  nginx                     {peer_rate:>9.0} requests/s, p99 {peer_p99:.2} ms"
    ));
    print(&format!("  hothouse, into a room     {rate:>9.0} requests/s, p99 {p99:.2} ms"));
    bar("ratio of rates", rate / peer_rate, "", Bar::AtLeast(0.8));
    bar("ratio of p99", p99 / peer_p99, "", Bar::AtMost(1.5));
}

fn start(words: &[&str], config: &Path) -> Result<Running, String> {
    let program = Program::new("taskset").args(words).arg(config);
    let (talker, _pipes) = program.converse().map_err(|error| error.to_string())?;
    Ok(Running(Some(talker)))
}

fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

fn wait_for(url: &str) -> Result<(), String> {
    for _ in 0..200 {
        if Program::new("curl")
            .args(["-sk", "-o", "/dev/null", "--noproxy", "*", url])
            .output()
            .is_ok()
        {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(format!("{url} does not answer"))
}

/// Measures a URL.
fn wrk(url: &str) -> Result<Load, String> {
    // wrk uses the resolver, which may not know names below `.localhost`.
    let host = url.trim_start_matches("https://");
    let port = host.rsplit_once(':').map_or("443", |(_, port)| port);
    let (header, to) = (format!("Host: {host}"), format!("https://127.0.0.1:{port}/"));
    let words = [
        "-c",
        OTHER_CPU,
        "wrk",
        "-t1",
        "-c",
        CONNECTIONS,
        "-d",
        SECONDS,
        "--latency",
        "-H",
        &header,
        &to,
    ];
    let told = Program::new("taskset").args(words).output().map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&told).into_owned();
    let after = |name: &str| {
        let line = told.lines().find_map(|line| line.trim().strip_prefix(name));
        line.map(|rest| rest.trim().to_owned()).ok_or_else(|| format!("wrk said: {told}"))
    };
    if told.contains("Non-2xx") || told.contains("Socket errors") {
        return Err(format!("not every request was answered: {told}"));
    }
    let rate = after("Requests/sec:")?.parse().map_err(|_| format!("wrk said: {told}"))?;
    let p99 = after("99%")?;
    let p99 = milliseconds(&p99).ok_or_else(|| format!("wrk said: {told}"))?;
    Ok(Load { rate, p99 })
}

/// Parses a duration in the format of wrk.
fn milliseconds(text: &str) -> Option<f64> {
    let (number, factor) = match text {
        text if text.ends_with("us") => (text.strip_suffix("us")?, 0.001),
        text if text.ends_with("ms") => (text.strip_suffix("ms")?, 1.0),
        text => (text.strip_suffix('s')?, 1000.0),
    };
    Some(number.parse::<f64>().ok()? * factor)
}
