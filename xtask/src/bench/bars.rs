//! Bars: a measured figure and the limit that it must keep.
//!
//! Every bar is a printed line, and with `--json` an object of one document at the end.

use std::sync::Mutex;

use serde_json::{Value, json};

use super::print;

/// The limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

impl Bar {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }

    fn words(self) -> String {
        match self {
            Self::AtMost(limit) => format!("at most {limit}"),
            Self::AtLeast(limit) => format!("at least {limit}"),
        }
    }
}

/// The bars of this run, in the order of measurement.
static MEASURED: Mutex<Vec<Value>> = Mutex::new(Vec::new());

/// Prints a figure with its bar, and whether it is missed.
pub(super) fn bar(what: &str, value: f64, unit: &str, bar: Bar) {
    print(&line(what, value, unit, bar));
    let mut measured = MEASURED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    measured.push(entry(what, value, unit, bar));
}

/// Returns the bars that were measured since the last call.
pub(super) fn take() -> Vec<Value> {
    std::mem::take(&mut *MEASURED.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn line(what: &str, value: f64, unit: &str, bar: Bar) -> String {
    let missed = if bar.holds(value) { "" } else { ", MISSED" };
    let shown = format!("{value:.2} {unit}");
    format!("  {what:<34}{:>12} (bar: {}{missed})", shown.trim_end(), bar.words())
}

fn entry(what: &str, value: f64, unit: &str, bar: Bar) -> Value {
    let (key, limit) = match bar {
        Bar::AtMost(limit) => ("at_most", limit),
        Bar::AtLeast(limit) => ("at_least", limit),
    };
    json!({ "figure": what, "value": value, "unit": unit, key: limit, "holds": bar.holds(value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_bar_is_reported() {
        assert!(line("exec", 0.5, "", Bar::AtMost(0.7)).ends_with("0.50 (bar: at most 0.7)"));
        assert!(
            line("exec", 0.8, "", Bar::AtMost(0.7)).ends_with("0.80 (bar: at most 0.7, MISSED)")
        );
        assert!(line("put", 0.8, "", Bar::AtLeast(0.7)).ends_with("(bar: at least 0.7)"));
    }

    #[test]
    fn an_entry_names_its_limit() {
        let entry = entry("wait", 21.0, "ms", Bar::AtMost(20.0));
        assert_eq!(
            entry,
            json!({ "figure": "wait", "value": 21.0, "unit": "ms", "at_most": 20.0, "holds": false })
        );
    }
}
