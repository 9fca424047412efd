//! Plain tables and ages.

use hothouse_model::visible;
use jiff::Timestamp;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::ui::{Tone, Ui};

/// One cell: its text and tone.
pub(crate) struct Cell {
    text: String,
    tone: Option<Tone>,
}

impl Cell {
    /// Creates a cell from text of any origin. Deceptive characters are made visible.
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

/// Escapes a text of several lines for a terminal, except tabs.
pub(crate) fn plain_lines(text: &str) -> String {
    visible::lines(text).into_owned()
}

/// Returns how many terminal columns a text takes: a Chinese character takes two, a combining accent none.
pub(crate) fn columns_of(text: &str) -> usize {
    text.width()
}

/// Cuts a text that takes more columns than available, and marks the cut.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    match columns_of(text) > columns {
        true => format!("{}…", taken(text.chars(), columns.saturating_sub(1))),
        false => text.to_owned(),
    }
}

/// Cuts a text in the middle: the beginning and end of a path or URL are the most informative.
fn cut_in_the_middle(text: &str, columns: usize) -> String {
    let (front, back) = (columns / 2, (columns - columns / 2).saturating_sub(1));
    let end: String = taken(text.chars().rev(), back).chars().rev().collect();
    format!("{}…{end}", taken(text.chars(), front))
}

