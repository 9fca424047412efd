//! The mappings of source maps: from a position in a script to the position in its source. Pure; maps come from rooms,
//! so every number in them is hostile.

/// The maximum size of a map that is read.
pub const MAP_MOST: usize = 16 << 20;

/// One mapping. All numbers count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Line and column in the script; the column is in UTF-16 units.
    pub line: usize,
    pub column: i64,
    /// Where it was generated from; `None` for code without a source.
    pub origin: Option<Origin>,
}

/// A position in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its index among the sources of the map.
    pub source: i64,
    pub line: i64,
    pub column: i64,
}

/// Calls `take` for each mapping, in order. Invalid segments are skipped.
pub fn each(mappings: &str, mut take: impl FnMut(Segment)) {
    let mut last = Origin { source: 0, line: 0, column: 0 };
    for (line, text) in mappings.split(';').enumerate() {
        let mut column = 0_i64;
        for segment in text.split(',') {
            let Some((numbers, count)) = decode(segment) else { continue };
            if count == 0 {
                continue;
            }
            column = column.saturating_add(numbers[0]);
            let origin = (count >= 4).then(|| {
                last = Origin {
                    source: last.source.saturating_add(numbers[1]),
                    line: last.line.saturating_add(numbers[2]),
                    column: last.column.saturating_add(numbers[3]),
                };
                last
            });
            take(Segment { line, column, origin });
        }
    }
}

/// Decodes the numbers of a segment, at most five, from base64 VLQ.
fn decode(segment: &str) -> Option<([i64; 5], usize)> {
    let (mut numbers, mut count, mut value, mut shift) = ([0_i64; 5], 0, 0_i64, 0_u32);
    for byte in segment.bytes() {
        let digit = digit(byte)?;
        value |= (digit & 31).checked_shl(shift).filter(|_| shift < 40)?;
        if digit & 32 != 0 {
            shift += 5;
            continue;
        }
        let number = value >> 1;
        *numbers.get_mut(count)? = if value & 1 == 1 { -number } else { number };
        count += 1;
        (value, shift) = (0, 0);
    }
    (shift == 0).then_some((numbers, count))
}

fn digit(byte: u8) -> Option<i64> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_sign_and_a_length() {
        let of = |text: &str| decode(text).map(|(numbers, count)| numbers[..count].to_vec());
        assert_eq!(of("AAAA"), Some(vec![0, 0, 0, 0]));
        assert_eq!(of("D"), Some(vec![-1]));
        assert_eq!(of("gB"), Some(vec![16]));
        for wrong in ["g", "!", "gggggggggggggggB", "AAAAAA"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn origins_add_up_and_columns_begin_again_with_each_line() {
        let mut all = Vec::new();
        each("AAAA,SAAS,CCCT;AACA,E", |segment| all.push(segment));
        let origin = |source, line, column| Some(Origin { source, line, column });
        assert_eq!(
            all,
            [
                Segment { line: 0, column: 0, origin: origin(0, 0, 0) },
                Segment { line: 0, column: 9, origin: origin(0, 0, 9) },
                Segment { line: 0, column: 10, origin: origin(1, 1, 0) },
                Segment { line: 1, column: 0, origin: origin(1, 2, 0) },
                Segment { line: 1, column: 2, origin: None },
            ]
        );
    }
}
