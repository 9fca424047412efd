//! The router from both sides of the wall: raw bytes, other protocols, and requests from rooms.

use std::{fs, io::Write, process::Stdio};

use hothouse_testkit::{git, skip};

use crate::{
    surroundings,
    url::{CONFIG, SERVER, app, apps, curl, has},
};

/// Sends bytes over TLS for a host name and prints what comes back.
const RAW: &str = r#"
import socket, ssl, sys
name, port = sys.argv[1], int(sys.argv[2])
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
raw = socket.create_connection(("127.0.0.1", port), timeout=20)
tls = context.wrap_socket(raw, server_hostname=name or None)
tls.sendall(sys.stdin.buffer.read())
said = b""
try:
    while True:
        part = tls.recv(65536)
        if not part: break
        said += part
except (TimeoutError, OSError): pass
sys.stdout.buffer.write(said)
"#;

fn raw(name: &str, port: &str, bytes: &[u8]) -> String {
    let mut child = std::process::Command::new("python3")
        .args(["-c", RAW, name, port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
}

/// Returns the host and port of a URL.
pub(crate) fn parts(url: &str) -> (String, String) {
    let rest = url.strip_prefix("https://").unwrap();
    let (host, port) = rest.split_once(':').unwrap_or((rest, "443"));
    (host.to_owned(), port.to_owned())
}

#[test]
fn no_bytes_lead_to_another_sandbox() {
    let Some((env, repository)) = apps() else { return };
    let url = app(&env, &repository, "a")["url"].as_str().unwrap().to_owned();
    let (host, port) = parts(&url);
    let ask = |text: &str| raw(&host, &port, text.replace('\n', "\r\n").as_bytes());
    let honest = ask(&format!("GET / HTTP/1.1\nHost: {host}:{port}\nConnection: close\n\n"));
    assert!(honest.contains("i am a"), "{honest}");
    for (what, text, status) in [
        ("another host", "GET / HTTP/1.1\nHost: web.b.u.localhost\nConnection: close\n\n", "421"),
        (
            "two hosts",
            "GET / HTTP/1.1\nHost: HOST\nHost: web.b.u.localhost\nConnection: close\n\n",
            "400",
        ),
        (
            "an absolute address",
            "GET https://web.b.u.localhost/ HTTP/1.1\nHost: HOST\nConnection: close\n\n",
            "400",
        ),
        (
            "an absolute address without a host",
            "GET https://web.b.u.localhost/ HTTP/1.1\nConnection: close\n\n",
            "4",
        ),
        (
            "a user in the address",
            "GET https://HOST@web.b.u.localhost/ HTTP/1.1\nHost: HOST\nConnection: close\n\n",
            "400",
        ),
        ("no host", "GET / HTTP/1.1\nConnection: close\n\n", "400"),
        (
            "a host with a space",
            "GET / HTTP/1.1\nHost: HOST web.b.u.localhost\nConnection: close\n\n",
            "4",
        ),
        (
            "our own host",
            "GET /v1/sandboxes HTTP/1.1\nHost: hothouse.localhost\nConnection: close\n\n",
            "421",
        ),
    ] {
        let said = ask(&text.replace("HOST", &host));
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{what}: {said}");
        assert!(!said.contains("i am"), "{what}: {said}");
    }
    // A second request in the body of the first must stay a body.
    let smuggled = "GET /second HTTP/1.1\nHost: web.b.u.localhost\n\n".replace('\n', "\r\n");
    for head in [
        "Content-Length: 4\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\nContent-Length: 4",
    ] {
        let text = format!("POST /first HTTP/1.1\nHost: {host}\n{head}\n\n").replace('\n', "\r\n");
        let body = format!("{:x}\r\n{smuggled}\r\n0\r\n\r\n", smuggled.len());
        let after = format!("GET /last HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let said = raw(&host, &port, format!("{text}{body}{after}").as_bytes());
        assert!(!said.contains("i am b") && !said.contains("/second\n"), "{head}: {said}");
    }
    // Attempts to smuggle requests, or to forge what we add about the client.
    let post = format!("POST /first HTTP/1.1\nHost: {host}\n").replace('\n', "\r\n");
    let body = "Connection: Upgrade\r\nUpgrade: other\r\nContent-Length: 5\r\n\r\nhello";
    let after = format!("GET /last HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let said = raw(&host, &port, format!("{post}{body}{after}").as_bytes());
    assert!(said.contains("content-length: 5\n") && said.contains("\n/last\n"), "{said}");
    let tunnel = ask(&format!("CONNECT {host}:443 HTTP/1.1\nHost: {host}:443\n\n"));
    assert!(tunnel.starts_with("HTTP/1.1 405"), "{tunnel}");
    let said = raw(
        &host,
        &port,
        &[
            format!("GET / HTTP/1.1\r\nHost: {host}\r\nX_Forwarded_For: 6.6.6.6\r\n").as_bytes(),
            b"Connection: close, host\r\nCookie: a=\xc3\xa9; hothouse-sandbox=b\r\n\r\n",
        ]
        .concat(),
    );
    assert!(said.contains(&format!("\nhost: {host}\n")) && said.contains("\ncookie: a="), "{said}");
    assert!(!said.contains("hothouse-sandbox") && !said.contains("6.6.6.6"), "{said}");
    let cookie = "Cookie: hothouse-sandbox=whatever; hothouse-sandbox=b";
    let picked = ask(&format!("GET / HTTP/1.1\nHost: {host}\n{cookie}\nConnection: close\n\n"));
    assert!(picked.contains("i am a") && !picked.contains("\ncookie:"), "{picked}");
}

#[test]
fn an_invalid_name_is_reported() {
    let Some((env, repository)) = apps() else { return };
    let url = app(&env, &repository, "a")["url"].as_str().unwrap().to_owned();
    let (host, port) = parts(&url);
    let plain = |name: &str, host: &str| {
        raw(
            name,
            &port,
            format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes(),
        )
    };
    assert!(plain("", &host).contains("i am a"), "a greeting without a name is no fault");
    let long = format!("{}.u.localhost", "x".repeat(64));
    for name in [long.as_str(), "a.b.c.d.localhost", "xn--.localhost", "localhost", "example.com"] {
        let said = plain("", name);
        assert!(said.starts_with("HTTP/1.1 404"), "{name}: {said}");
        assert!(said.contains(&host), "what there is, is told: {said}");
    }
    assert!(
        plain("", "b\u{fc}cher.localhost").starts_with("HTTP/1.1 400"),
        "unicode is written in ASCII"
    );
    assert_eq!(plain("example.com", "example.com"), "", "nobody vouches for foreign names");
    let (_, plain_port) = {
        let ports = fs::read_to_string(env.state().join("url-ports")).unwrap();
        let (one, two) = ports.trim().split_once(' ').unwrap();
        (one.to_owned(), two.to_owned())
    };
    let led = curl(&[
        "-i",
        "-H",
        &format!("Host: {host}"),
        &format!("http://127.0.0.1:{plain_port}/x?y"),
    ]);
    assert!(
        led.contains("308") && led.to_lowercase().contains(&format!("location: {url}/x?y")),
        "{led}"
    );
}

#[test]
fn a_crashed_app_is_named_with_its_last_words() {
    let Some((env, repository)) = apps() else { return };
    let url = app(&env, &repository, "a")["url"].as_str().unwrap().to_owned();
    fs::write(
        env.root().join("u-sandboxes/a/server.py"),
        "print('<b>out of cheese</b>', flush=True)\nraise SystemExit(3)\n",
    )
    .unwrap();
    env.run(&repository, &["restart", "web", "-w", "a"]);
    let page = curl(&["-i", "-H", "Accept: text/html", &url]);
    assert!(page.contains("502") && page.contains("Service web does not answer"), "{page}");
    assert!(
        page.contains("&lt;b&gt;out of cheese&lt;/b&gt;") && !page.contains("<b>out"),
        "{page}"
    );
    let plain = curl(&["-i", &url]);
    assert!(
        plain.contains("service web of sandbox a does not answer") && !plain.contains("cheese"),
        "{plain}"
    );
}

#[test]
fn routed_urls_hold_inside_a_room_and_lead_to_its_own_sandbox_alone() {
    let Some((env, repository)) = apps() else { return };
    let of = |name: &str| app(&env, &repository, name)["url"].as_str().unwrap().to_owned();
    let (a, b) = (of("a"), of("b"));
    let inside = |url: &str| {
        let words = ["exec", "-w", "a", "--", "curl", "-sk", "-m", "20", "--noproxy", "*", url];
        env.run(&repository, &words).stdout
    };
    assert!(inside(&a).starts_with("i am a"), "{}", inside(&a));
    let foreign = inside(&b);
    assert!(!foreign.contains("i am") && foreign.contains("no app has this name"), "{foreign}");
    assert!(
        foreign.contains(&a) && !foreign.contains(&format!("{b} ")),
        "only itself is listed: {foreign}"
    );
    let shared = app(&env, &repository, "a")["shared"].as_str().unwrap().to_owned();
    let id =
        env.json(&repository, &["status", "-w", "b", "--json"])["id"].as_str().unwrap().to_owned();
    assert!(
        inside(&format!("{shared}/?hothouse-sandbox={id}")).is_empty()
            || !inside(&shared).contains("i am b")
    );
    assert!(inside(&shared).starts_with("i am a"), "a shared name means the room's own sandbox");
    let own = a.replace("web.a.u.localhost", "hothouse.localhost");
    assert!(
        inside(&own).contains("no app has this name"),
        "the dashboard is not for rooms: {}",
        inside(&own)
    );
    let script = format!("import urllib.request as r; print(r.urlopen('{a}').read(6).decode())");
    let trusted = env.run(&repository, &["exec", "-w", "a", "--", "python3", "-c", &script]);
    assert_eq!(trusted.stdout, "i am a\n", "name and certificate are known inside: {trusted}");
    let said = env
        .ok(&repository, &["exec", "-w", "a", "web", "--", "sh", "-c", "echo $SELF_URL $INSIDE"]);
    assert_eq!(said.trim(), format!("{a} http://127.0.0.1:3000"));
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    let artifacts = status["run"]["artifacts"].as_str().unwrap();
    let write = format!("echo x >{artifacts}/run.json");
    assert_ne!(env.run(&repository, &["exec", "-w", "a", "--", "sh", "-c", &write]).code, 0);
    let run = fs::read_to_string(format!("{artifacts}/run.json")).unwrap();
    assert!(run.contains("\"services\"") && run.contains("\"caveats\""), "{run}");
}

#[test]
fn the_launch_panel_teaches_the_tool() {
    let Some((env, repository)) = apps() else { return };
    let app = app(&env, &repository, "a");
    for words in [["up", "-w", "a"], ["status", "-w", "a"]] {
        let shown = env.ok(&repository, &words);
        for part in [
            "Apps\n",
            app["url"].as_str().unwrap(),
            app["direct"].as_str().unwrap(),
            "Services\n",
            "Inspect\n",
            "hothouse logs web -w a -f",
            "hothouse exec -w a -- COMMAND",
            "Artifacts\n",
        ] {
            assert!(shown.contains(part), "{words:?} lacks {part}: {shown}");
        }
    }
    let told = env.ok(&repository, &["up", "-w", "a"]);
    assert!(told.starts_with("Sandbox ready: a  "), "{told}");
}

#[test]
fn superset_finds_its_commands_where_the_project_uses_it() {
    if !has("python3") {
        return skip("Superset", "python3");
    }
    let env = surroundings();
    if !env.can_have_rooms("Superset") {
        return;
    }
    let repository = env.repository("u", CONFIG);
    fs::write(repository.join("server.py"), SERVER).unwrap();
    fs::create_dir(repository.join(".superset")).unwrap();
    fs::write(repository.join(".superset/notes"), "x").unwrap();
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-qm", "server"]);
    env.ok(&repository, &["fork", "a"]);
    let worktree = env.root().join("u-sandboxes/a");
    fs::write(worktree.join("who"), "a").unwrap();
    // A link that the agent planted is not followed.
    let outside = env.root().join("outside.json");
    fs::write(&outside, "mine").unwrap();
    std::os::unix::fs::symlink(&outside, worktree.join(".superset/ports.json")).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(worktree.join(".superset").join(name)).unwrap()).unwrap()
    };
    assert_eq!(read("config.json")["run"][0], "hothouse up --reuse");
    assert_eq!(read("ports.json")["ports"][0]["label"], "web");
    assert_eq!(fs::read_to_string(outside).unwrap(), "mine");
    assert_eq!(git(&worktree, &["status", "--porcelain"]), "?? who");
}

#[test]
fn exposed_ports_lead_into_the_room_and_conflicts_name_their_holder() {
    let Some((env, repository)) = apps() else { return };
    let exposed = env.json(&repository, &["expose", "3000", "-w", "b", "--json"]);
    let port = exposed["host_port"].as_u64().unwrap();
    assert!(curl(&[&format!("http://127.0.0.1:{port}/x")]).starts_with("i am b"));
    let again = env.json(&repository, &["expose", "3000", "-w", "b", "--json"]);
    assert_eq!(again, exposed, "the same question has the same answer");
    let listed = env.ok(&repository, &["ports"]);
    assert!(listed.contains("port 3000"), "{listed}");
    let status = env.json(&repository, &["status", "-w", "b", "--json"]);
    assert_eq!(status["exposed"][0]["host_port"].as_u64(), Some(port));
    let other = env.run(&repository, &["expose", "3000", "-w", "b", "--host-port", "1"]);
    assert_eq!(other.code, 5, "{other}");
    let taken =
        env.run(&repository, &["expose", "3000", "-w", "a", "--host-port", &port.to_string()]);
    assert!(taken.code == 5 && taken.stderr.contains("u/b"), "{taken}");
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let held_port = held.local_addr().unwrap().port().to_string();
    let refused = env.run(&repository, &["expose", "3000", "-w", "a", "--host-port", &held_port]);
    let own = format!("process {}", std::process::id());
    assert!(refused.code == 5 && refused.stderr.contains(&own), "{refused}");
    drop(held);
    assert!(
        env.ok(&repository, &["expose", "3000", "-w", "a", "--host-port", &held_port])
            .contains(&held_port)
    );
    assert!(curl(&[&format!("http://127.0.0.1:{held_port}/")]).starts_with("i am a"));
    env.ok(&repository, &["ports", "release", &port.to_string()]);
    assert_eq!(
        curl(&["-o", "/dev/null", "-w", "%{http_code}", &format!("http://127.0.0.1:{port}")]),
        "000"
    );
    for bad in ["0", "65536", "x"] {
        assert_eq!(env.run(&repository, &["expose", bad, "-w", "a"]).code, 2, "{bad}");
    }
}

#[test]
fn a_service_of_the_host_is_in_the_room_only_if_the_base_says_so() {
    let Some((env, _)) = apps() else { return };
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in host.incoming().flatten() {
            let mut stream = stream;
            stream
                .write_all(
                    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nfrom host",
                )
                .ok();
            std::io::copy(&mut stream, &mut std::io::sink()).ok();
        }
    });
    let config =
        format!("[project]\nname = \"h\"\n[service.warehouse]\nhost = true\nport = {port}\n");
    let repository = env.repository("h", &config);
    env.ok(&repository, &["fork", "c"]);
    env.ok(&repository, &["up", "-w", "h/c"]);
    let asked = format!("curl -s -m 20 http://127.0.0.1:{port}/");
    let inside = env.ok(&repository, &["exec", "-w", "h/c", "--", "sh", "-c", &asked]);
    assert_eq!(inside, "from host");
    // Another room cannot reach it, and an agent cannot add one.
    let foreign = env.run(&env.root().join("u"), &["exec", "-w", "u/a", "--", "sh", "-c", &asked]);
    assert_eq!((foreign.code == 0, foreign.stdout.as_str()), (false, ""));
    let worktree = env.root().join("h-sandboxes/c/hothouse.toml");
    fs::write(&worktree, format!("{config}[service.more]\nhost = true\nport = 22\n")).unwrap();
    let refused = env.run(&repository, &["up", "-w", "h/c"]);
    assert!(refused.code == 3 && refused.stderr.contains("not approved"), "{refused}");
}