/// Takes the characters that fit into this many columns.
fn taken(text: impl Iterator<Item = char>, columns: usize) -> String {
    let fits = |used: &mut usize, c: char| {
        *used += c.width().unwrap_or(0);
        (*used <= columns).then_some(c)
    };
    text.scan(0, fits).collect()
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

/// Renders rows below a heading, with padded columns and without trailing spaces. What is too wide for the terminal
/// is wrapped between words.
pub(crate) fn table(ui: &Ui, heading: &[&str], rows: Vec<Vec<Cell>>) -> String {
    indented_table(ui, heading, rows, 0)
}

/// Like [`table`], indented by this many columns.
pub(crate) fn indented_table(
    ui: &Ui,
    heading: &[&str],
    rows: Vec<Vec<Cell>>,
    indent: usize,
) -> String {
    let room = ui.columns().map(|columns| columns.saturating_sub(indent));
    fitted(ui, heading, rows, room.unwrap_or(usize::MAX))
}

fn fitted(ui: &Ui, heading: &[&str], rows: Vec<Vec<Cell>>, room: usize) -> String {
    let heading = heading.iter().map(|text| Cell::new(text).tone(Tone::Faint)).collect();
    let rows: Vec<Vec<Cell>> = std::iter::once(heading).chain(rows).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| columns_of(&cell.text)).max().unwrap_or(0)
    };
    let widths = narrowed((0..columns).map(width).collect(), room);
    let rows: Vec<Vec<Cell>> = rows.into_iter().map(|row| within(row, &widths)).collect();
    let before: usize = widths.iter().rev().skip(1).map(|width| width + 2).sum();
    let left = room.saturating_sub(before);
    let lines = rows.iter().flat_map(|row| match row.last() {
        Some(last) if row.len() == columns && columns_of(&last.text) > left => {
            broken(ui, row, &widths, Room { left, before, whole: room })
        }
        _ => vec![line(ui, row, &widths)],
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The minimum width of a narrowed column: ids and most names stay complete.
const NARROWEST: usize = 24;

/// Narrows the widest columns before the last one until the rows fit on the terminal.
fn narrowed(mut widths: Vec<usize>, room: usize) -> Vec<usize> {
    let others = widths.len().saturating_sub(1);
    loop {
        let last = widths.last().map_or(0, |width| (*width).min(LEAST));
        let before: usize = widths[..others].iter().map(|width| width + 2).sum();
        let excess = (before + last).saturating_sub(room);
        let widest = (0..others).max_by_key(|column| widths[*column]);
        match widest.filter(|column| excess > 0 && widths[*column] > NARROWEST) {
            Some(column) => widths[column] = NARROWEST.max(widths[column].saturating_sub(excess)),
            None => return widths,
        }
    }
}

/// Cuts the cells of a row before the last one to the widths of their columns.
fn within(row: Vec<Cell>, widths: &[usize]) -> Vec<Cell> {
    let last = widths.len().saturating_sub(1);
    let cut = |(column, cell): (usize, Cell)| match widths.get(column) {
        Some(most) if column < last && columns_of(&cell.text) > *most => {
            Cell { text: cut_in_the_middle(&cell.text, *most), ..cell }
        }
        _ => cell,
    };
    row.into_iter().enumerate().map(cut).collect()
}

/// The space for the last cell of a row.
#[derive(Clone, Copy)]
struct Room {
    /// Beside the other cells, and the column where that begins.
    left: usize,
    before: usize,
    /// On its own lines.
    whole: usize,
}

/// Renders a row whose last cell is too long: it continues below, beside the other cells or on its own lines.
fn broken(ui: &Ui, row: &[Cell], widths: &[usize], room: Room) -> Vec<String> {
    const BELOW: usize = 4;
    let Some((last, others)) = row.split_last() else { return Vec::new() };
    let longest = last.text.split(' ').map(columns_of).max().unwrap_or(0);
    let paint = |text: String| last.tone.map_or(text.clone(), |tone| ui.paint(tone, &text));
    let beside = longest <= room.left && room.left >= LEAST || others.is_empty();
    let (indent, width) = match beside {
        true => (room.before, room.left),
        false => (BELOW, room.whole.saturating_sub(BELOW)),
    };
    let parts = wrapped(&last.text, width).into_iter().map(paint);
    let blank = " ".repeat(indent);
    let first = line(ui, others, widths);
    let mut lines: Vec<_> = parts.map(|part| format!("{blank}{part}")).collect();
    if beside && !lines.is_empty() {
        let shown: usize = others.iter().zip(widths).map(|(_, width)| width + 2).sum();
        let own = others.last().map_or(0, |cell| columns_of(&cell.text));
        let gap = widths.get(others.len().saturating_sub(1)).map_or(0, |width| width - own) + 2;
        let gap = if shown == 0 { String::new() } else { " ".repeat(gap) };
        let rest = lines.remove(0).split_off(blank.len());
        lines.insert(0, format!("{first}{gap}{rest}"));
    } else {
        lines.insert(0, first.trim_end().to_owned());
    }
    lines
}

/// The minimum width at which text is wrapped.
const LEAST: usize = 16;

/// Wraps a text between words. A word longer than the width stays whole, and so does a command in backquotes that
/// fits on a line.
pub(crate) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let room = if room < LEAST { usize::MAX } else { room };
    let mut lines = vec![String::new()];
    for word in words(text, room) {
        let line = lines.last_mut().expect("there is a first line");
        if line.is_empty() || columns_of(line) + 1 + columns_of(word) <= room {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Splits a text at spaces. A part in backquotes is one word, unless it is longer than the width.
fn words(text: &str, room: usize) -> Vec<&str> {
    let mut quoted = false;
    let whole = text.split(|c| {
        quoted ^= c == '`';
        c == ' ' && !quoted
    });
    whole
        .flat_map(|word| match columns_of(word) > room {
            true => word.split(' ').collect(),
            false => vec![word],
        })
        .collect()
}

/// Wraps a text that begins at column `from`; further lines begin at column `indent`.
pub(crate) fn hanging(text: &str, from: usize, indent: usize, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    let room = columns.saturating_sub(from.max(indent));
    wrapped(text, room).join(&format!("\n{:indent$}", ""))
}

/// Wraps the lines of a message between words, so that a terminal does not break them within one. A part in backquotes
/// is a command to be copied, and stays whole if it can.
pub(crate) fn message_within(text: &str, columns: usize) -> String {
    let fit = |line: &str| {
        if columns_of(line) <= columns {
            return line.to_owned();
        }
        let indent: String = line.chars().take_while(|c| *c == ' ').collect();
        let lines = wrapped(line.trim_start(), columns.saturating_sub(indent.len()));
        lines.iter().map(|line| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
    };
    text.split('\n').map(fit).collect::<Vec<_>>().join("\n")
}

fn line(ui: &Ui, row: &[Cell], widths: &[usize]) -> String {
    let mut line = String::new();
    for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
        let last = index + 1 == row.len();
        let padding = if last { 0 } else { width - columns_of(&cell.text) + 2 };
        let text = cell.tone.map_or_else(|| cell.text.clone(), |tone| ui.paint(tone, &cell.text));
        line.push_str(&text);
        line.extend(std::iter::repeat_n(' ', padding));
    }
    line
}

/// Formats how long ago a time was, in its largest unit.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// Formats how long ago a time was, for use in a sentence.
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
    fn a_text_hangs_below_its_beginning() {
        let text = "works on the whole, as far as it goes";
        assert_eq!(hanging(text, 8, 8, None), text);
        let shown = hanging(text, 8, 8, Some(30));
        assert_eq!(shown, "works on the whole, as\n        far as it goes");
    }

    #[test]
    fn messages_break_between_words_and_never_within_a_command() {
        let told = "Interrupted: `a` keeps starting. `hothouse status a` shows its state, `hothouse down a` stops it.";
        let shown = message_within(told, 40);
        assert_eq!(
            shown,
            "Interrupted: `a` keeps starting.\n`hothouse status a` shows its state,\n`hothouse down a` stops it."
        );
        assert_eq!(message_within("    one two three four", 20), "    one two three\n    four");
        assert_eq!(message_within("short\n\n  as it is\n", 40), "short\n\n  as it is\n");
        assert_eq!(
            message_within("averylongwordthatfitsnowhere x", 20),
            "averylongwordthatfitsnowhere\nx"
        );
        let long = "hint: `hothouse exec -w agent-a -- sh -c 'git add -A'` commits it";
        assert_eq!(
            message_within(long, 24),
            "hint: `hothouse exec -w\nagent-a -- sh -c 'git\nadd -A'` commits it"
        );
    }

    #[test]
    fn ages_use_their_largest_unit() {
        let at = |seconds| age(Timestamp::UNIX_EPOCH, Timestamp::from_second(seconds).unwrap());
        assert_eq!(
            [at(0), at(59), at(60), at(7199), at(86399), at(200_000)],
            ["0s", "59s", "1m", "1h", "23h", "2d"]
        );
    }

    fn plain_ui() -> Ui {
        Ui::new(&crate::args::Global::default(), true, true, false)
    }

    #[test]
    fn what_is_too_wide_is_broken_between_words() {
        let row = |cells: [&str; 2]| cells.map(Cell::new).into_iter().collect::<Vec<_>>();
        let rows = || {
            vec![
                row(["memory", "is not limited: this host has no control group that we may write"]),
                row(["urls", "short"]),
            ]
        };
        assert_eq!(
            fitted(&plain_ui(), &["AREA", "TEXT"], rows(), 40),
            "AREA    TEXT\n\
             memory  is not limited: this host has no\n        \
             control group that we may write\n\
             urls    short"
        );
        let whole = fitted(&plain_ui(), &["AREA", "TEXT"], rows(), usize::MAX);
        assert_eq!(whole.lines().count(), 3);
    }

    #[test]
    fn a_column_that_leaves_no_room_for_the_last_is_cut_in_the_middle() {
        let path = "/api/1/envelope/?version=7&key=0123456789&client=javascript/11";
        let row = |cells: [&str; 3]| cells.map(Cell::new).into_iter().collect::<Vec<_>>();
        let rows = || vec![row(["POST", path, "sentry"]), row(["GET", "/", "-"])];
        assert_eq!(
            fitted(&plain_ui(), &["METHOD", "PATH", "BY"], rows(), 50),
            "METHOD  PATH                                BY\n\
             POST    /api/1/envelope/?…nt=javascript/11  sentry\n\
             GET     /                                   -"
        );
        let whole = fitted(&plain_ui(), &["METHOD", "PATH", "BY"], rows(), usize::MAX);
        assert!(whole.contains(path));
    }

    #[test]
    fn a_word_that_does_not_fit_beside_the_others_goes_below() {
        let cells = ["web", "https://web.agent-a.acme.localhost", "http://127.0.0.1:43100"];
        let row = cells.map(Cell::new).into_iter().collect();
        assert_eq!(
            fitted(&plain_ui(), &[], vec![row], 60).trim_start_matches('\n'),
            "web  https://web.agent-a.acme.localhost\n    http://127.0.0.1:43100"
        );
    }

    #[test]
    fn wide_characters_take_two_columns_and_accents_none() {
        let row = |cells: [&str; 2]| cells.map(Cell::new).into_iter().collect::<Vec<_>>();
        let rows = vec![row(["東京", "a"]), row(["cafe\u{301}", "b"]), row(["plain", "c"])];
        assert_eq!(
            fitted(&plain_ui(), &["NAME", "X"], rows, 40),
            "NAME   X\n東京   a\ncafe\u{301}   b\nplain  c"
        );
        assert_eq!([cut("東京都庁", 5), cut("東京", 4)], ["東京…", "東京"]);
        assert_eq!(cut_in_the_middle("東京/都庁/a", 7), "東…/a");
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
