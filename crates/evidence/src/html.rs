//! Rendering of the templates of this crate: all values are escaped.

use std::fmt::{self, Write};

use askama::{Template, filters};
use hothouse_model::visible::is_deceptive;

/// Escapes a text for HTML; `askama.toml` configures it for all templates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Escaper;

impl filters::Escaper for Escaper {
    fn write_escaped_str<W: Write>(&self, mut page: W, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match character {
            '&' => page.write_str("&amp;"),
            '<' => page.write_str("&lt;"),
            '>' => page.write_str("&gt;"),
            '"' => page.write_str("&quot;"),
            '\'' => page.write_str("&#39;"),
            '\n' | '\t' => page.write_char(character),
            c if is_deceptive(c) => page.write_char('\u{fffd}'),
            c => page.write_char(c),
        })
    }
}

/// Renders a template.
pub(crate) fn render(template: &impl Template) -> String {
    template.render().expect("a string takes all text")
}
