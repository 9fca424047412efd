//! The HTML of a mail: its visible content, and a page that is safe to open.
//!
//! [`look`] parses HTML as loosely as mail programs do; it is not relied on for safety. [`page`] is
//! what a person opens: sanitized by `ammonia`, without anything from the network.

use std::{borrow::Cow, collections::HashSet};

use ammonia::{Builder, UrlRelative};
use mail_parser::decoders::html::add_html_token;

/// Longer HTML, or HTML with more or deeper tags, is shown as text: the sanitizer's parser searches
/// the open tags repeatedly.
const PAGE_LIMIT: usize = 512 << 10;
const TAG_LIMIT: usize = 20_000;
const DEPTH_LIMIT: usize = 500;

/// The maximum number of listed links and images.
pub(super) const LIST_LIMIT: usize = 200;

/// The maximum length of a URL, in bytes.
pub(super) const URL_LIMIT: usize = 2048;

/// The longest entity, as in `&CounterClockwiseContourIntegral;`.
const ENTITY_LIMIT: usize = 34;

const HEAD: &str = "<!doctype html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n\
                    <meta http-equiv=\"Content-Security-Policy\" content=\"";
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'";
const TITLE: &str = "\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>";
const BODY: &str = "</title>\n</head>\n<body>\n";

/// The visible content of HTML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) text: String,
    pub(super) links: Vec<String>,
    /// The sources of images, if they have one.
    pub(super) images: Vec<Option<String>>,
}

/// Parses HTML.
pub(super) fn look(html: &str) -> Seen {
    let mut seen = Seen::default();
    let mut rest = html;
    while let Some(open) = rest.find('<') {
        push_text(&mut seen.text, &rest[..open]);
        rest = &rest[open..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
        } else if rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c)) {
            let end = tag_end(rest);
            rest = seen.take_tag(&rest[1..end], &rest[end..]);
        } else {
            seen.text.push('<');
            rest = &rest[1..];
        }
    }
    push_text(&mut seen.text, rest);
    seen.text.truncate(seen.text.trim_end().len());
    seen
}

impl Seen {
    /// Processes the inside of a tag, including its `>`; returns where to continue.
    fn take_tag<'h>(&mut self, tag: &str, rest: &'h str) -> &'h str {
        let name_end = tag.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(tag.len());
        let (name, attributes) = tag.split_at(name_end);
        let name = name.trim_end_matches('/').to_ascii_lowercase();
        match name.as_str() {
            "script" | "style" | "title" | "template" => return after_close(rest, &name),
            "a" | "area" if self.links.len() < LIST_LIMIT => {
                self.links.extend(attribute(attributes, "href"));
            }
            "img" if self.images.len() < LIST_LIMIT => {
                let source = attribute(attributes, "src").filter(|source| !source.is_empty());
                self.images.push(source);
            }
            "td" | "th" => push_space(&mut self.text),
            name if is_block(name.trim_start_matches('/')) => push_line(&mut self.text),
            _ => {}
        }
        rest
    }
}

/// Returns where a tag ends, including its `>`; quotes may contain another one.
fn tag_end(text: &str) -> usize {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return at + 1,
            // It starts a value only after `=`.
            (None, b'"' | b'\'') if text[..at].trim_ascii_end().ends_with('=') => {
                quote = Some(byte)
            }
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    text.len()
}

/// Returns what follows an element whose content is not shown.
fn after_close<'h>(text: &'h str, name: &str) -> &'h str {
    let close = format!("</{name}").into_bytes();
    let found = text.as_bytes().windows(close.len()).position(|w| w.eq_ignore_ascii_case(&close));
    let Some(found) = found else { return "" };
    text[found..].find('>').map_or("", |end| &text[found + end + 1..])
}

/// Returns the value of an attribute, decoded.
fn attribute(mut text: &str, wanted: &str) -> Option<String> {
    loop {
        text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        let end = text.find(|c: char| c.is_ascii_whitespace() || "=>/".contains(c));
        let (name, rest) = text.split_at(end.unwrap_or(text.len()));
        if name.is_empty() && !rest.starts_with('=') {
            return None;
        }
        let after = rest.trim_ascii_start();
        let Some(value) = after.strip_prefix('=') else {
            text = after;
            continue;
        };
        let (value, after) = value_of(value.trim_ascii_start());
        if name.eq_ignore_ascii_case(wanted) {
            let mut decoded = String::new();
            push_decoded(&mut decoded, value.trim());
            return Some(cut(&decoded, URL_LIMIT).to_owned());
        }
        text = after;
    }
}

