//! Rendering of the templates of this crate: all values are escaped.

use std::fmt::{self, Write};

use askama::{Template, filters};
use hothouse_model::visible;

/// Escapes a text for HTML; `askama.toml` configures it for all templates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Escaper;

impl filters::Escaper for Escaper {
    fn write_escaped_str<W: Write>(&self, page: W, text: &str) -> fmt::Result {
        visible::write_html(page, text)
    }
}

/// Renders a template.
pub(crate) fn render(template: &impl Template) -> String {
    template.render().expect("a string takes all text")
}
