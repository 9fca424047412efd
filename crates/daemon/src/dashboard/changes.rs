//! The page of what a sandbox changed: its files, then the difference. It stands still, since making it
//! asks git.

use hothouse_api::workspace::FileChangeView;
use hothouse_ingress::pages::escape;

use super::page::{encoded, still};
use crate::Door;

/// The most of a difference that a browser is given.
const LIMIT: usize = 512 << 10;

/// Renders the changes of a sandbox; nothing if that is not there.
pub(super) fn page(door: &Door, id: &str) -> Option<String> {
    let all = door.engine.sandboxes().ok()?;
    let sandbox = all.into_iter().find(|sandbox| sandbox.id.as_str() == id)?;
    let body = match door.engine.difference(&sandbox, None) {
        Ok((_, difference)) => {
            let files = difference.files.into_iter().map(|file| FileChangeView {
                path: file.path,
                added: file.added,
                removed: file.removed,
            });
            body(&files.collect::<Vec<_>>(), &difference.text)
        }
        Err(failure) => format!("<p class=failure>{}</p>", escape(&failure.message)),
    };
    let main = format!(
        "<section class=one><h1><span class=faint>{project} /</span> <a href=\"/sandbox/{id}\">{name}</a></h1>\
         <p class=task>What it changed since {base}, uncommitted work included. \
         <code>hothouse diff -w {name}</code> shows the same.</p></section>{body}",
        project = escape(sandbox.project.as_str()),
        id = encoded(id),
        name = escape(sandbox.name.as_str()),
        base = escape(&sandbox.base),
    );
    Some(still(id, &main))
}

fn body(files: &[FileChangeView], text: &[u8]) -> String {
    if files.is_empty() {
        return "<section class=card><p class=task>Nothing.</p></section>".into();
    }
    let count =
        |sign: &str, lines: Option<u64>| lines.map_or("–".into(), |n| format!("{sign}{n}"));
    let rows = files.iter().map(|file| {
        format!(
            "<tr><td class=path>{}<td class=\"number plus\">{}<td class=\"number minus\">{}",
            escape(&file.path),
            count("+", file.added),
            count("−", file.removed)
        )
    });
    let rows: String = rows.collect();
    let shown = String::from_utf8_lossy(&text[..text.len().min(LIMIT)]);
    let rest = match text.len() > LIMIT {
        true => "<p class=task>The rest is too long for a page.</p>",
        false => "",
    };
    let lines: String = shown.lines().map(line).collect();
    format!(
        "<section class=card><div class=wide><table><tbody>{rows}</tbody></table></div></section>\n\
         <section class=card><pre class=\"log diff\" tabindex=0>{lines}</pre>{rest}</section>\n"
    )
}

/// Renders a line by what it says of itself.
fn line(text: &str) -> String {
    let kind = match text.as_bytes() {
        [b'd', b'i', b'f', b'f', ..] => "head",
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => "faint",
        [b'@', b'@', ..] => "faint",
        [b'+', ..] => "plus",
        [b'-', ..] => "minus",
        _ => return format!("{}\n", escape(text)),
    };
    format!("<span class={kind}>{}</span>\n", escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(body(&[], b"").contains("Nothing."));
        assert!(body(&files, &vec![b'x'; LIMIT + 1]).contains("too long"));
    }
}
