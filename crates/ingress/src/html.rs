//! How templates of this crate and of the dashboard become pages: everything that they show is escaped.

use std::fmt::{self, Write};

use askama::{
    Template,
    filters::{self, Safe},
};

/// A rendered part of a page. Nothing else is put into a template as it is.
pub type Markup = Safe<String>;

/// Makes a text harmless in HTML; `askama.toml` names it for all templates.
#[derive(Clone, Copy, Debug)]
pub struct Escaper;

impl filters::Escaper for Escaper {
    fn write_escaped_str<W: Write>(&self, mut page: W, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match character {
            '&' => page.write_str("&amp;"),
            '<' => page.write_str("&lt;"),
            '>' => page.write_str("&gt;"),
            '"' => page.write_str("&quot;"),
            '\'' => page.write_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => page.write_char('\u{fffd}'),
            // These turn the order of letters around, and with it what a line seems to say.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => page.write_char('\u{fffd}'),
            c => page.write_char(c),
        })
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
            // Letters keep their order.
            ("\u{202e}live\u{2066}", "\u{fffd}live\u{fffd}"),
            ("اللغة", "اللغة"),
        ] {
            let inner = render(&Page { text: "&", part: Safe(String::new()) });
            let page = render(&Page { text, part: inner }).0;
            let expected = "<p title=\"TEXT\">TEXT</p>".replace("TEXT", shown);
            assert_eq!(page, expected + "<p title=\"&amp;\">&amp;</p>");
        }
    }
}