fn value_of(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            return inner.split_once(quote).unwrap_or((inner, ""));
        }
    }
    text.split_at(text.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(text.len()))
}

fn is_block(name: &str) -> bool {
    const BLOCKS: [&str; 30] = [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "br",
        "center",
        "dd",
        "div",
        "dl",
        "dt",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "li",
        "main",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "tr",
        "ul",
    ];
    BLOCKS.contains(&name)
}

/// Appends text with decoded entities and collapsed white space.
fn push_text(out: &mut String, text: &str) {
    let mut decoded = String::new();
    push_decoded(&mut decoded, text);
    for c in decoded.chars() {
        // Characters with which mails pad their preview.
        match c {
            '\u{200b}' | '\u{200c}' | '\u{200d}' | '\u{feff}' | '\u{ad}' | '\u{34f}' => {}
            c if c.is_whitespace() => push_space(out),
            c => out.push(c),
        }
    }
}

fn push_decoded(out: &mut String, mut text: &str) {
    while let Some(at) = text.find('&') {
        out.push_str(&text[..at]);
        text = &text[at..];
        let entity = text.bytes().take(ENTITY_LIMIT).position(|byte| byte == b';');
        let end = entity.map_or(1, |end| end + 1);
        add_html_token(out, &text.as_bytes()[..end], false);
        text = &text[end..];
    }
    out.push_str(text);
}

fn push_space(out: &mut String) {
    if !out.is_empty() && !out.ends_with([' ', '\n']) {
        out.push(' ');
    }
}

fn push_line(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
}

/// Truncates text at a character boundary.
pub(super) fn cut(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Builds a page that is safe to open: no scripts, nothing from the network, no forms.
///
/// The output of `ammonia` is inserted unescaped; everything else is escaped.
pub(super) fn page(html: &str, title: &str) -> String {
    let body = if is_too_much(html) {
        let text = look(cut(html, PAGE_LIMIT)).text;
        ["<p><em>Too large to be shown as html.</em></p>\n<pre>", &escaped(&text), "</pre>"]
            .concat()
    } else {
        cleaner().clean(html).to_string()
    };
    [HEAD, POLICY, TITLE, &escaped(cut(title, 500)), BODY, &body, "\n</body>\n</html>\n"].concat()
}

fn is_too_much(html: &str) -> bool {
    const EMPTY: [&str; 6] = ["br", "img", "hr", "meta", "link", "input"];
    let (mut tags, mut depth) = (0, 0_usize);
    for tag in html.split('<').skip(1) {
        tags += 1;
        match tag.as_bytes().first() {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(byte) if byte.is_ascii_alphabetic() => {
                let name =
                    tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
                depth += usize::from(!EMPTY.iter().any(|empty| name.eq_ignore_ascii_case(empty)));
            }
            _ => {}
        }
        if tags > TAG_LIMIT || depth > DEPTH_LIMIT {
            return true;
        }
    }
    html.len() > PAGE_LIMIT
}

/// Escapes text for a page or XML.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// Allows the layout elements of mails, and nothing that acts or loads.
fn cleaner() -> Builder<'static> {
    const LAYOUT: [&str; 9] = [
        "style",
        "align",
        "valign",
        "bgcolor",
        "width",
        "height",
        "cellpadding",
        "cellspacing",
        "border",
    ];
    const STYLES: [&str; 30] = [
        "background-color",
        "border",
        "border-bottom",
        "border-collapse",
        "border-color",
        "border-left",
        "border-radius",
        "border-right",
        "border-spacing",
        "border-style",
        "border-top",
        "border-width",
        "color",
        "display",
        "font",
        "font-family",
        "font-size",
        "font-style",
        "font-weight",
        "height",
        "letter-spacing",
        "line-height",
        "margin",
        "max-width",
        "padding",
        "text-align",
        "text-decoration",
        "text-transform",
        "vertical-align",
        "width",
    ];
    let mut cleaner = Builder::default();
    cleaner
        .add_generic_attributes(LAYOUT)
        .filter_style_properties(HashSet::from(STYLES))
        .add_url_schemes(["data"])
        .url_relative(UrlRelative::Deny)
        .attribute_filter(|element, attribute, value| match (element, attribute) {
            ("img", "src") => is_picture(value).then_some(Cow::Borrowed(value)),
            (_, "href" | "src" | "cite") if value.trim_start().starts_with("data:") => None,
            _ => Some(Cow::Borrowed(value)),
        });
    cleaner
}