/// Speaks HTTP/2 to the router: a WebSocket with an extended CONNECT, and two gRPC calls.
const NODE: &str = r#"
const http2 = require('http2'), crypto = require('crypto');
const [web, grpc] = process.argv.slice(1);
const here = { address: '127.0.0.1', family: 4 };
const lookup = (name, options, done) => options.all ? done(null, [here]) : done(null, here.address, 4);
const open = (url) => http2.connect(url, { rejectUnauthorized: false, lookup });
async function socket() {
  const client = open(web);
  await new Promise((done) => client.once('remoteSettings', done));
  if (!client.remoteSettings.enableConnectProtocol) throw new Error('no extended CONNECT');
  const stream = client.request({ ':method': 'CONNECT', ':protocol': 'websocket', ':path': '/echo', ':scheme': 'https', ':authority': new URL(web).host, 'sec-websocket-version': '13' });
  const headers = await new Promise((done, fail) => { stream.once('response', done); stream.once('error', fail); });
  const text = Buffer.from('over two'), mask = crypto.randomBytes(4);
  stream.write(Buffer.concat([Buffer.from([0x81, 0x80 | text.length]), mask, Buffer.from(text.map((b, i) => b ^ mask[i % 4]))]));
  const echoed = await new Promise((done) => stream.once('data', done));
  console.log('socket', headers[':status'], echoed.subarray(2).toString());
  client.destroy();
}
async function call(client, name) {
  const stream = client.request({ ':method': 'POST', ':path': '/shop.Cart/' + name, 'content-type': 'application/grpc', te: 'trailers' });
  const body = Buffer.from(name), head = Buffer.from([0, 0, 0, 0, body.length]);
  stream.end(Buffer.concat([head, body]));
  const trailers = new Promise((done) => stream.once('trailers', done));
  const parts = []; for await (const part of stream) parts.push(part);
  console.log('grpc', Buffer.concat(parts).subarray(5).toString(), (await trailers)['grpc-status']);
}
(async () => {
  await socket();
  const client = open(grpc);
  await call(client, 'One'); await call(client, 'Two');
  client.destroy();
})().catch((error) => { console.log('failed', error); process.exit(1); });
"#;

