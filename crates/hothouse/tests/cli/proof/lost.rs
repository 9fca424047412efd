//! Scenarios with records that nobody judged, because they were lost.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use hothouse_testkit::{skip, wait_until};
use serde_json::Value;

use super::{Shop, failing, text_of};

const CONFIG: &str = r#"[project]
name = "shop"
[service.web]
run = "python3 app.py"
port = 3000
ready = { tcp = true }
url = "web"
[integration.posthog]
class = "sink"
hosts = ["us.i.posthog.com"]
[integration.pay]
class = "mock"
hosts = ["api.pay.example"]
[scenario.buy]
path = "/buy"
[scenario.buy.expect]
page = "Thank you"
unmatched = 0
"#;

/// It calls a host as it must not, when something has happened that hides it.
const APP: &str = r#"
import http.server, json, os, time, urllib.request as u
def post(url, body):
    try: return u.urlopen(u.Request(url, data=json.dumps(body).encode(), headers={"content-type": "application/json"}), timeout=120).status
    except u.HTTPError as error: return error.code
def events(count):
    return post("https://us.i.posthog.com/batch/", {"api_key": "k", "batch": [{"event": "Seen", "distinct_id": "ann"}] * count})
def say(name, answer):
    open(name, "w").close()
    while not os.path.exists(answer): time.sleep(0.02)
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/buy":
            BEFORE
            post("https://api.pay.example/nowhere", {})
            AFTER
        self.send_response(200 if self.path == "/buy" else 404)
        self.send_header("content-type", "text/html"); self.end_headers()
        self.wfile.write(b"<!doctype html><link rel=icon href=data:,><h1>Thank you</h1>")
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), H).serve_forever()
"#;

fn shop(before: &str, after: &str) -> Option<Shop> {
    let app = APP.replace("BEFORE", before).replace("AFTER", after);
    Shop::with(None, CONFIG, &[("app.py", &app), (".gitignore", "said-*\n")])
}

/// Asserts that a proof fails for a reason that verdict, summary, page and JSON name. The call itself may be recorded: the
/// last page of a full disk has some room.
fn is_not_proved(proof: &Value, why: &str) {
    assert_eq!(proof["ok"], false, "{proof:#}");
    assert!(failing(proof).iter().all(|check| *check == "unmatched"), "{proof:#}");
    assert!(proof["failure"].as_str().is_some_and(|failure| failure.contains(why)), "{proof:#}");
    let summary: Value = serde_json::from_str(&text_of(&proof["summary"]["json"])).unwrap();
    assert_eq!(summary["verdict"], "failed", "{why}");
    for file in ["md", "html"] {
        let text = text_of(&proof["summary"][file]);
        assert!(text.to_lowercase().contains("not proved") && text.contains(why), "{file}: {text}");
    }
}

/// A small disk below the folder of runs, unmounted on drop.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(folder: &Path) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let words = ["-t", "tmpfs", "-o", "size=24M", "tmpfs"];
        let mounted = Command::new("mount").args(words).arg(folder).status().unwrap();
        mounted.success().then(|| Self(folder.to_owned()))
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

#[test]
fn a_call_whose_record_was_lost_is_not_proved() {
    // Records of what may happen fill the last page of the file.
    let before = "say('said-ready', 'said-full'); [events(1) for _ in range(30)]";
    let Some(shop) = shop(before, "say('said-called', 'said-free')") else { return };
    let Some(disk) = shop.env.is_root().then(|| SmallDisk::mount(&shop.env.state().join("runs")))
    else {
        return skip("records that are lost", "root, to mount a small disk");
    };
    let Some(disk) = disk else { return skip("records that are lost", "a mount of tmpfs") };
    shop.up("a");
    let said = |name: &str| shop.worktree("a").join(name);
    let (ready, full) = (said("said-ready"), said("said-full"));
    let (called, free) = (said("said-called"), said("said-free"));
    let mut smoke = shop.env.command(&shop.repository, &["smoke", "buy", "-w", "a", "--json"]);
    let smoke = smoke.stdout(Stdio::piped()).spawn().unwrap();
    wait_until("the page is open", || ready.exists());
    disk.fill();
    fs::write(full, "").unwrap();
    wait_until("the call is over", || called.exists());
    disk.free();
    fs::write(free, "").unwrap();
    let output = smoke.wait_with_output().unwrap();
    let proof: Value = serde_json::from_slice(&output.stdout).unwrap();
    is_not_proved(&proof, "could not be written");
    let checked = shop.json(&["verify", proof["run"].as_str().unwrap(), "--json"]);
    assert_eq!(checked["ok"], true, "{checked:#}");
}
