//! The wall, outward, against Squid in its peek-and-splice mode and against no proxy at all.
//!
//! Server and client are the same for all, and do a TLS handshake without encrypting: only what is between them is
//! measured.

mod opened;

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use hothouse_host::{Program, files};

use self::opened::Opened;
use super::{
    bars::{Bar, bar},
    figures::Figures,
    print,
    room::Ground,
};

const SERVER: &str = include_str!("egress/server.py");
const CLIENT: &str = include_str!("egress/client.py");
const PYTHON: &str = "/usr/bin/python3";
const ADDRESS: &str = "127.88.0.1";
const SQUID_PORT: u16 = 13_128;

const ROUNDS: usize = 5;
const MEGABYTES: u64 = 2048;
const SETUPS: &str = "400";
const IDLE: u64 = 4000;
const LOOKUPS: &str = "2000";

/// Runs all measurements.
pub(super) fn measure(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let ground = Ground::new(binary)?;
    let folder = ground.folder.path().to_owned();
    files::write(&folder.join("server.py"), SERVER).map_err(text)?;
    files::write(&folder.join("client.py"), CLIENT).map_err(text)?;
    files::write(&ground.repository().join("client.py"), CLIENT).map_err(text)?;
    let (server, resolver) = match start_server(&folder) {
        Ok(started) => started,
        Err(why) => {
            print(&format!("egress: SKIPPED, it needs root for port 443 and {PYTHON} ({why})"));
            return Ok(());
        }
    };
    let settings = format!("[egress]\nresolvers = [\"127.0.0.1:{resolver}\"]\n");
    files::make_folder(&folder.join("config/hothouse")).map_err(text)?;
    files::write(&folder.join("config/hothouse/hothouse.toml"), settings).map_err(text)?;
    let config = format!(
        "[project]\nname = \"bench\"\n[egress]\nmode = \"allowlist\"\nallow = [\"good.example\", \
         \"good.example:8444\", \"opened.example:8445\", \"{ADDRESS}\", \"{ADDRESS}:8444\", \
         \"{ADDRESS}:8445\"]\n{}",
        opened::CONFIG
    );
    files::write(&ground.repository().join("hothouse.toml"), config).map_err(text)?;
    let opened = Opened::start(&ground)?;
    ground.shell("cd r && git add -A && git commit -qm config")?;
    Opened::prepare(&ground)?;
    ground.hothouse(&["fork", "a"])?;
    ground.hothouse(&["up", "-w", "a"])?;
    let status: serde_json::Value =
        serde_json::from_str(&ground.hothouse(&["daemon", "status", "--json"])?).map_err(text)?;
    let daemon = status["pid"].as_u64().ok_or("the daemon has no pid")?;
    let squid = start_squid();
    if squid.is_none() {
        print("egress: no Squid with OpenSSL here (package squid-openssl): its part is SKIPPED");
    }
    let bench = Bench { ground: &ground, folder: &folder, daemon, squid: squid.as_ref(), resolver };
    let measured = bench.run(figures).and_then(|()| opened.measure(&ground, daemon, figures));
    opened.end();
    end(squid);
    end(Some(server));
    ground.hothouse(&["nuke", "--yes"])?;
    ground.hothouse(&["daemon", "stop"])?;
    measured
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

struct Bench<'a> {
    ground: &'a Ground<'a>,
    folder: &'a Path,
    daemon: u64,
    squid: Option<&'a Child>,
    resolver: u16,
}

