//! Sets of lines, kept as ranges.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// The highest line number.
pub(super) const LINE_MOST: u32 = 10_000_000;

/// Line numbers from 1, as sorted ranges that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u32, u32)>", into = "Vec<(u32, u32)>")]
pub struct LineSet(Vec<(u32, u32)>);

impl From<Vec<(u32, u32)>> for LineSet {
    /// Accepts any ranges: they may come from an untrusted file.
    fn from(ranges: Vec<(u32, u32)>) -> Self {
        let mut ranges: Vec<(u32, u32)> = ranges
            .into_iter()
            .map(|(from, to)| (from.clamp(1, LINE_MOST), to.clamp(1, LINE_MOST)))
            .filter(|(from, to)| from <= to)
            .collect();
        ranges.sort_unstable();
        let mut all: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (from, to) in ranges {
            match all.last_mut() {
                Some(last) if from <= last.1 + 1 => last.1 = last.1.max(to),
                _ => all.push((from, to)),
            }
        }
        Self(all)
    }
}

impl From<LineSet> for Vec<(u32, u32)> {
    fn from(lines: LineSet) -> Self {
        lines.0
    }
}

impl FromIterator<u32> for LineSet {
    fn from_iter<T: IntoIterator<Item = u32>>(lines: T) -> Self {
        lines
            .into_iter()
            .filter(|line| *line > 0)
            .map(|line| (line, line))
            .collect::<Vec<_>>()
            .into()
    }
}

impl LineSet {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of lines.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(from, to)| u64::from(to - from) + 1).sum()
    }

    /// Returns the last line; 0 if there is none.
    pub fn last(&self) -> u32 {
        self.0.last().map_or(0, |(_, to)| *to)
    }

    pub fn contains(&self, line: u32) -> bool {
        let at = self.0.partition_point(|(_, to)| *to < line);
        self.0.get(at).is_some_and(|(from, _)| *from <= line)
    }

    /// Returns the union.
    pub fn with(&self, other: &Self) -> Self {
        self.0.iter().chain(&other.0).copied().collect::<Vec<_>>().into()
    }

    /// Returns the intersection.
    pub fn within(&self, other: &Self) -> Self {
        let mut all = Vec::new();
        for (from, to) in &self.0 {
            let at = other.0.partition_point(|(_, end)| end < from);
            let near = other.0[at..].iter().take_while(|(begin, _)| begin <= to);
            all.extend(near.map(|(begin, end)| (*from.max(begin), *to.min(end))));
        }
        Self(all)
    }

    /// Returns the lines that `other` does not have.
    pub fn without(&self, other: &Self) -> Self {
        let mut all = Vec::new();
        for (from, to) in &self.0 {
            let mut from = *from;
            let at = other.0.partition_point(|(_, end)| *end < from);
            for (begin, end) in other.0[at..].iter().take_while(|(begin, _)| begin <= to) {
                if *begin > from {
                    all.push((from, begin - 1));
                }
                from = end + 1;
            }
            if from <= *to {
                all.push((from, *to));
            }
        }
        Self(all)
    }
}

impl Display for LineSet {
    /// Shows the first few ranges.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        for (at, (from, to)) in self.0.iter().take(SHOWN).enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            match from == to {
                true => write!(f, "{comma}{from}")?,
                false => write!(f, "{comma}{from}-{to}")?,
            }
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            _ => write!(f, ", …"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn plain(lines: &LineSet) -> BTreeSet<u32> {
        lines.0.iter().flat_map(|(from, to)| *from..=*to).collect()
    }

    proptest! {
        #[test]
        fn a_set_of_lines_is_a_set(one: BTreeSet<u8>, other: BTreeSet<u8>) {
            let of = |set: &BTreeSet<u8>| set.iter().map(|line| u32::from(*line) + 1).collect::<BTreeSet<_>>();
            let (one, other) = (of(&one), of(&other));
            let (a, b): (LineSet, LineSet) = (one.iter().copied().collect(), other.iter().copied().collect());
            prop_assert_eq!(plain(&a), one.clone());
            prop_assert_eq!(a.count(), one.len() as u64);
            prop_assert_eq!(plain(&a.with(&b)), &one | &other);
            prop_assert_eq!(plain(&a.within(&b)), &one & &other);
            prop_assert_eq!(plain(&a.without(&b)), &one - &other);
            prop_assert!((1..=256).all(|line| a.contains(line) == one.contains(&line)));
        }
    }

    #[test]
    fn ranges_are_shown_in_short() {
        let lines: LineSet = [1, 2, 3, 7, 9, 10].into_iter().collect();
        assert_eq!(lines.to_string(), "1-3, 7, 9-10");
        let lines: LineSet = (1..30).map(|line| line * 2).collect();
        assert!(lines.to_string().ends_with("16, …"));
        let hostile: LineSet = vec![(9, 2), (0, u32::MAX), (5, 5)].into();
        assert_eq!(hostile.0, [(1, LINE_MOST)]);
    }
}
