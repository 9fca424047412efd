//! One trace from end to end, drawn as text.

use hothouse_model::record::{
    Record,
    waterfall::{Extent, Line, extents, lines},
};

use super::timeline::cut;
use crate::{
    render::{self, Cell},
    ui::{Tone, Ui},
};

/// The width of the bars, in characters.
const WIDTH: usize = 24;

/// How many levels of nested spans are shown.
const DEPTH: usize = 12;

/// Renders the records of one trace.
pub(super) fn table(ui: &Ui, records: &[Record]) -> String {
    let lines = lines(records);
    let rows = lines.iter().zip(extents(&lines)).map(|(line, extent)| row(line, extent)).collect();
    render::table(ui, &["AT MS", "MS", "", "KIND", "WHAT"], rows)
}

fn row(line: &Line, Extent { at_ms: at, whole_ms: whole }: Extent) -> Vec<Cell> {
    let tone = if line.failed { Tone::Bad } else { Tone::Good };
    let lasts = line.lasts_ms.map_or_else(|| "-".to_owned(), |lasts| format!("{lasts:.1}"));
    vec![
        Cell::new(format!("{at:.1}")).tone(Tone::Faint),
        Cell::new(lasts),
        Cell::new(bar(at, line.lasts_ms.unwrap_or_default(), whole)).tone(tone),
        Cell::new(line.kind.as_str()),
        Cell::new(format!("{}{}", "  ".repeat(line.depth.min(DEPTH)), cut(&line.text))),
    ]
}

/// Renders when a record happened, relative to the whole trace.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a few characters, which `as` keeps within bounds"
)]
fn bar(at: f64, lasts: f64, whole: f64) -> String {
    let place = |time: f64| ((time / whole.max(f64::MIN_POSITIVE)) * WIDTH as f64) as usize;
    let from = place(at).min(WIDTH - 1);
    let to = place(at + lasts).clamp(from + 1, WIDTH);
    format!("{}{}{}", ".".repeat(from), "#".repeat(to - from), ".".repeat(WIDTH - to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_always_to_be_seen_and_never_too_long() {
        for (at, lasts, whole) in [
            (0.0, 0.0, 0.0),
            (0.0, 10.0, 10.0),
            (10.0, 0.0, 10.0),
            (9.9, 5.0, 10.0),
            (1e300, 1e300, 1.0),
        ] {
            let bar = bar(at, lasts, whole);
            assert_eq!(bar.len(), WIDTH, "{bar}");
            assert!(bar.contains('#'), "{bar}");
        }
        assert_eq!(bar(5.0, 5.0, 10.0), "............############");
    }
}
