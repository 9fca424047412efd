//! Pages that load vendor scripts, in the browser of a room: each is replaced, and the page keeps
//! working.

use std::{fs, path::Path, process::Command};

use hothouse_testkit::{git, skip};
use serde_json::Value;

use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "shop"
[egress]
mode = "allowlist"
[flags]
new-checkout = true
[integration.scripts]
class = "sink"
hosts = ["cdn.segment.com", "cdn.mxpnl.com", "cdn.amplitude.com", "www.googletagmanager.com", "plausible.io", "browser.sentry-cdn.com", "o1.ingest.sentry.io", "*.featureassets.org", "featureassets.org", "*.prodregistryv2.org", "prodregistryv2.org"]
[shim.places]
use = "google-maps"
[shim.chat]
use = "intercom"
[service.gen]
run = "exec python3 gen.py"
port = 3100
ready = { tcp = true }
url = "gen"
[service.web]
run = "exec python3 -m http.server 3000 --bind 127.0.0.1 --directory public"
port = 3000
ready = { tcp = true }
url = "web"
"#;

/// Each vendor is called as documented: before its script is loaded, and after.
const PAGE: &str = r#"<!doctype html><title>widgets</title><div id=map></div><ul id=done></ul>
<script>
const done = (name) => document.getElementById('done').append(Object.assign(document.createElement('li'), { textContent: `${name} is done` }));
analytics = [['track', 'Segment Queued', { lamp: 1 }]];
mixpanel = [['track', 'Mixpanel Queued', { lamp: 2 }]];
mixpanel._i = [['token', {}, 'mixpanel']];
dataLayer = [];
function gtag() { dataLayer.push(arguments); }
gtag('config', 'G-1', { send_page_view: false });
function ready() {
  const map = new google.maps.Map(document.getElementById('map'), { zoom: 3 });
  new google.maps.Marker({ map, position: { lat: 1, lng: 2 } }).addListener('click', () => {});
  map.fitBounds(new google.maps.LatLngBounds());
  done('map');
}
</script>
<script src="https://cdn.segment.com/analytics.js/v1/KEY/analytics.min.js"></script>
<script src="https://cdn.mxpnl.com/libs/mixpanel-2-latest.min.js"></script>
<script src="https://cdn.amplitude.com/libs/analytics-browser-2.11.1-min.js.gz"></script>
<script src="https://www.googletagmanager.com/gtag/js?id=G-1"></script>
<script data-domain="shop.example" src="https://plausible.io/js/script.js"></script>
<script src="https://browser.sentry-cdn.com/10.0.0/bundle.min.js"></script>
<script src="https://maps.googleapis.com/maps/api/js?key=K&callback=ready"></script>
<script src="https://widget.intercom.io/widget/app"></script>
<script>
analytics.track('Segment Direct', { lamp: 3 }, () => done('segment'));
mixpanel.track('Mixpanel Direct', { lamp: 4 }, () => done('mixpanel'));
amplitude.init('key', { autocapture: false });
amplitude.track('Amplitude Direct', { lamp: 5 }).promise.then(() => done('amplitude'));
gtag('event', 'Google Direct', { lamp: 6, event_callback: () => done('google') });
plausible('Plausible Direct', { props: { lamp: 7 }, callback: () => done('plausible') });
Sentry.init({ dsn: 'https://key@o1.ingest.sentry.io/2' });
Sentry.setTag('lamp', '8');
Sentry.captureException(new TypeError('from-a-cdn'));
Sentry.flush().then(() => done('sentry'));
Intercom('boot', { app_id: 'app' });
done('chat');
</script>
<script src="/statsig.js"></script>
"#;

const STATSIG: &str = r#"
import { StatsigClient } from '@statsig/js-client';
const client = new StatsigClient('client-key', { userID: 'u7' });
client.initializeAsync().then(() => {
  if (!client.checkGate('new-checkout')) return;
  client.logEvent('Statsig Direct', 1, { lamp: '9' });
  client.flush().then(() => done('statsig'));
});
"#;

/// Serves a page whose script and map are not files.
const GENERATED: &str = r#"
import http.server
FILES = {
    '/': '<!doctype html><title>made</title><script src="https://browser.sentry-cdn.com/10.0.0/bundle.min.js"></script>'
         '<script>Sentry.init({ dsn: "https://key@o1.ingest.sentry.io/2" })</script><script src="/made/app.js"></script>',
    '/made/app.js': 'throw new RangeError("only-served")\n//# sourceMappingURL=app.js.map',
    '/made/app.js.map': '{"version":3,"sources":["../src/lamp.ts"],"names":[],"mappings":"AAAA"}',
}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = FILES.get(self.path)
        self.send_response(200 if text else 404)
        self.send_header('content-type', 'text/html' if self.path == '/' else 'text/javascript')
        self.end_headers()
        self.wfile.write((text or '').encode())
