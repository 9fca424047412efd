//! Suggests the known word that a mistyped one was probably meant to be.

/// Longer words are not typing mistakes.
const LONGEST: usize = 40;

/// Returns the known word closest to `typed`, if one is close enough to suggest.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = fold(typed);
    if typed.is_empty() || typed.len() > LONGEST {
        return None;
    }
    let tolerance = match typed.len() {
        1 => 0,
        length => (length.max(3) / 3).min(3),
    };
    let scored = known
        .into_iter()
        .filter(|word| word.len() <= LONGEST)
        .map(|word| (distance_to(&typed, word), word));
    scored
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Returns hints for an unknown name: the one that was probably meant, and all known ones.
pub fn among(typed: &str, known: &[&str]) -> Vec<String> {
    let meant = nearest(typed, known.iter().copied());
    let meant = meant.map(|meant| format!("did you mean `{meant}`?"));
    meant.into_iter().chain([format!("available: {}", known.join(", "))]).collect()
}

/// Returns the distance between two texts: 0 for equal ones, 1 if one contains the other.
pub fn difference(typed: &str, word: &str) -> usize {
    distance_to(&fold(typed), word)
}

/// Normalizes what people easily confuse: case, and dash and underscore.
fn fold(word: &str) -> Vec<char> {
    word.chars().map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Returns the distance to a known word; one that contains the typed word (`TERM` in `SIGTERM`) has distance 1.
fn distance_to(typed: &[char], word: &str) -> usize {
    let word = fold(word);
    let holds = typed.len() >= 3 && word.windows(typed.len()).any(|part| part == typed);
    if holds { usize::from(word.len() != typed.len()) } else { distance(typed, &word) }
}

/// Counts the edits between two words: insertions, deletions, replacements, swaps of adjacent letters.
fn distance(left: &[char], right: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, r) in right.iter().enumerate() {
            let mut best = (last[j] + usize::from(l != r)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *l == right[j - 1] && left[i - 1] == *r {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_near_miss_is_the_word_that_was_meant() {
        let known = ["name", "place", "port", "ports", "stop-signal", "SIGTERM", "on-failure"];
        for (typed, meant) in [
            ("nmae", Some("name")),
            ("prot", Some("port")),
            ("stop_signal", Some("stop-signal")),
            ("TERM", Some("SIGTERM")),
            ("sigterm", Some("SIGTERM")),
            ("onfailure", Some("on-failure")),
            ("Port", Some("port")),
            ("zebra", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(typed, known), meant, "{typed}");
        }
        assert_eq!(among("prot", &known[2..3]), ["did you mean `port`?", "available: port"]);
        assert_eq!(among("zebra", &known[2..3]), ["available: port"]);
    }
}
