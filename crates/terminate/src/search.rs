//! Finding values in a text, in a time that does not tell how much of one was there. Pure.
//!
//! A search that looks at a value byte by byte takes longer where more of it fits, and an agent that may
//! choose the text of a long answer could count on that. So the hashes of all stretches of a length are
//! compared (Rabin and Karp): the same few operations for each byte, whatever it is, until a whole value
//! is there. The multiplier is drawn anew for each search.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
};

use crate::text::Secret;

/// Many texts to look for.
pub(crate) struct Search {
    multiplier: u64,
    groups: Vec<Group>,
}

/// The texts of one length.
struct Group {
    length: usize,
    /// What the byte that leaves a stretch of this length counts.
    leaving: u64,
    /// The hash of each text, and which one it is.
    wanted: Vec<(u64, usize)>,
}

impl Search {
    /// Prepares to look for texts, each known by its place in the list.
    pub(crate) fn new<'a>(texts: impl Iterator<Item = &'a Secret>) -> Self {
        let multiplier = RandomState::new().hash_one(0) | 1;
        let mut groups = BTreeMap::<usize, Vec<(u64, usize)>>::new();
        for (index, text) in texts.enumerate() {
            let hash = text.iter().fold(0, |hash, byte| step(hash, *byte, multiplier));
            groups.entry(text.len()).or_default().push((hash, index));
        }
        groups.remove(&0);
        let group = |(length, wanted): (usize, Vec<_>)| {
            let leaving = (0..length).fold(1_u64, |power, _| power.wrapping_mul(multiplier));
            Group { length, leaving, wanted }
        };
        Self { multiplier, groups: groups.into_iter().map(group).collect() }
    }

    /// Returns where a hash is that of a text, and which one. Whether it is the text is to be checked.
    pub(crate) fn find(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for group in &self.groups {
            group.find(text, self.multiplier, &mut found);
        }
        found
    }

    /// Returns the length of the longest text.
    pub(crate) fn longest(&self) -> usize {
        self.groups.last().map_or(0, |group| group.length)
    }
}

impl Group {
    fn find(&self, text: &[u8], multiplier: u64, found: &mut Vec<(usize, usize)>) {
        let Some((first, rest)) = text.split_at_checked(self.length) else { return };
        let mut hash = first.iter().fold(0, |hash, byte| step(hash, *byte, multiplier));
        self.note(hash, 0, found);
        for (at, (entering, leaving)) in rest.iter().zip(text).enumerate() {
            let gone = u64::from(*leaving).wrapping_mul(self.leaving);
            hash = step(hash, *entering, multiplier).wrapping_sub(gone);
            self.note(hash, at + 1, found);
        }
    }

    fn note(&self, hash: u64, at: usize, found: &mut Vec<(usize, usize)>) {
        for (wanted, index) in &self.wanted {
            if *wanted == hash {
                found.push((at, *index));
            }
        }
    }
}

fn step(hash: u64, byte: u8, multiplier: u64) -> u64 {
    hash.wrapping_mul(multiplier).wrapping_add(u64::from(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_that_is_full_of_beginnings_takes_no_longer_than_another() {
        let value = "ghp_RealRealRealRealRealRealRealReal0001";
        let search = Search::new([Secret::new(value.as_bytes().to_vec())].iter());
        let texts =
            [&value[..39], "~~~~_~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~"].map(|s| s.repeat(5000));
        let took = |text: &str| {
            let begun = std::time::Instant::now();
            assert!(search.find(std::hint::black_box(text.as_bytes())).is_empty());
            begun.elapsed()
        };
        // The quickest of many, by turns: what else the machine does only ever takes longer.
        let mut least = [std::time::Duration::MAX; 2];
        for turn in 0..60 {
            least[turn % 2] = least[turn % 2].min(took(&texts[turn % 2]));
        }
        let [right, wrong] = least;
        assert!(right < wrong * 3 / 2 && wrong < right * 3 / 2, "{right:?} {wrong:?}");
    }

    proptest! {
        #[test]
        fn every_place_is_found_and_no_other(
            text in "[abc]{0,60}", wanted in proptest::collection::vec("[abc]{1,6}", 1..5)
        ) {
            let secrets: Vec<_> =
                wanted.iter().map(|text| Secret::new(text.as_bytes().to_vec())).collect();
            let mut found = Search::new(secrets.iter()).find(text.as_bytes());
            found.sort_unstable();
            let mut expected = Vec::new();
            for at in 0..text.len() {
                for (index, wanted) in wanted.iter().enumerate() {
                    if text[at..].starts_with(wanted.as_str()) {
                        expected.push((at, index));
                    }
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