http.server.ThreadingHTTPServer(('127.0.0.1', 3100), Handler).serve_forever()
"#;

/// Bundles Statsig's client for the page; `false` without a registry.
fn bundled(folder: &Path) -> bool {
    let ran = |program: &str, words: &[&str]| {
        let ran = Command::new(program).args(words).current_dir(folder).output();
        ran.is_ok_and(|ran| ran.status.success())
    };
    fs::write(folder.join("package.json"), "{}").unwrap();
    fs::write(folder.join("statsig.mjs"), STATSIG).unwrap();
    ran("npm", &["install", "--no-audit", "--no-fund", "@statsig/js-client", "esbuild"])
        && ran(
            "node_modules/.bin/esbuild",
            &["statsig.mjs", "--bundle", "--minify", "--outfile=public/statsig.js"],
        )
}

#[test]
fn pages_go_on_with_scripts_of_vendors_that_are_stood_in_for() {
    if !Path::new("/usr/bin/chromium").exists() {
        return skip("scripts of vendors in a room", "chromium");
    }
    let env = surroundings();
    if !env.can_have_rooms("scripts of vendors") {
        return;
    }
    let repository = env.repository("shop", CONFIG);
    fs::create_dir(repository.join("public")).unwrap();
    fs::write(repository.join("public/index.html"), PAGE).unwrap();
    fs::write(repository.join("gen.py"), GENERATED).unwrap();
    fs::write(repository.join(".gitignore"), "node_modules\nstatsig*\npackage*\n").unwrap();
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-qm", "page"]);
    env.ok(&repository, &["fork", "a"]);
    let has_statsig = bundled(&env.root().join("shop-sandboxes/a"));
    if !has_statsig {
        skip("Statsig in a browser", "npm and its registry");
        fs::write(env.root().join("shop-sandboxes/a/public/statsig.js"), "").unwrap();
    }
    env.ok(&repository, &["up", "-w", "a"]);
    let mut names =
        vec!["segment", "mixpanel", "amplitude", "google", "plausible", "sentry", "map", "chat"];
    names.extend(has_statsig.then_some("statsig"));
    let expects =
        names.iter().map(|name| format!("[[step]]\nexpect = \"text '{name} is done'\"\n"));
    let steps = format!("[[step]]\ngoto = \"/\"\n{}", expects.collect::<String>());
    fs::write(repository.join("steps.toml"), steps).unwrap();
    let looked =
        env.run(&repository, &["browse", "web", "--script", "steps.toml", "-w", "a", "--json"]);
    assert_eq!(looked.code, 0, "{looked}");
    let report: Value = serde_json::from_str(&looked.stdout).unwrap();
    let calls = |name: &str| {
        let shims = report["shims"].as_array().unwrap();
        shims.iter().find(|shim| shim["name"] == name).unwrap()["calls"].to_string()
    };
    assert!(calls("places").contains("new google.maps.Map(<div>, object)"), "{report:#}");
    assert!(calls("chat").contains("Intercom(\\\"boot\\\", object)"), "{report:#}");
    let ask = |words: &[&str]| env.json(&repository, &[words, &["-w", "a", "--json"]].concat());
    let events = ask(&["analytics"]);
    let lamp = |name: &str| {
        let event = events.as_array().unwrap().iter().find(|event| event["name"] == name);
        let event = event.unwrap_or_else(|| panic!("{name} in {events:#}"));
        event["properties"]["lamp"].to_string().trim_matches('"').to_owned()
    };
    for (name, expected) in [
        ("Segment Queued", "1"),
        ("Mixpanel Queued", "2"),
        ("Segment Direct", "3"),
        ("Mixpanel Direct", "4"),
        ("Amplitude Direct", "5"),
        ("Google Direct", "6.0"),
        ("Plausible Direct", "7"),
    ] {
        assert_eq!(lamp(name), expected, "{name}");
    }
    let errors = ask(&["errors"]);
    assert!(errors.to_string().contains("from-a-cdn"), "{errors:#}");
    // The map that only the app's server has.
    env.run(&repository, &["browse", "gen", "/", "-w", "a", "--json"]);
    let error = ask(&["wait", "error", "type=RangeError", "--timeout", "30s"]);
    let frames = error["body"]["frames"].as_array().unwrap();
    assert!(frames.iter().any(|frame| frame["file"] == "src/lamp.ts"), "{error:#}");
    if has_statsig {
        assert_eq!(lamp("Statsig Direct"), "9");
        let seen = ask(&["wait", "flag", "vendor=statsig", "--timeout", "30s"]);
        assert_eq!(
            (&seen["body"]["key"], &seen["body"]["value"]),
            (&"new-checkout".into(), &true.into())
        );
    }
}
