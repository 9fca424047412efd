//! As much of Markdown as the checks need: fences, links, anchors. Pure.

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fence<'a> {
    /// The line of its opening fence, from 1.
    pub(super) line: usize,
    pub(super) language: &'a str,
    pub(super) attributes: Vec<&'a str>,
    pub(super) lines: Vec<&'a str>,
}

/// A link, and the line it stands on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

/// Returns the fenced blocks of a page.
pub(super) fn fences(text: &str) -> Vec<Fence<'_>> {
    let mut found = Vec::new();
    let mut open: Option<Fence<'_>> = None;
    for (line, number) in text.lines().zip(1..) {
        let Some(info) = line.trim_start().strip_prefix("```") else {
            if let Some(fence) = &mut open {
                fence.lines.push(line);
            }
            continue;
        };
        if let Some(fence) = open.take() {
            found.push(fence);
            continue;
        }
        let mut words = info.trim().split(',').map(str::trim);
        let language = words.next().unwrap_or_default();
        open =
            Some(Fence { line: number, language, attributes: words.collect(), lines: Vec::new() });
    }
    found.extend(open);
    found
}

/// Returns the lines outside of fenced blocks, by their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        (!is_code).then_some((number, line))
    })
}

/// Returns the links and pictures of a page.
pub(super) fn links(text: &str) -> Vec<Link> {
    let in_line = |(line, text): (usize, &str)| {
        let text = without_code(text);
        let markdown = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        let markdown = markdown.map(|(target, _)| target.split(' ').next().unwrap_or_default());
        let html = ["src=\"", "href=\""].into_iter().flat_map(|key| text.split(key).skip(1));
        let html = html.filter_map(|rest| rest.split_once('"')).map(|(target, _)| target);
        let all = markdown.chain(html).map(|target| Link { line, target: target.to_owned() });
        all.collect::<Vec<_>>()
    };
    prose(text).flat_map(in_line).collect()
}

/// Returns the code spans of a page, by their lines.
pub(super) fn spans(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let parts: Vec<&str> = line.split('`').collect();
        // An odd number of backticks: what is code cannot be told from this line.
        if !parts.len().is_multiple_of(2) {
            found.extend(parts.into_iter().skip(1).step_by(2).map(|span| (number, span)));
        }
    }
    found
}

/// Blanks code spans, in which nothing is a link.
fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return line.to_owned();
    }
    parts.into_iter().step_by(2).collect()
}

/// Returns the anchors of a page, as GitHub and mdBook make them from headings.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let headings = prose(text).filter_map(|(_, line)| {
        let rest = line.trim_start_matches('#');
        (rest.len() < line.len() && rest.starts_with(' ')).then(|| rest.trim())
    });
    for heading in headings {
        let base = slug(heading);
        let taken = |name: &String| found.contains(name);
        let numbered = (1..).map(|number| format!("{base}-{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name));
        found.extend(name);
    }
    found
}

fn slug(heading: &str) -> String {
    // Only the text of a link in a heading counts.
    let text = heading.split("](").enumerate().map(|(at, part)| match at {
        0 => part,
        _ => part.split_once(')').map_or(part, |(_, rest)| rest),
    });
    let text = text.collect::<String>().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_have_a_language_and_attributes() {
        let text = "a\n```sh,not-run\nls\n```\n  ```console\n$ x\n  ```\n";
        let found = fences(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, found[0].language), (2, "sh"));
        assert_eq!(
            (&found[0].attributes[..], &found[0].lines[..]),
            (&["not-run"][..], &["ls"][..])
        );
        assert_eq!((found[1].language, found[1].attributes.len()), ("console", 0));
    }

    #[test]
    fn links_in_code_are_none() {
        let text = "[a](b.md#c) and ![p](x.svg \"t\") `[no](no.md)`\n```text\n[no](no.md)\n```\n<img src=\"y.png\">\n";
        let found: Vec<_> = links(text).into_iter().map(|link| (link.line, link.target)).collect();
        let expected = [(1, "b.md#c"), (1, "x.svg"), (5, "y.png")];
        assert_eq!(found, expected.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn anchors_are_those_of_github() {
        let text = "# The API, in a room\n## `egress why`\n## A [link](x.md)\n## A link\n#no\n```text\n# no\n```\n";
        assert_eq!(anchors(text), ["the-api-in-a-room", "egress-why", "a-link", "a-link-1"]);
    }
}