/// Answers gRPC over HTTP/2 without TLS, and reports the connection of each call.
const GRPC: &str = r#"
const http2 = require('http2');
const sessions = [];
http2.createServer().on('stream', (stream, headers) => {
  if (!sessions.includes(stream.session)) sessions.push(stream.session);
  const parts = [];
  stream.on('data', (part) => parts.push(part)).on('end', () => {
    const said = Buffer.concat(parts).subarray(5).toString() + ' on ' + sessions.indexOf(stream.session);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    const body = Buffer.from(said);
    stream.end(Buffer.concat([Buffer.from([0, 0, 0, 0, body.length]), body]));
  });
}).listen(4000, '127.0.0.1');
"#;

#[test]
fn websockets_and_grpc_pass_with_clients_that_others_wrote() {
    if !has("node") || !has("python3") || !has("curl") {
        return skip("WebSockets and gRPC", "node or python3");
    }
    let env = surroundings();
    if !env.can_have_rooms("WebSockets and gRPC") {
        return;
    }
    let config = "[project]\nname = \"p\"\n[service.echo]\nrun = \"python3 sockets.py serve 3001\"\nport = 3001\nready = { tcp = true }\nurl = \"echo\"\n\
                  [service.cart]\nrun = \"node grpc.js\"\nport = 4000\nready = { tcp = true }\nurl = \"cart\"\n";
    let repository = env.repository("p", config);
    let sockets = concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/src/bench/sockets.py");
    fs::copy(sockets, repository.join("sockets.py")).unwrap();
    fs::write(repository.join("grpc.js"), GRPC).unwrap();
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-qm", "servers"]);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let url = |app: &str| env.ok(&repository, &["url", app, "-w", "a"]).trim().to_owned();
    let asked = std::process::Command::new("python3")
        .args([sockets, "ask", &url("echo"), "50"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(
        said.starts_with("50 at once, all echoed"),
        "{said} {}",
        String::from_utf8_lossy(&asked.stderr)
    );
    let asked = std::process::Command::new("node")
        .args(["-e", NODE, &url("echo"), &url("cart")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert_eq!(
        said,
        "socket 200 over two\ngrpc One on 0 0\ngrpc Two on 0 0\n",
        "{}",
        String::from_utf8_lossy(&asked.stderr)
    );
}