impl Bench<'_> {
    fn run(&self, figures: &mut Figures) -> Result<(), String> {
        self.bytes(figures)?;
        self.setup(figures)?;
        self.names(figures)?;
        self.idle(figures)
    }

    /// Runs the client on the host.
    fn outside(&self, words: &[&str]) -> Result<f64, String> {
        let client = self.folder.join("client.py");
        let output = Program::new(PYTHON).arg(client).args(words).output().map_err(text)?;
        String::from_utf8_lossy(&output).trim().parse().map_err(text)
    }

    /// Runs the client in the room.
    fn inside(&self, words: &[&str]) -> Result<f64, String> {
        let all = [&["exec", "-w", "a", "--", PYTHON, "client.py"], words].concat();
        self.ground.hothouse(&all)?.trim().parse().map_err(text)
    }

    fn bytes(&self, figures: &mut Figures) -> Result<(), String> {
        let count = MEGABYTES.to_string();
        let port = SQUID_PORT.to_string();
        let (mut direct, mut peer, mut ours) = (Vec::new(), Vec::new(), Vec::new());
        let (mut peer_cpu, mut our_cpu) = (0.0, 0.0);
        for _ in 0..ROUNDS {
            direct.push(self.outside(&["direct", ADDRESS, "bytes", &count])?);
            if let Some(squid) = self.squid {
                let before = cpu(squid.id().into());
                peer.push(self.outside(&[&port, ADDRESS, "bytes", &count])?);
                peer_cpu += cpu(squid.id().into()) - before;
            }
            let before = cpu(self.daemon);
            ours.push(self.inside(&["direct", "good.example", "bytes", &count])?);
            our_cpu += cpu(self.daemon) - before;
        }
        let rate = |times: Vec<f64>| MEGABYTES as f64 / 1024.0 / middle(times);
        let gigabytes = MEGABYTES as f64 / 1024.0 * ROUNDS as f64;
        let (direct, ours) = (rate(direct), rate(ours));
        figures.add("spliced connection", ours, "GB/s");
        figures.add("spliced connection, CPU", our_cpu / gigabytes, "s/GB");
        print(&format!(
            "egress: {MEGABYTES} MB through a spliced connection, median of {ROUNDS}, alternating"
        ));
        print(&format!("  direct              {direct:>8.2} GB/s"));
        if !peer.is_empty() {
            let peer = rate(peer);
            print(&format!(
                "  squid, spliced      {peer:>8.2} GB/s   {:.3} s of CPU per GB",
                peer_cpu / gigabytes
            ));
            print(&format!(
                "  hothouse            {ours:>8.2} GB/s   {:.3} s of CPU per GB",
                our_cpu / gigabytes
            ));
            bar("throughput, ratio", ours / peer, "", Bar::AtLeast(1.0));
            bar("processor time, ratio", our_cpu / peer_cpu, "", Bar::AtMost(1.0));
        } else {
            print(&format!(
                "  hothouse            {ours:>8.2} GB/s   {:.3} s of CPU per GB",
                our_cpu / gigabytes
            ));
        }
        print(&format!("  share of direct     {:>8.2}", ours / direct));
        Ok(())
    }

    fn setup(&self, figures: &mut Figures) -> Result<(), String> {
        let port = SQUID_PORT.to_string();
        let (mut direct, mut peer, mut ours) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            direct.push(self.outside(&["direct", ADDRESS, "setup", SETUPS])?);
            if self.squid.is_some() {
                peer.push(self.outside(&[&port, ADDRESS, "setup", SETUPS])?);
            }
            ours.push(self.inside(&["direct", "good.example", "setup", SETUPS])?);
        }
        let (direct, ours) = (middle(direct), middle(ours));
        figures.add("connection set-up", ours, "ms");
        print(&format!(
            "egress: connection set-up to the first byte, median of {SETUPS}, {ROUNDS} rounds"
        ));
        print(&format!("  direct              {direct:>8.3} ms"));
        if !peer.is_empty() {
            print(&format!("  squid, spliced      {:>8.3} ms", middle(peer)));
        }
        print(&format!("  hothouse            {ours:>8.3} ms"));
        bar("set-up of a connection adds", ours - direct, "ms", Bar::AtMost(1.0));
        Ok(())
    }

    fn names(&self, figures: &mut Figures) -> Result<(), String> {
        let port = self.resolver.to_string();
        let direct = self.outside(&[&port, ADDRESS, "names", LOOKUPS])?;
        let ours = self.inside(&["direct", "good.example", "names", LOOKUPS])?;
        figures.add("look-up of a known name", ours, "ms");
        print(&format!("egress: a name that is remembered, median of {LOOKUPS}"));
        print(&format!("  a resolver in Python {direct:>7.3} ms"));
        bar("look-up of a known name", ours, "ms", Bar::AtMost(0.3));
        Ok(())
    }

    /// Measures the memory of silent connections, as the growth of the daemon.
    fn idle(&self, figures: &mut Figures) -> Result<(), String> {
        let before = memory(self.daemon);
        let words =
            ["exec", "-w", "a", "--", PYTHON, "client.py", "direct", "good.example", "idle"];
        let count = IDLE.to_string();
        let (talker, pipes) = self.ground.converse(&[&words[..], &[&count]].concat())?;
        let mut line = String::new();
        BufReader::new(std::fs::File::from(pipes.from)).read_line(&mut line).map_err(text)?;
        let after = memory(self.daemon);
        drop(pipes.to);
        talker.end();
        if line.trim() != "held" {
            return Err(format!("the idle connections were not made: {line}"));
        }
        let each = after.saturating_sub(before) as f64 / 1024.0 / IDLE as f64;
        figures.add("memory of an idle connection", each, "KB");
        print(&format!("egress: {IDLE} idle connections"));
        bar("memory of each", each, "KB", Bar::AtMost(20.0));
        Ok(())
    }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the processor time that a process has used, in seconds.
