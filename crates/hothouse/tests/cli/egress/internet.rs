//! Our own Internet: `internet.py` on a loopback address, and rooms that use it as resolver.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU8, Ordering},
};

use hothouse_testkit::{TestEnv, User, is_root, skip};

use crate::surroundings;

/// Each has its own address, so that tests can run in parallel with the usual ports.
static NEXT: AtomicU8 = AtomicU8::new(1);

pub(crate) struct Internet {
    child: Child,
    pub(crate) address: String,
    pub(crate) dns: u16,
    folder: tempfile::TempDir,
}

impl Internet {
    /// Starts it, if this host allows it.
    pub(crate) fn start() -> Option<Self> {
        if !is_root() {
            skip("hosts on ports 80 and 443", "root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let [high, low] = std::process::id().to_be_bytes()[2..] else { unreachable!() };
        let own = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = format!("127.{}.{low}.{own}", 64 | (high & 0x3f));
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        if !certify(folder.path()) {
            skip("an Internet of our own", "openssl");
            return None;
        }
        let mut names = serde_json::json!({
            "good.example": [address], "other.example": [address], "evil.example": [address],
            "inside.example": ["10.0.0.1"], "metadata.example": ["169.254.169.254"],
            "xn--bcher-kva.example": [address],
            "mapped.example": ["::ffff:127.0.0.1"], "six.example": ["::1"],
        });
        VENDORS.iter().for_each(|host| names[host] = serde_json::json!([address]));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/egress/internet.py");
        let mut child = Command::new("python3")
            .arg(script)
            .args([&address, &path("leaf.pem"), &path("key.pem"), &path("log")])
            .arg(names.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let dns =
            line.trim().parse().unwrap_or_else(|_| panic!("the Internet did not start: {line}"));
        fs::write(folder.path().join("log"), "").unwrap();
        Some(Self { child, address, dns, folder })
    }

    /// Returns its log of requests.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// Returns a file of its own, such as the certificate and key of its hosts.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Hosts of coding agent vendors, which it impersonates.
pub(crate) const VENDORS: [&str; 7] = [
    "api.anthropic.com",
    "chatgpt.com",
    "auth.openai.com",
    "oauth2.googleapis.com",
    "cloudcode-pa.googleapis.com",
    "www.googleapis.com",
    "platform.claude.com",
];

/// Creates a CA and a certificate for the known names.
fn certify(folder: &Path) -> bool {
    let vendors = VENDORS.map(|host| format!(",DNS:{host}")).concat();
    let script = "set -e
key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
openssl req -x509 $key -days 2 -subj '/CN=test authority' -keyout ca-key.pem -out ca.pem
openssl req $key -subj '/CN=test' -keyout key.pem -out leaf.csr
printf 'subjectAltName=DNS:good.example,DNS:other.example,DNS:evil.exampleVENDORS\nbasicConstraints=CA:FALSE\n' >leaf.ext
openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile leaf.ext -out leaf.pem
";
    let script = script.replace("VENDORS", &vendors);
    let made = Command::new("sh").args(["-c", &script]).current_dir(folder).output();
    made.is_ok_and(|made| made.status.success())
}

impl Drop for Internet {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Runs a test with a running sandbox `a` with this `[egress]`, for each user that is available
/// here. `ADDRESS` stands for the address of the Internet.
pub(crate) fn walled(egress: &str, test: impl Fn(&TestEnv, &Path, &Internet)) {
    walled_after(egress, |_, _| {}, test);
}

/// Like [`walled`], with a change of the environment before the daemon starts. The daemon trusts
/// the certificate of the Internet.
pub(crate) fn walled_after(
    egress: &str,
    before: impl Fn(&mut TestEnv, &Internet),
    test: impl Fn(&TestEnv, &Path, &Internet),
) {
    walled_with(|_| egress.to_owned(), before, test);
}

/// Like [`walled_after`], with an `[egress]` that is built once the Internet is running.
pub(super) fn walled_by(
    egress: impl Fn(&Internet) -> String,
    test: impl Fn(&TestEnv, &Path, &Internet),
) {
    walled_with(egress, |_, _| {}, test);
}

fn walled_with(
    egress: impl Fn(&Internet) -> String,
    before: impl Fn(&mut TestEnv, &Internet),
    test: impl Fn(&TestEnv, &Path, &Internet),
) {
    let users = std::iter::once(None).chain(User::ordinary().map(Some));
    for user in users {
        let Some(internet) = Internet::start() else { return };
        let mut env = surroundings();
        fs::create_dir_all(env.root().join("config/hothouse")).unwrap();
        let settings = format!("[egress]\nresolvers = [\"127.0.0.1:{}\"]\n", internet.dns);
        fs::write(env.root().join("config/hothouse/hothouse.toml"), settings).unwrap();
        let roots = env.root().join("roots.pem");
        fs::copy(internet.certificate(), &roots).unwrap();
        env.set("SSL_CERT_FILE", roots.to_str().unwrap());
        before(&mut env, &internet);
        if let Some(user) = user {
            env.become_user(user);
        }
        if !env.can_have_rooms("walls") {
            continue;
        }
        let egress = egress(&internet).replace("ADDRESS", &internet.address);
        let config = format!("[project]\nname = \"acme\"\n[egress]\n{egress}");
        let repository = env.repository("acme", &config);
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "-w", "a"]);
        let worktree = env.root().join("acme-sandboxes/a");
        fs::copy(internet.certificate(), worktree.join("ca.pem")).unwrap();
        test(&env, &repository, &internet);
    }
}
