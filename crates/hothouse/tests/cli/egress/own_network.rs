//! The daemon in a network of its own, where a public prefix leads to the host itself.

use std::{
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
};

use hothouse_testkit::{TestEnv, is_root, skip};

use super::{py, records};
use crate::surroundings;

/// Routes a public prefix to the loopback and listens there; adds a public address for each line that it reads.
const HOST: &str = "
import http.server, os, subprocess, sys, threading
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'inside')
    def log_message(self, *a): pass
ip = lambda line: subprocess.run(['ip', *line.split()], check=True)
ip('link set lo up')
ip('route add local 93.184.216.0/24 dev lo')
threading.Thread(target=http.server.ThreadingHTTPServer(('0.0.0.0', 8080), H).serve_forever, daemon=True).start()
print('.', end='', flush=True)
for line in sys.stdin:
    ip(f'address add {line.strip()}/32 dev lo')
    print('.', end='', flush=True)
";

/// A host of its own, as a network.
struct Host(Child);

impl Host {
    fn start() -> Self {
        let mut unshared = Command::new("unshare");
        let unshared = unshared.args(["--net", "python3", "-c", HOST]);
        let mut host = Self(unshared.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        host.wait();
        host
    }

    /// Waits until what was requested is done.
    fn wait(&mut self) {
        self.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }

    fn add(&mut self, address: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{address}").unwrap();
        self.wait();
    }

    /// Runs a program in this network.
    fn run(&self, env: &TestEnv, program: &Path, words: &[&str]) -> String {
        let network = format!("--net=/proc/{}/ns/net", self.0.id());
        let mut command = Command::new("nsenter");
        let command = command.arg(network).arg("--").arg(program).args(words);
        let command = command.env_clear().envs(env.environment()).current_dir(env.root());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn fetch(address: &str) -> String {
    format!(
        "try: print(u.build_opener(u.ProxyHandler({{}})).open('http://{address}:8080/', timeout=20).read().decode())\n\
         except OSError as error: print('refused', error)"
    )
}

#[test]
fn public_addresses_of_the_host_itself_are_not_the_internet() {
    if !is_root() {
        return skip("a network of the host's own", "root");
    }
    let env = surroundings();
    if !env.can_have_rooms("walls") {
        return;
    }
    let repository =
        env.repository("acme", "[project]\nname = \"acme\"\n[egress]\nmode = \"open\"\n");
    let mut host = Host::start();
    host.run(&env, env.binary(), &["daemon", "start"]);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let python = Path::new("/usr/bin/env");
    for (address, is_new) in [("93.184.216.34", false), ("9.9.9.9", true)] {
        if is_new {
            host.add(address);
        }
        let direct = format!("import urllib.request as u\n{}", fetch(address));
        let direct = host.run(&env, python, &["python3", "-c", &direct]);
        assert_eq!(direct.trim(), "inside", "the host does not answer at {address}");
        let ran = py(&env, &repository, &fetch(address));
        assert!(ran.stdout.starts_with("refused"), "{address}: {ran}");
        let denied = records(&env, &repository, &["--denied"]);
        let last = denied.last().unwrap();
        assert_eq!((&last["address"], &last["code"]), (&address.into(), &"not-public".into()));
    }
}
