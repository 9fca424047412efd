//! Plain tables and ages.

use hothouse_model::visible;
use jiff::Timestamp;

use crate::ui::{Tone, Ui};

/// One cell: its text and tone.
pub(crate) struct Cell {
    text: String,
    tone: Option<Tone>,
}

impl Cell {
    /// Makes a cell of text that may come from anywhere; what deceives is made visible.
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self { text: plain(text.as_ref()), tone: None }
    }

    /// Sets the tone.
    pub(crate) fn tone(mut self, tone: Tone) -> Self {
        self.tone = Some(tone);
        self
    }
}

/// Escapes a text for one line of a terminal.
pub(crate) fn plain(text: &str) -> String {
    visible::line(text).into_owned()
}

/// Escapes a text of several lines for a terminal; tabs are kept.
pub(crate) fn plain_lines(text: &str) -> String {
    visible::lines(text).into_owned()
}

/// Formats a number of bytes in its largest unit.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
    match UNITS.iter().find(|(_, size)| count >= *size) {
        Some((unit, size)) => {
            let tenths = u128::from(count) * 10 / u128::from(*size);
            format!("{}.{}{unit}", tenths / 10, tenths % 10)
        }
        None => format!("{count}B"),
    }
}

/// Renders rows under a heading, columns padded, without trailing blanks.
pub(crate) fn table(ui: &Ui, heading: &[&str], rows: Vec<Vec<Cell>>) -> String {
    let heading = heading.iter().map(|text| Cell::new(text).tone(Tone::Faint)).collect();
    let rows: Vec<Vec<Cell>> = std::iter::once(heading).chain(rows).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let lines = rows.iter().map(|row| line(ui, row, &widths));
    lines.collect::<Vec<_>>().join("\n")
}

fn line(ui: &Ui, row: &[Cell], widths: &[usize]) -> String {
    let mut line = String::new();
    for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
        let last = index + 1 == row.len();
        let padding = if last { 0 } else { width - cell.text.chars().count() + 2 };
        let text = cell.tone.map_or_else(|| cell.text.clone(), |tone| ui.paint(tone, &cell.text));
        line.push_str(&text);
        line.extend(std::iter::repeat_n(' ', padding));
    }
    line
}

/// Formats how long ago something was, in its largest unit.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// Formats a moment by how long ago it was, as a sentence has it.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    let counted = |count: i64, unit: &str| match count {
        1 => format!("1 {unit} ago"),
        count => format!("{count} {unit}s ago"),
    };
    match seconds {
        0..5 => "just now".to_owned(),
        5..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86400 => counted(seconds / 3600, "hour"),
        _ => counted(seconds / 86400, "day"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_use_their_largest_unit() {
        let at = |seconds| age(Timestamp::UNIX_EPOCH, Timestamp::from_second(seconds).unwrap());
        assert_eq!(
            [at(0), at(59), at(60), at(7199), at(86399), at(200_000)],
            ["0s", "59s", "1m", "1h", "23h", "2d"]
        );
    }

    #[test]
    fn a_moment_is_told_by_its_distance() {
        let at = |seconds| ago(Timestamp::UNIX_EPOCH, Timestamp::from_second(seconds).unwrap());
        assert_eq!(
            [at(1), at(30), at(200), at(3700), at(200_000)],
            ["just now", "30 s ago", "3 min ago", "1 hour ago", "2 days ago"]
        );
    }

    #[test]
    fn sizes_use_their_largest_unit() {
        let shown = [0, 1023, 1024, 1536, 5 << 30].map(bytes);
        assert_eq!(shown, ["0B", "1023B", "1.0K", "1.5K", "5.0G"]);
    }

    #[test]
    fn a_hostile_text_cannot_move_the_cursor() {
        assert_eq!(plain("a\x1b[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(plain_lines("a\x1b[2J\n\tc\r"), "a\\u{1b}[2J\n\tc\\r");
    }
}
