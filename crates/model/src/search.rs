//! Searches a text for values, in a time that does not reveal how much of a value matched. Pure.
//!
//! A search that compares byte by byte takes longer the more of a value matches, and an agent that chooses the text of
//! a long response, or of a record, could exploit that. So hashes of all windows are compared (Rabin-Karp): the same
//! few operations for each byte, until a whole value matches. Each [`Search`] has its own random multiplier.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
};

/// How many texts of one length are searched for at once.
const WANTED: usize = 2;

/// How many lanes run side by side: each waits for its own previous step, so several cost little more than one.
const ABREAST: usize = 4;

/// A set of texts to search for.
#[derive(Clone)]
pub struct Search {
    multiplier: u64,
    lanes: Vec<Lane>,
}

/// A few texts of one length.
#[derive(Clone)]
struct Lane {
    length: usize,
    /// The weight of the byte that leaves a window of this length.
    leaving: u64,
    /// The hash of each text; padded with the last one.
    wanted: [u64; WANTED],
    /// The index of each text.
    indices: [usize; WANTED],
}

impl Search {
    /// Prepares a search for texts, which are identified by their index.
    pub fn new<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Self {
        let multiplier = RandomState::new().hash_one(0) | 1;
        let mut groups = BTreeMap::<usize, Vec<(u64, usize)>>::new();
        for (index, text) in texts.enumerate() {
            let hash = text.iter().fold(0, |hash, byte| step(hash, *byte, multiplier));
            groups.entry(text.len()).or_default().push((hash, index));
        }
        groups.remove(&0);
        let lanes = groups.iter().flat_map(|(length, wanted)| {
            let leaving = (0..*length).fold(1_u64, |power, _| power.wrapping_mul(multiplier));
            wanted.chunks(WANTED).map(move |some| Lane::new(*length, leaving, some))
        });
        Self { multiplier, lanes: lanes.collect() }
    }

    /// Returns where the hash of a text matches, and which text. The caller must compare the text itself.
    pub fn find(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let (abreast, rest) = self.lanes.as_chunks::<ABREAST>();
        for lanes in abreast {
            find(lanes, self.multiplier, text, &mut found);
        }
        for lane in rest {
            find(std::array::from_ref(lane), self.multiplier, text, &mut found);
        }
        found
    }

    /// Returns the length of the longest text.
    pub fn longest(&self) -> usize {
        self.lanes.last().map_or(0, |lane| lane.length)
    }
}

/// Searches a text with several lanes at once.
fn find<const N: usize>(
    lanes: &[Lane; N],
    multiplier: u64,
    text: &[u8],
    found: &mut Vec<(usize, usize)>,
) {
    let longest = lanes.iter().map(|lane| lane.length).max().unwrap_or(0);
    let (first, entering) = text.split_at(longest.min(text.len()));
    let mut hashes = lanes.each_ref().map(|lane| lane.begin(first, multiplier, found));
    if entering.is_empty() {
        return;
    }
    let leaving = lanes.each_ref().map(|lane| &text[longest - lane.length..]);
    for (at, byte) in entering.iter().enumerate() {
        let mut any = false;
        for lane in 0..N {
            let gone = u64::from(leaving[lane][at]).wrapping_mul(lanes[lane].leaving);
            hashes[lane] = step(hashes[lane], *byte, multiplier).wrapping_sub(gone);
            // Every hash is compared with that of every text, without an early exit.
            for wanted in lanes[lane].wanted {
                any |= hashes[lane] == wanted;
            }
        }
        if any {
            let end = longest + at + 1;
            lanes.iter().zip(hashes).for_each(|(lane, hash)| lane.note(hash, end, found));
        }
    }
}

impl Lane {
    fn new(length: usize, leaving: u64, some: &[(u64, usize)]) -> Self {
        let at = |place: usize| some[place.min(some.len() - 1)];
        let (wanted, indices) =
            (std::array::from_fn(|place| at(place).0), std::array::from_fn(|place| at(place).1));
        Self { length, leaving, wanted, indices }
    }

    /// Hashes the first bytes: as many as the longest text of the group has, or all.
    fn begin(&self, first: &[u8], multiplier: u64, found: &mut Vec<(usize, usize)>) -> u64 {
        let mut hash = 0;
        for (at, byte) in first.iter().enumerate() {
            hash = step(hash, *byte, multiplier);
            if let Some(leaving) = at.checked_sub(self.length) {
                let gone = u64::from(first[leaving]).wrapping_mul(self.leaving);
                hash = hash.wrapping_sub(gone);
            }
            if at + 1 >= self.length {
                self.note(hash, at + 1, found);
            }
        }
        hash
    }

    /// Records the texts that end here, if the hash matches.
    fn note(&self, hash: u64, end: usize, found: &mut Vec<(usize, usize)>) {
        for (place, index) in self.indices.iter().enumerate() {
            let again = self.indices[..place].contains(index);
            if self.wanted[place] == hash && !again {
                found.push((end - self.length, *index));
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
        let search = Search::new([value.as_bytes()].into_iter());
        let texts =
            [&value[..39], "~~~~_~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~"].map(|s| s.repeat(5000));
        let took = |text: &str| {
            let begun = std::time::Instant::now();
            assert!(search.find(std::hint::black_box(text.as_bytes())).is_empty());
            begun.elapsed()
        };
        // The fastest of many alternating runs: other load on the machine can only slow a run down.
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
            let texts = wanted.iter().map(|text| text.as_bytes());
            let mut found = Search::new(texts).find(text.as_bytes());
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
