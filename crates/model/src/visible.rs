//! Makes text written by others safe to display.
//!
//! A file name, a commit subject or a service's log line may hold invisible characters that change what is visible:
//! they move the cursor, reverse the order of letters or take no space. Each of them is shown as its code point.
//! Letters of every script stay.

use std::{borrow::Cow, fmt};

/// Returns whether a character changes what is visible without being visible itself.
///
/// Besides controls these are Unicode's default-ignorable and directional characters, except for the two variation
/// selectors that choose between text and emoji presentation.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Soft hyphen, and joiners and fillers without a glyph.
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}'
            | '\u{ffa0}' | '\u{180b}'..='\u{180f}'
            // Directional marks and overrides, and characters without width.
            | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            // Line and paragraph separators.
            | '\u{2028}' | '\u{2029}'
            // Selectors and tags, which can carry hidden texts.
            | '\u{fe00}'..='\u{fe0d}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Makes a text safe for one line.
pub fn line(text: &str) -> Cow<'_, str> {
    shown(text, |_| false)
}

/// Makes a text of several lines safe to display; tabs stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    shown(text, |c| matches!(c, '\n' | '\t'))
}

/// Makes a text safe for one line, but keeps tabs and colours. Other escape sequences are escaped: they move the
/// cursor, set the clipboard, or make the terminal send input.
pub fn painted_line(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| is_deceptive(c) && c != '\t') {
        return Cow::Borrowed(text);
    }
    let (mut all, mut is_painted) = (String::with_capacity(text.len() + 16), false);
    for (number, part) in text.split('\u{1b}').enumerate() {
        let (kept, rest) = part.split_at(colour(part).filter(|_| number > 0).unwrap_or(0));
        match (number, kept) {
            (0, _) => {}
            (_, "") => all.extend('\u{1b}'.escape_default()),
            (_, kept) => {
                is_painted = !matches!(kept, "[0m" | "[m");
                all.extend(["\u{1b}", kept]);
            }
        }
        all.push_str(&shown(rest, |c| c == '\t'));
    }
    // The next line sets its own colours.
    all.push_str(if is_painted { "\u{1b}[0m" } else { "" });
    Cow::Owned(all)
}

/// Returns the length of a colour sequence at the beginning of a text, after its escape character.
fn colour(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('[')?;
    let end = inner.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':')?;
    inner[end..].starts_with('m').then_some(end + 2)
}

fn shown(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_hidden = |c: char| is_deceptive(c) && !stays(c);
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_hidden(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Writes a text into HTML: none of it becomes markup, and deceptive characters become a replacement character. A line
/// break may be that of mails and HTTP (CR LF).
pub fn write_html(mut page: impl fmt::Write, text: &str) -> fmt::Result {
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\r' && characters.peek() == Some(&'\n') {
            continue;
        }
        write_html_character(&mut page, character)?;
    }
    Ok(())
}

fn write_html_character(page: &mut impl fmt::Write, character: char) -> fmt::Result {
    match character {
        '&' => page.write_str("&amp;"),
        '<' => page.write_str("&lt;"),
        '>' => page.write_str("&gt;"),
        '"' => page.write_str("&quot;"),
        '\'' => page.write_str("&#39;"),
        '\n' | '\t' => page.write_char(character),
        c if is_deceptive(c) => page.write_char('\u{fffd}'),
        c => page.write_char(c),
    }
}

/// Makes JSON safe to display. The value stays the same, because these characters occur only in strings.
pub fn json(text: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| is_deceptive(c) && !c.is_ascii_control() || c == '\u{7f}';
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if !is_hidden(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            shown.push_str(&format!("\\u{unit:04x}"));
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_deceives_is_shown_as_its_number() {
        for (text, one, several) in [
            ("a\u{1b}[2Jb\nc", "a\\u{1b}[2Jb\\nc", "a\\u{1b}[2Jb\nc"),
            ("a\tb\r", "a\\tb\\r", "a\tb\\r"),
            ("\u{202e}txt.exe\u{2066}", "\\u{202e}txt.exe\\u{2066}", "\\u{202e}txt.exe\\u{2066}"),
            ("\u{200e}\u{200f}\u{61c}", "\\u{200e}\\u{200f}\\u{61c}", "\\u{200e}\\u{200f}\\u{61c}"),
            (
                "a\u{2028}b\u{2029}\u{85}",
                "a\\u{2028}b\\u{2029}\\u{85}",
                "a\\u{2028}b\\u{2029}\\u{85}",
            ),
            (
                "ma\u{200b}in\u{feff}\u{ad}",
                "ma\\u{200b}in\\u{feff}\\u{ad}",
                "ma\\u{200b}in\\u{feff}\\u{ad}",
            ),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("\u{e0041}", "\\u{e0041}", "\\u{e0041}"),
        ] {
            assert_eq!((&*line(text), &*lines(text)), (one, several), "{text:?}");
        }
    }

    #[test]
    fn letters_and_signs_of_all_scripts_stay() {
        for text in ["naïve", "日本語", "اللغة", "עברית", "हिन्दी", "☀\u{fe0f}", "a\u{301}", "🦀"]
        {
            assert!(matches!(line(text), Cow::Borrowed(same) if same == text), "{text:?}");
        }
    }

    #[test]
    fn colours_stay_where_they_were_asked_for_and_the_rest_does_not() {
        let text = "\u{1b}[31mred\u{1b}[0m\t\u{202e}\r";
        assert_eq!(painted_line(text), "\u{1b}[31mred\u{1b}[0m\t\\u{202e}\\r");
        let curled = "\u{1b}[4:3;38;2;1;2;3mx";
        assert_eq!(painted_line(curled), format!("{curled}\u{1b}[0m"), "it ends with its line");
        for sequence in [
            "[21t",
            "]52;c;eA==\u{7}",
            "[2J",
            "[6n",
            "[?1049h",
            "P$qm\u{1b}\\",
            "[31",
            "[>4;1m",
            "",
        ] {
            let text = format!("a\u{1b}{sequence}");
            let shown = painted_line(&text);
            assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn json_stays_the_same_value(text: String, more in "[\u{80}-\u{9f}\u{202a}-\u{202e}\u{e0001}]*") {
            let value = serde_json::json!({ "key": format!("{text}{more}\u{7f}") });
            let plain = value.to_string();
            let shown = json(&plain);
            let is_ours = |c: char| is_deceptive(c);
            proptest::prop_assert!(!shown.contains(is_ours));
            proptest::prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
