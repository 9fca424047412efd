//! Rendering of the templates of this crate and of the dashboard: all values are escaped.

use std::fmt::{self, Write};

use askama::{
    Template,
    filters::{self, Safe},
};
use hothouse_model::visible;

/// A rendered part of a page; only this is inserted into a template without escaping.
pub type Markup = Safe<String>;

/// Escapes a text for HTML; `askama.toml` configures it for all templates.
#[derive(Clone, Copy, Debug)]
pub struct Escaper;

impl filters::Escaper for Escaper {
    fn write_escaped_str<W: Write>(&self, page: W, text: &str) -> fmt::Result {
        visible::write_html(page, text)
    }
}

/// Renders a template.
pub fn render(template: &impl Template) -> Markup {
    Safe(template.render().expect("a string takes all text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Template)]
    #[template(source = "<p title=\"{{ text }}\">{{ text }}</p>{{ part }}", ext = "html")]
    struct Page<'a> {
        text: &'a str,
        part: Markup,
    }

    #[test]
    fn words_of_a_room_cannot_become_markup() {
        for (text, shown) in [
            ("<b a=\"1\">&'\x1b", "&lt;b a=&quot;1&quot;&gt;&amp;&#39;\u{fffd}"),
            // Text direction cannot be overridden.
            ("\u{202e}live\u{2066}", "\u{fffd}live\u{fffd}"),
            ("اللغة", "اللغة"),
            // Lines of mails end with CR LF; a carriage return alone would go back in the line.
            ("a\r\nb\rc", "a\nb\u{fffd}c"),
        ] {
            let inner = render(&Page { text: "&", part: Safe(String::new()) });
            let page = render(&Page { text, part: inner }).0;
            let expected = "<p title=\"TEXT\">TEXT</p>".replace("TEXT", shown);
            assert_eq!(page, expected + "<p title=\"&amp;\">&amp;</p>");
        }
    }
}
