//! Matches scripts, sources of maps and paths of reports to changed files.

use super::ChangedText;

/// Returns whether a file is an HTML page, which contains its scripts.
pub(super) fn is_page(path: &str) -> bool {
    [".html", ".htm"].iter().any(|ending| path.ends_with(ending))
}

/// Returns whether a script URL may be a bundle that was built from several files.
pub(super) fn is_bundle(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    [".js", ".mjs", ".cjs"].iter().any(|ending| path.ends_with(ending))
}

/// Returns whether a URL or path is that of a file in the worktree, which programs see below these roots.
pub(super) fn is_path_of(whole: &str, path: &str, roots: &[String]) -> bool {
    let is_path = |whole: &str, path: &str| {
        let below = whole.strip_suffix(path).and_then(|before| before.strip_suffix('/'));
        whole == path || below.is_some_and(|root| roots.iter().any(|known| known == root))
    };
    match whole.strip_prefix("file://") {
        Some(address) => {
            let address = address.split(['?', '#']).next().unwrap_or_default();
            is_path(&address.replace("%20", " "), path)
        }
        None => is_path(whole.strip_prefix("./").unwrap_or(whole), path),
    }
}

/// Finds the changed file that a map's source refers to. If the map includes the source's text, that decides.
pub(super) fn source_of(
    script: &str,
    name: &str,
    content: Option<&str>,
    files: &[ChangedText],
) -> Option<usize> {
    let name = plain(script, name);
    let ends = |file: &ChangedText| common_parts(&name, &file.path);
    let same_text = |file: &ChangedText| match (content, &file.text) {
        (Some(content), Some(text)) => same(content, text),
        _ => true,
    };
    let mut fitting: Vec<(usize, usize)> = files
        .iter()
        .enumerate()
        .map(|(number, file)| (ends(file), number))
        .filter(|(parts, number)| *parts > 0 && same_text(&files[*number]))
        .collect();
    fitting.sort_by(|one, other| other.cmp(one));
    match fitting.as_slice() {
        [(parts, number), rest @ ..] => {
            // Two files match equally well: it is unknown which one is meant.
            let is_clear = rest.first().is_none_or(|(other, _)| other < parts);
            let is_whole = *parts == files[*number].path.split('/').count()
                || *parts == name.split('/').count()
                || content.is_some();
            (is_clear && is_whole).then_some(*number)
        }
        [] => None,
    }
}

fn same(one: &str, other: &str) -> bool {
    let lines = |text: &str| text.lines().map(str::trim_end).map(str::to_owned).collect::<Vec<_>>();
    one == other || lines(one.trim_end()) == lines(other.trim_end())
}

/// Returns the path of a source: without scheme, host, query and `..`.
fn plain(script: &str, name: &str) -> String {
    let name = name.split(['?', '#']).next().unwrap_or_default();
    let path = match name.split_once("://") {
        // `webpack://app/./src/a.ts`
        Some((_, rest)) => rest.split_once('/').map_or(rest, |(_, path)| path),
        None => name,
    };
    let mut parts: Vec<&str> = match name.starts_with('/') || name.contains("://") {
        true => Vec::new(),
        // Relative to the script.
        false => {
            let script = script.split(['?', '#']).next().unwrap_or_default();
            let script = script.split_once("://").map_or(script, |(_, rest)| rest);
            let mut parts: Vec<&str> = script.split('/').skip(1).collect();
            parts.pop();
            parts
        }
    };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Counts the trailing path segments that two paths share.
fn common_parts(one: &str, other: &str) -> usize {
    one.rsplit('/').zip(other.rsplit('/')).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> ChangedText {
        ChangedText { path: path.into(), text: Some(text.into()), ..ChangedText::default() }
    }

    #[test]
    fn a_source_is_found_by_its_path_and_its_text() {
        let files = [
            file("apps/web/src/main.ts", "web"),
            file("apps/api/src/main.ts", "api"),
            file("lib/a.ts", "a"),
        ];
        let script = "https://web.a.shop.localhost/assets/app.js";
        for (name, content, expected) in [
            ("webpack://web/./apps/api/src/main.ts", None, Some(1)),
            ("../src/main.ts", None, None),
            ("../src/main.ts", Some("web"), Some(0)),
            ("../src/main.ts", Some("other"), None),
            ("/lib/a.ts", None, Some(2)),
            ("file:///srv/x/lib/a.ts?v=1", Some("a\n"), Some(2)),
            ("webpack/bootstrap", None, None),
            ("", None, None),
        ] {
            assert_eq!(source_of(script, name, content, &files), expected, "{name}");
        }
        // A source next to its script, as Vite serves them.
        let found = source_of("http://x/lib/a.ts", "a.ts", Some("a"), &files);
        assert_eq!(found, Some(2));
    }

    #[test]
    fn a_path_is_below_a_root() {
        let roots = ["/srv/w".to_owned(), "/work space".to_owned()];
        for (whole, expected) in [
            ("/srv/w/src/a.py", true),
            ("src/a.py", true),
            ("./src/a.py", true),
            ("file:///work%20space/src/a.py?v=1", true),
            ("/srv/w/xsrc/a.py", false),
            ("a.py", false),
            ("/srv/w/node_modules/x/src/a.py", false),
        ] {
            assert_eq!(is_path_of(whole, "src/a.py", &roots), expected, "{whole}");
        }
    }
}
