//! A trace as bars.

use hothouse_model::record::{
    Record,
    waterfall::{Extent, Line, extents, lines},
};

/// The width of the image, in its own units.
pub const WIDTH: f64 = 1000.0;

/// The maximum number of bars.
const MOST: usize = 500;

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    pub text: String,
    pub kind: &'static str,
    /// The indentation level of the text.
    pub depth: usize,
    pub failed: bool,
    /// The start and width of the bar, in units of the image.
    pub from: String,
    pub width: String,
    pub ms: String,
}

/// Makes the bars of a trace.
pub fn bars(records: &[Record]) -> Vec<Bar> {
    let lines = lines(records);
    lines.iter().zip(extents(&lines)).take(MOST).map(|(line, extent)| bar(line, extent)).collect()
}

fn bar(line: &Line, extent: Extent) -> Bar {
    let whole = extent.whole_ms.max(0.001);
    let share = |ms: f64| (ms / whole * WIDTH).clamp(0.0, WIDTH);
    let from = share(extent.at_ms).min(WIDTH - 3.0);
    let width = share(line.lasts_ms.unwrap_or_default()).clamp(3.0, WIDTH - from);
    Bar {
        text: line.text.clone(),
        kind: line.kind.as_str(),
        depth: line.depth.min(8),
        failed: line.failed,
        from: format!("{from:.1}"),
        width: format!("{width:.1}"),
        ms: line.lasts_ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.1}")),
    }
}

#[cfg(test)]
mod tests {
    use hothouse_model::record::Kind;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_bar_is_always_to_be_seen_and_stays_in_the_picture() {
        for (at_ms, lasts, whole_ms) in [
            (0.0, 0.0, 0.0),
            (0.0, 10.0, 10.0),
            (10.0, 0.0, 10.0),
            (9.9, 5.0, 10.0),
            (1e300, 1e300, 1.0),
            (f64::NAN, 1.0, 1.0),
        ] {
            let line = Line {
                begins: Timestamp::UNIX_EPOCH,
                lasts_ms: Some(lasts),
                depth: 99,
                kind: Kind::Trace,
                text: String::new(),
                failed: false,
            };
            let bar = bar(&line, Extent { at_ms, whole_ms });
            let (from, width): (f64, f64) = (bar.from.parse().unwrap(), bar.width.parse().unwrap());
            assert!(from >= 0.0 && width >= 3.0 && from + width <= WIDTH + 0.1, "{bar:?}");
            assert_eq!(bar.depth, 8);
        }
    }
}
