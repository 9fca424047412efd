//! The dashboard's own files. Each name contains a hash of the content: browsers may cache it forever, and no page gets
//! the script or the style of another release.

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use hothouse_ingress::proxy::{Body, body_of};
use hothouse_model::id::hex;
use hyper::{
    Response,
    header::{self, HeaderValue},
};

/// How many bytes of the hash are in a name.
const HASH: usize = 8;

/// One year: the content behind a name never changes.
const KEPT: &str = "public, max-age=31536000, immutable";

/// One file.
struct Asset {
    path: String,
    kind: &'static str,
    caching: &'static str,
    text: &'static str,
}

struct Assets {
    style: Asset,
    script: Asset,
    terminal_style: Asset,
    terminal_script: Asset,
    icon: Asset,
    /// Without a hash, because the header of the terminal's script names it.
    license: Asset,
}

static ASSETS: LazyLock<Assets> = LazyLock::new(|| {
    let (css, javascript) = ("text/css; charset=utf-8", "text/javascript; charset=utf-8");
    Assets {
        style: named("style", "css", css, include_str!("style.css")),
        script: named("app", "js", javascript, include_str!("app.js")),
        terminal_style: named("terminal", "css", css, include_str!("terminal.css")),
        terminal_script: named("terminal", "js", javascript, include_str!("terminal.js")),
        icon: named("icon", "svg", "image/svg+xml", include_str!("icon.svg")),
        license: Asset {
            path: "/terminal.license".into(),
            kind: "text/plain; charset=utf-8",
            caching: "no-cache",
            text: include_str!("terminal.license"),
        },
    }
});

fn named(stem: &str, ending: &str, kind: &'static str, text: &'static str) -> Asset {
    let hash = hex(&digest(&SHA256, text.as_bytes()).as_ref()[..HASH]);
    Asset { path: format!("/{stem}.{hash}.{ending}"), kind, caching: KEPT, text }
}

/// Answers with one of the files.
pub(super) fn answer(path: &str) -> Option<Response<Body>> {
    let Assets { style, script, terminal_style, terminal_script, icon, license } = &*ASSETS;
    let all = [style, script, terminal_style, terminal_script, icon, license];
    let asset = all.into_iter().find(|asset| asset.path == path)?;
    let mut response = Response::new(body_of(asset.text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(asset.caching));
    Some(response)
}

/// Returns the path of the style sheet of every page.
pub(super) fn style() -> &'static str {
    &ASSETS.style.path
}

/// Returns the path of the script of every page.
pub(super) fn script() -> &'static str {
    &ASSETS.script.path
}

/// Returns the path of the icon.
pub(super) fn icon() -> &'static str {
    &ASSETS.icon.path
}

/// Returns the paths of the terminal's style sheet and script.
pub(super) fn terminal() -> (&'static str, &'static str) {
    (&ASSETS.terminal_style.path, &ASSETS.terminal_script.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_changes_with_the_content_and_only_then() {
        let of = |text| named("app", "js", "text/javascript", text).path;
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        assert_eq!(of(""), "/app.e3b0c44298fc1c14.js");
    }

    #[test]
    fn what_has_a_hash_is_kept_for_good_and_other_names_are_not_there() {
        let caching = |path: &str| {
            let answer = answer(path)?;
            Some(answer.headers()[header::CACHE_CONTROL].to_str().unwrap().to_owned())
        };
        let (terminal_style, terminal_script) = terminal();
        for path in [style(), script(), icon(), terminal_style, terminal_script] {
            assert_eq!(caching(path).as_deref(), Some(KEPT), "{path}");
        }
        assert_eq!(caching("/terminal.license").as_deref(), Some("no-cache"));
        for path in ["/app.js", "/style.css", "/app.0000000000000000.js", "/"] {
            assert_eq!(caching(path), None, "{path}");
        }
    }
}
