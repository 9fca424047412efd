//! Keys of a keyboard, as steps name them.

use serde_json::{Value, json};

/// A key: its name, its place on the keyboard, its number, and the text that it types.
pub struct Key {
    pub name: String,
    code: String,
    number: u32,
    text: Option<String>,
    /// Alt is 1, Control 2, Meta 4, Shift 8.
    modifiers: u32,
}

const NAMED: [(&str, u32, Option<&str>); 16] = [
    ("Enter", 13, Some("\r")),
    ("Tab", 9, None),
    ("Escape", 27, None),
    ("Backspace", 8, None),
    ("Delete", 46, None),
    ("ArrowUp", 38, None),
    ("ArrowDown", 40, None),
    ("ArrowLeft", 37, None),
    ("ArrowRight", 39, None),
    ("Home", 36, None),
    ("End", 35, None),
    ("PageUp", 33, None),
    ("PageDown", 34, None),
    ("Space", 32, Some(" ")),
    ("F5", 116, None),
    ("Insert", 45, None),
];

const MODIFIERS: [(&str, u32); 5] =
    [("Alt", 1), ("Control", 2), ("Ctrl", 2), ("Meta", 4), ("Shift", 8)];

/// Finds a key, such as `Enter`, `a` or `Control+A`.
pub fn find(text: &str) -> Option<Key> {
    let mut modifiers = 0;
    let mut rest = text;
    while let Some((word, after)) =
        rest.split_once('+').filter(|(word, after)| !word.is_empty() && !after.is_empty())
    {
        modifiers |= MODIFIERS.iter().find(|(name, _)| *name == word)?.1;
        rest = after;
    }
    // With these held, a key types nothing.
    let is_typed = modifiers & 0b111 == 0;
    if let Some((name, number, text)) = NAMED.iter().find(|(name, ..)| *name == rest) {
        let name = if *name == "Space" { " " } else { name };
        return Some(Key {
            name: name.to_owned(),
            code: rest.to_owned(),
            number: *number,
            text: text.filter(|_| is_typed).map(str::to_owned),
            modifiers,
        });
    }
    let mut letters = rest.chars();
    let (Some(letter), None) = (letters.next(), letters.next()) else { return None };
    if letter.is_control() {
        return None;
    }
    let upper = letter.to_ascii_uppercase();
    let code = match upper {
        'A'..='Z' => format!("Key{upper}"),
        '0'..='9' => format!("Digit{upper}"),
        _ => String::new(),
    };
    let number = if upper.is_ascii_alphanumeric() { u32::from(upper) } else { 0 };
    let text = is_typed.then(|| letter.to_string());
    Some(Key { name: letter.to_string(), code, number, text, modifiers })
}

impl Key {
    /// Returns the events for the browser: the key goes down, then up.
    pub fn events(&self) -> [Value; 2] {
        let event = |kind: &str| {
            json!({
                "type": kind, "key": self.name, "code": self.code, "modifiers": self.modifiers,
                "windowsVirtualKeyCode": self.number,
            })
        };
        let mut down = event(if self.text.is_some() { "keyDown" } else { "rawKeyDown" });
        if let Some(text) = &self.text {
            down["text"] = text.as_str().into();
        }
        [down, event("keyUp")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_name_letter_and_modifiers() {
        for (text, number, typed) in [
            ("Enter", 13, Some("\r")),
            ("a", 65, Some("a")),
            ("ü", 0, Some("ü")),
            ("Control+A", 65, None),
            ("Shift+Tab", 9, None),
            ("+", 0, Some("+")),
        ] {
            let key = find(text).unwrap();
            assert_eq!((key.number, key.text.as_deref()), (number, typed), "{text}");
        }
        for wrong in ["Entr", "", "Hyper+A", "ab", "\n"] {
            assert!(find(wrong).is_none(), "{wrong:?}");
        }
    }
}
