//! Checks that HTML comes from templates, and that templates escape.

use std::path::{Path, PathBuf};

use hothouse_host::files;

use crate::borders;

/// Reports sources that write markup with `format!`, and templates that insert text unescaped.
pub(crate) fn check() -> Result<(), String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = Vec::new();
    for one in borders::list(&crates)? {
        let templates = one.join("templates");
        let templates =
            if files::exists(&templates) { borders::list(&templates)? } else { Vec::new() };
        found.extend(matching(templates, trusts_a_text)?);
        found.extend(matching(borders::sources(&one.join("src"))?, formats_markup)?);
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("HTML that nobody escapes: {}", found.join(", "))),
    }
}

fn matching(paths: Vec<PathBuf>, is_bad: fn(&str) -> bool) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for path in paths {
        let text = files::read_text(&path).map_err(|error| error.to_string())?;
        if is_bad(&text) {
            found.push(path.display().to_string());
        }
    }
    Ok(found)
}

/// Returns whether a template bypasses its escaper.
fn trusts_a_text(template: &str) -> bool {
    let dense: String = template.split_whitespace().collect();
    ["|safe", "|escape", "|e(", "Safe("].iter().any(|way| dense.contains(way))
}

/// Returns whether a source has a `format!` that starts with a tag.
fn formats_markup(source: &str) -> bool {
    source.match_indices("format!(").any(|(at, call)| {
        let text = source[at + call.len()..].trim_start().trim_start_matches(['r', '#']);
        let tag = text.strip_prefix("\"<").map(|tag| tag.trim_start_matches(['/', '!']));
        tag.is_some_and(|tag| tag.starts_with(|c: char| c.is_ascii_lowercase()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_around_templates_are_seen() {
        assert!(formats_markup("x = format!(\n    \"<p class=a>{x}</p>\")"));
        assert!(formats_markup("write(&format!(r#\"</b>\"#))"));
        assert!(!formats_markup("format!(\"{a} <b>\"); format!(\"< {a}\"); format!(\"<{a}>\")"));
        assert!(trusts_a_text("<p>{{ name | safe }}</p>"));
        assert!(!trusts_a_text("<p>{{ safe }}</p>"));
    }

    #[test]
    fn all_markup_is_escaped() {
        check().unwrap();
    }
}
