//! Decompresses base64-encoded lz-string, as sent by old versions of posthog-js.
//!
//! LZ78 over UTF-16 units, six bits to a character. <https://github.com/pieroxy/lz-string>

use crate::bound::INFLATED;

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// An entry of the dictionary: the previous entry, and one more unit.
#[derive(Clone, Copy)]
struct Entry {
    before: Option<usize>,
    unit: u16,
    length: usize,
}

struct Bits<'a> {
    letters: std::slice::Iter<'a, u8>,
    held: u8,
    left: u8,
}

impl Bits<'_> {
    /// Reads some bits, lowest first.
    fn read(&mut self, count: u32) -> Option<usize> {
        let mut value = 0;
        for at in 0..count {
            if self.left == 0 {
                let letter = self.letters.next()?;
                self.held = u8::try_from(LETTERS.iter().position(|known| known == letter)?).ok()?;
                self.left = 6;
            }
            self.left -= 1;
            value |= usize::from(self.held >> self.left & 1) << at;
        }
        Some(value)
    }
}

/// The dictionary, and the bit width of its next code.
struct Dictionary {
    entries: Vec<Entry>,
    width: u32,
    /// How many entries fit before the codes become wider.
    room: usize,
}

impl Dictionary {
    fn add(&mut self, entry: Entry) {
        self.entries.push(entry);
        self.room -= 1;
        if self.room == 0 {
            (self.room, self.width) = (1 << self.width, self.width + 1);
        }
    }
}

/// Decompresses a text. `None` if it is not lz-string, or too large.
pub(super) fn decompress(text: &str) -> Option<String> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut bits = Bits { letters: text.iter(), held: 0, left: 0 };
    let mut dictionary = Dictionary { entries: Vec::new(), width: 3, room: 5 };
    let mut units: Vec<u16> = Vec::new();
    let mut last: Option<usize> = None;
    loop {
        let code = bits.read(if last.is_none() { 2 } else { dictionary.width })?;
        // The first three codes mean: a unit of 8 bits, one of 16, the end.
        let known = match code {
            0 | 1 => {
                let unit = bits.read(if code == 0 { 8 } else { 16 })?;
                dictionary.add(Entry { before: None, unit: u16::try_from(unit).ok()?, length: 1 });
                dictionary.entries.len() - 1
            }
            2 => return String::from_utf16(&units).ok(),
            code => code - 3,
        };
        if let Some(last) = last {
            let entries = &dictionary.entries;
            let begins = if known < entries.len() { known } else { last };
            let length = entries[last].length + 1;
            let entry = Entry { before: Some(last), unit: first(entries, begins), length };
            dictionary.add(entry);
        }
        let written = dictionary.entries.get(known)?.length;
        if units.len() + written > INFLATED / 2 || dictionary.width > 24 {
            return None;
        }
        write(&dictionary.entries, known, &mut units);
        last = Some(known);
    }
}

fn first(entries: &[Entry], mut at: usize) -> u16 {
    while let Some(before) = entries[at].before {
        at = before;
    }
    entries[at].unit
}

fn write(entries: &[Entry], mut at: usize, units: &mut Vec<u16>) {
    let start = units.len();
    units.resize(start + entries[at].length, 0);
    for place in (start..units.len()).rev() {
        units[place] = entries[at].unit;
        at = entries[at].before.unwrap_or(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Generated with `LZString.compressToBase64` of lz-string 1.5.0.
    #[test]
    fn what_lz_string_made_is_read() {
        for (packed, text) in [
            ("BIUwNmD2A0AEDukBOYAmQ===", "Hello, world"),
            ("CeGoJLwbgAe0A===", "ä€😀"),
            ("IY18ZVA=", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
            (
                "N4IgpgbmB2AuIC4QEMQBoQAcBOB7TY2sAlmAM6Kiy4DWMiWAFgMYD6AHuiACbFknRmsVsW4NkAI2aTpUmfKkgAvkqA==",
                r#"{"event":"a","properties":{"token":"phc_x","distinct_id":"abcabcabcabcabcabc"}}"#,
            ),
        ] {
            assert_eq!(decompress(packed).as_deref(), Some(text), "{packed}");
        }
    }

    #[test]
    fn nonsense_ends() {
        for text in ["", "A", "////", "€", &"/".repeat(10_000), &"A".repeat(10_000)] {
            assert_eq!(decompress(text), None, "{text}");
        }
    }
}
