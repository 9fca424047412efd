//! How a browser is started in a room, and why it did not start. Pure.

use serde_json::{Value, json};

use crate::wire::Command;

/// The programs that are looked for, in this order.
pub const PROGRAMS: [&str; 7] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "chrome-headless-shell",
    "chromium-headless-shell",
];

/// The room's CA, as a file.
const CA: &str = "/usr/local/share/ca-certificates/hothouse.crt";

/// Where the room keeps what pages have the browser save, until the next browser is started.
pub const DOWNLOADS: &str = "/home/agent/.cache/hothouse-browser.downloads";

/// What is written to standard error where none of them is there.
const NONE: &str = "hothouse: no browser";

/// The oldest version that has all that is used.
pub const OLDEST: u32 = 120;

/// The flags of every start. A browser that calls home would be on the timeline as if the app had.
const FLAGS: [&str; 28] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-component-extensions-with-background-pages",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-features=AutofillServerCommunication,CertificateTransparencyComponentUpdater,IsolateOrigins,MediaRouter,OptimizationHints,OriginKeyedProcessesByDefault,PaintHolding,site-per-process,Translate",
    // Frames of other sites share the page's process, so that one session reaches them. The room is the fence.
    "--disable-site-isolation-trials",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-sync",
    // Asked for the accounts of a profile that has none; nothing listens there. Pages of that host have a process of their
    // own, so it is none that an app would have.
    "--gaia-url=http://127.0.0.2:9",
    "--hide-scrollbars",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-service-autorun",
    // Otherwise a click before the first frame is drawn, on a busy machine, is dropped without a word.
    "--allow-pre-commit-input",
    // Every page has a window of its own; a first one that nobody uses is a third of the time of a start.
    "--no-startup-window",
    "--password-store=basic",
    "--use-mock-keychain",
];

/// Hosts that Chromium asks for itself: for updates, extensions, lists and hints. They have no address in it, so that it
/// cannot be told from the app's own calls that it did.
const OWN_HOSTS: [&str; 11] = [
    "android.clients.google.com",
    "clients2.google.com",
    "clients2.googleusercontent.com",
    "clientservices.googleapis.com",
    "content-autofill.googleapis.com",
    "edgedl.me.gvt1.com",
    "mtalk.google.com",
    "optimizationguide-pa.googleapis.com",
    "redirector.gvt1.com",
    "safebrowsing.googleapis.com",
    "update.googleapis.com",
];

/// Whether Chromium builds its own sandbox in the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnSandbox {
    On,
    /// Only the room confines it.
    Off,
}

/// Returns the command that starts a browser: its pipe is standard input and output of the command.
pub fn argv(own_sandbox: OwnSandbox) -> Vec<String> {
    let programs = PROGRAMS.join(" ");
    let flags = FLAGS.join(" ");
    let open = if own_sandbox == OwnSandbox::Off { " --no-sandbox" } else { "" };
    let unknown = OWN_HOSTS.map(|host| format!("MAP {host} ~NOTFOUND")).join(",");
    // It reads no policies, which is where others have the room's CA from, but the user's database of NSS.
    let trust = format!(
        "case $p in *headless-shell) n=\"$HOME/.pki/nssdb\"; mkdir -p \"$n\"; \
         {{ [ -e \"$n/cert9.db\" ] || certutil -d \"sql:$n\" -N --empty-password; \
         certutil -d \"sql:$n\" -D -n hothouse; certutil -d \"sql:$n\" -A -t C,, -n hothouse -i {CA}; }} </dev/null >/dev/null 2>&1 ;; esac;"
    );
    // One browser per room: profiles of earlier ones are of no use.
    let script = format!(
        "p=; for c in {programs}; do p=$(command -v $c) && break; done; \
         [ -n \"$p\" ] || {{ echo '{NONE}' >&2; exit 127; }}; \
         {trust} mkdir -p \"$HOME/.cache\"; rm -rf \"$HOME/.cache/hothouse-browser.\"*; \
         d=$(mktemp -d \"$HOME/.cache/hothouse-browser.XXXXXX\") || exit 126; mkdir -p {DOWNLOADS}; \
         exec \"$p\" {flags}{open} '--host-resolver-rules={unknown}' --user-data-dir=\"$d\" 3<&0 4>&1 1>&2"
    );
    vec!["/bin/sh".into(), "-c".into(), script]
}

/// The commands that a browser is told first.
pub fn greeting() -> Vec<Command> {
    vec![
        Command::new("", "Browser.getVersion", json!({})),
        Command::new("", "Target.setDiscoverTargets", json!({ "discover": true })),
    ]
}

/// Why a browser is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No program is installed.
    Missing,
    /// Its own sandbox needs namespaces that the host does not give.
    NoNamespaces,
    /// It was killed, most likely for want of memory.
    Killed,
    TooOld(String),
    Other,
}

/// Judges by what it wrote to standard error and how it ended.
pub fn cause(stderr: &str, signal: Option<i32>) -> Cause {
    if stderr.contains(NONE) {
        return Cause::Missing;
    }
    let says_sandbox =
        ["No usable sandbox", "Failed to move to new namespace", "zygote_host_impl_linux"];
    if says_sandbox.iter().any(|text| stderr.contains(text)) {
        return Cause::NoNamespaces;
    }
    if signal == Some(9) {
        return Cause::Killed;
    }
    Cause::Other
}

/// Returns the product of a browser, or why it cannot be used.
pub fn version(answer: &Value) -> Result<String, Cause> {
    let product = hothouse_model::browse::cut(answer["product"].as_str().unwrap_or_default(), 80);
    let number =
        product.rsplit('/').next().and_then(|text| text.split('.').next()?.parse::<u32>().ok());
    match number {
        Some(number) if number >= OLDEST => Ok(product),
        _ => Err(Cause::TooOld(product)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_from_each_other() {
        for (stderr, signal, expected) in [
            ("hothouse: no browser\n", None, Cause::Missing),
            ("[1:1] FATAL: No usable sandbox! If", Some(5), Cause::NoNamespaces),
            ("", Some(9), Cause::Killed),
            ("x", None, Cause::Other),
        ] {
            assert_eq!(cause(stderr, signal), expected);
        }
    }

    #[test]
    fn an_old_browser_is_refused() {
        let of = |product: &str| version(&json!({ "product": product }));
        assert_eq!(of("HeadlessChrome/156.0.1").unwrap(), "HeadlessChrome/156.0.1");
        assert_eq!(of("Chrome/90.0"), Err(Cause::TooOld("Chrome/90.0".into())));
        assert!(of("").is_err());
    }

    #[test]
    fn the_profile_is_new_and_the_pipe_is_passed_on() {
        let [shell, _, script] = &argv(OwnSandbox::On)[..] else { panic!() };
        assert_eq!(shell, "/bin/sh");
        assert!(script.ends_with("3<&0 4>&1 1>&2") && !script.contains("--no-sandbox"));
        assert!(argv(OwnSandbox::Off)[2].contains(" --no-sandbox "));
        assert!(script.contains("*headless-shell)") && script.contains(CA), "{script}");
    }
}