fn cpu(pid: u64) -> f64 {
    let stat = files::read_text(Path::new(&format!("/proc/{pid}/stat"))).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |at: usize| fields.split_whitespace().nth(at).and_then(|n| n.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}

/// Returns the private memory of a process, in bytes.
fn memory(pid: u64) -> u64 {
    let status = files::read_text(Path::new(&format!("/proc/{pid}/status"))).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[expect(
    clippy::disallowed_methods,
    reason = "a peer that runs beside us, and is ended by its handle"
)]
fn spawn(program: &str, words: &[&str]) -> Result<Child, String> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().map_err(text)
}

fn start_server(folder: &Path) -> Result<(Child, u16), String> {
    let script = folder.join("server.py").display().to_string();
    let mut server = spawn(PYTHON, &[&script, ADDRESS])?;
    let mut line = String::new();
    let output = server.stdout.take().ok_or("it has no output")?;
    BufReader::new(output).read_line(&mut line).map_err(text)?;
    let port = line.trim().parse().map_err(|_| "the server did not start".to_owned())?;
    let begun = Instant::now();
    while std::net::TcpStream::connect((ADDRESS, 443)).is_err() {
        if begun.elapsed() > Duration::from_secs(5) {
            end(Some(server));
            return Err("nobody listens on port 443".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok((server, port))
}

/// Starts Squid so that it reads the ClientHello and then passes bytes on.
fn start_squid() -> Option<Child> {
    let about = Program::new("squid").arg("-v").output().ok()?;
    if !String::from_utf8_lossy(&about).contains("with-openssl") {
        return None;
    }
    let place = PathBuf::from("/tmp").join(format!("hothouse-squid-{}", std::process::id()));
    files::make_folder(&place).ok()?;
    let at = |name: &str| place.join(name).display().to_string();
    let (key, certificate) = (at("key.pem"), at("cert.pem"));
    let words = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=bench",
        "-keyout",
        &key,
        "-out",
        &certificate,
    ];
    Program::new("openssl").args(words).output().ok()?;
    let config = format!(
        "http_port 127.0.0.1:{SQUID_PORT} ssl-bump tls-cert={certificate} tls-key={key} generate-host-certificates=off\n\
         acl step1 at_step SslBump1\nssl_bump peek step1\nssl_bump splice all\nhttp_access allow all\n\
         cache deny all\naccess_log none\ncache_log /dev/null\npid_filename none\ncoredump_dir {}\n\
         cache_effective_user proxy\nshutdown_lifetime 0 seconds\nbuffered_logs on\n",
        place.display()
    );
    files::write(&place.join("squid.conf"), config).ok()?;
    // Squid drops its privileges before it reads its key, which protects nothing here.
    Program::new("chmod").args(["-R", "a+rX", &place.display().to_string()]).output().ok()?;
    // A separate name keeps it out of the shared memory of others.
    let name = format!("hothouse{}", std::process::id());
    let squid = spawn("squid", &["-N", "-n", &name, "-f", &at("squid.conf")]).ok()?;
    let begun = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", SQUID_PORT)).is_err() {
        if begun.elapsed() > Duration::from_secs(10) {
            end(Some(squid));
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Some(squid)
}

fn end(child: Option<Child>) {
    let Some(mut child) = child else { return };
    // SIGTERM first: Squid leaves shared memory behind when it is killed.
    Program::new("kill").arg(child.id().to_string()).run().ok();
    let begun = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().ok();
    child.wait().ok();
}