/// Returns whether an image is embedded in the mail itself. SVG can contain scripts, so it does not
/// count.
fn is_picture(source: &str) -> bool {
    ["png", "jpeg", "gif", "webp"]
        .iter()
        .any(|kind| source.starts_with(&format!("data:image/{kind};base64,")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_read_as_people_see_it() {
        let html = "<html><head><title>no</title><style>a{b}</style></head><body><!-- <a href=no> -->\n<h1>Your code</h1>\
             <table><tr><td>is</td><td><b>12</b>34&nbsp;&amp; &lt;ok&gt;</td></tr></table><p>a<br/>b</p>1 < 2</body>";
        assert_eq!(look(html).text, "Your code\nis 1234 & <ok>\na\nb\n1 < 2");
    }

    #[test]
    fn links_and_images_are_found_in_loose_html() {
        for (html, links) in [
            (
                r#"<a href="https://x.example/?a=1&amp;b=2">x</a>"#,
                vec!["https://x.example/?a=1&b=2"],
            ),
            ("<A class=b HREF='/rel>ative' target=_top>", vec!["/rel>ative"]),
            ("<a href=https://x.example/a>x</a><a>none</a>", vec!["https://x.example/a"]),
            ("<a data-href=\"no\" href = \" y \">", vec!["y"]),
            ("<script>'<a href=no>'</script><a href=yes", vec!["yes"]),
            ("<a =x href=z><a / href=w>", vec!["z", "w"]),
        ] {
            assert_eq!(look(html).links, links, "{html}");
        }
        let images = look("<img src=a.png><img alt=x><img src=''>").images;
        assert_eq!(images, [Some("a.png".to_owned()), None, None]);
    }

    #[test]
    fn nothing_in_a_page_acts_or_loads() {
        for hostile in [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "<img src=\"https://track.example/p.gif\">",
            "<a href=\"javascript:alert(1)\">x</a>",
            "<a href=\"data:text/html,<script>alert(1)</script>\">x</a>",
            "<svg onload=alert(1)><use href=\"https://e.example/x.svg#a\"/></svg>",
            "<img src=\"data:image/svg+xml;base64,PHN2Zz4=\">",
            "<iframe src=\"https://e.example\"></iframe><object data=x></object><embed src=x>",
            "<form action=\"https://e.example\"><input name=a></form>",
            "<meta http-equiv=refresh content=\"0;url=https://e.example\"><base href=\"https://e.example\">",
            "<div style=\"background:url(https://e.example/x)\">x</div>",
            "<link rel=stylesheet href=\"https://e.example\"><style>@import 'https://e.example';</style>",
            "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
        ] {
            let page = page(hostile, "</title><script>alert(2)</script>");
            let (_, body) = page.split_once("<body>").unwrap();
            for part in [
                "<script",
                "onerror",
                "onload",
                "e.example",
                "track.example",
                "javascript:",
                "svg",
                "<form",
            ] {
                assert!(!body.contains(part), "{part} in {body}");
            }
            assert!(!page.contains("<script"), "{page}");
            assert!(page.contains("default-src 'none'"));
        }
    }

    #[test]
    fn a_page_keeps_layout_links_and_pictures_of_the_mail() {
        let html = "<p style=\"color:red;position:fixed\">a <a href=\"https://x.example/r\">b</a></p>\
             <img alt=\"logo\" src=\"data:image/png;base64,AAAA\">";
        let page = page(html, "t");
        for part in ["color:red", "https://x.example/r", "data:image/png", "logo"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("position"));
    }

    #[test]
    fn html_of_any_size_and_depth_is_a_page_soon() {
        for html in ["<div><p>".repeat(100_000), "<a href=".repeat(200_000), "<".repeat(1 << 20)] {
            look(&html);
            assert!(page(&html, "t").len() < 3 << 20);
        }
        page(&"<div>".repeat(DEPTH_LIMIT), "t");
        page(&"<table><tr><td><p>x</td></tr></table>".repeat(500), "t");
    }
}
