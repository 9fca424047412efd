//! The page with a sandbox's changes: files, then the diff. It does not update, since rendering it
//! runs git.

use askama::Template;
use hothouse_api::workspace::FileChangeView;
use hothouse_dashboard::code::{self, Piece};
use hothouse_ingress::html::Markup;

use crate::Daemon;

/// The maximum size of a diff in a page.
const LIMIT: usize = 512 << 10;

/// The maximum length of a line with syntax colours.
const CODE_LINE: usize = 2000;

/// The changes of a sandbox.
#[derive(Template)]
#[template(path = "changes.html")]
pub(super) struct Changes {
    name: String,
    base: String,
    /// The diff, or why it is not available.
    difference: Result<Difference, String>,
    navigation: Markup,
}

struct Difference {
    files: Vec<FileChangeView>,
    text: String,
    is_cut: bool,
}

impl Difference {
    fn new(files: Vec<FileChangeView>, text: &[u8]) -> Self {
        let shown = String::from_utf8_lossy(&text[..text.len().min(LIMIT)]).into_owned();
        Self { files, text: shown, is_cut: text.len() > LIMIT }
    }
}

/// Finds the changes of a sandbox; `None` if there is no such sandbox.
pub(super) fn find(daemon: &Daemon, id: &str, navigation: Markup) -> Option<Changes> {
    let all = daemon.engine.sandboxes().ok()?;
    let sandbox = all.into_iter().find(|sandbox| sandbox.id.as_str() == id)?;
    let difference = match daemon.engine.difference(&sandbox, None) {
        Ok((_, difference)) => {
            let files = difference.files.into_iter().map(|file| FileChangeView {
                path: file.path,
                added: file.added,
                removed: file.removed,
            });
            Ok(Difference::new(files.collect(), &difference.text))
        }
        Err(failure) => Err(failure.message),
    };
    Some(Changes {
        name: sandbox.name.as_str().to_owned(),
        base: sandbox.base,
        difference,
        navigation,
    })
}

/// A line of a diff.
struct Line<'a> {
    kind: Option<&'static str>,
    pieces: Vec<(Piece, &'a str)>,
}

/// Splits a diff into lines; those of source files are coloured by language.
fn lines<'a>(text: &'a str) -> Vec<Line<'a>> {
    let mut comment = None;
    let line = |line: &'a str| {
        let kind = kind(line);
        if let Some(path) = line.strip_prefix("+++ ").or_else(|| line.strip_prefix("--- ")) {
            comment = if path == "/dev/null" { comment } else { code::comment_of(path) };
        }
        let is_code = matches!(kind, None | Some("plus" | "minus")) && line.len() < CODE_LINE;
        let pieces = match comment.filter(|_| is_code && line.is_char_boundary(1)) {
            Some(comment) => {
                let (sign, rest) = line.split_at(line.len().min(1));
                let mut pieces = vec![(Piece::Plain, sign)];
                pieces.extend(code::pieces(rest, comment));
                pieces
            }
            None => vec![(Piece::Plain, line)],
        };
        Line { kind, pieces }
    };
    text.lines().map(line).collect()
}

/// Returns the CSS class of a diff line.
fn kind(text: &str) -> Option<&'static str> {
    match text.as_bytes() {
        [b'd', b'i', b'f', b'f', ..] => Some("head"),
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Some("faint"),
        [b'@', b'@', ..] => Some("faint"),
        [b'+', ..] => Some("plus"),
        [b'-', ..] => Some("minus"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(files: &[FileChangeView], text: &[u8]) -> String {
        page("x", Ok(Difference::new(files.to_vec(), text)))
    }

    fn page(word: &str, difference: Result<Difference, String>) -> String {
        let word = || word.to_owned();
        let navigation = askama::filters::Safe(String::new());
        let page = Changes { name: word(), base: word(), difference, navigation };
        hothouse_ingress::html::render(&page).0
    }

    #[test]
    fn what_an_agent_wrote_is_shown_and_cannot_become_markup() {
        let files = [FileChangeView { path: "<b>".into(), added: Some(2), removed: None }];
        let shown =
            body(&files, b"diff --git a/x b/x\n@@ -1 +1 @@\n-<script>\n+</pre>\xff\n same\n");
        for part in [
            "<td class=path>&lt;b&gt;<td class=\"number plus\">+2<td class=\"number minus\">–",
            "<span class=head>diff --git a/x b/x</span>\n<span class=faint>@@ -1 +1 @@</span>\n",
            "<span class=minus>-&lt;script&gt;</span>\n<span class=plus>+&lt;/pre&gt;\u{fffd}</span>\n same\n",
        ] {
            assert!(shown.contains(part), "{shown}");
        }
        let code = body(&files, b"+++ b/x.rs\n+let a = \"<b>\"; // <i>\n");
        let coloured = "<span class=plus>+<span class=word>let</span> a = <span class=string>&quot;&lt;b&gt;&quot;</span>; \
                        <span class=comment>// &lt;i&gt;</span></span>";
        assert!(code.contains(coloured), "{code}");
        assert!(body(&[], b"").contains("No changes."));
        assert!(body(&files, &vec![b'x'; LIMIT + 1]).contains("too long"));
    }

    #[test]
    fn names_and_failures_cannot_become_markup() {
        let shown = page("<b a=\"1\" b='&", Err("<i>".into()));
        assert!(shown.contains("<p class=failure>&lt;i&gt;</p>"), "{shown}");
        assert!(shown.contains("&lt;b a=&quot;1&quot; b=&#39;&amp;"), "{shown}");
        assert!(!shown.contains("<b ") && !shown.contains("a=\"1"), "{shown}");
    }
}
