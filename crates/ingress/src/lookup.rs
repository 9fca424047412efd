//! An immutable map from names: a lookup checks exactly one slot, however many names there are.
//!
//! Hash and displace: a name's hash picks a bucket, the bucket's number moves the hash to a slot
//! that no other name has, so that slot holds the name or the name is absent. There is no chain to
//! walk and no branch that depends on how full the map is, and what is touched is small: for 1,000
//! names 2 KB of buckets, 15 KB of slots and the names themselves, one after the other. Hashes are
//! keyed again for each map, so nobody can choose names that collide.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
};

/// Names for each bucket, on average.
const PER_BUCKET: usize = 2;

/// Numbers tried for a bucket before starting over with another key.
const TRIES: u16 = 4096;

/// Values by name.
#[derive(Clone, Debug)]
pub(crate) struct Lookup<T> {
    key: RandomState,
    places: Places,
    /// All names, in their order.
    names: Box<str>,
    /// The values, in the order of their names.
    values: Box<[T]>,
}

/// How a hash leads to a slot.
#[derive(Clone, Debug)]
struct Places {
    buckets: Box<[u16]>,
    slots: Box<[Slot]>,
}

/// Where a name and its value are; an empty name marks a free slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    start: u32,
    length: u32,
    value: u32,
}

impl<T> Default for Lookup<T> {
    fn default() -> Self {
        Self::new([])
    }
}

impl<T: PartialEq> PartialEq for Lookup<T> {
    fn eq(&self, other: &Self) -> bool {
        let lengths = |lookup: &Self| {
            let mut all: Vec<_> =
                lookup.places.slots.iter().map(|slot| (slot.value, slot.length)).collect();
            all.sort_unstable();
            all.retain(|(_, length)| *length > 0);
            all
        };
        self.names == other.names && self.values == other.values && lengths(self) == lengths(other)
    }
}

impl<T: Eq> Eq for Lookup<T> {}

impl<T> Lookup<T> {
    /// Builds a map; the later of two equal names wins, and an empty name is left out.
    pub(crate) fn new(entries: impl IntoIterator<Item = (String, T)>) -> Self {
        let mut entries: BTreeMap<String, T> = entries.into_iter().collect();
        entries.remove("");
        let (mut names, mut at) = (String::new(), Vec::with_capacity(entries.len()));
        for (value, name) in (0..).zip(entries.keys()) {
            at.push(Slot { start: number(names.len()), length: number(name.len()), value });
            names.push_str(name);
        }
        let (key, places) = loop {
            let key = RandomState::new();
            let hashes: Vec<_> = entries.keys().map(|name| key.hash_one(name.as_str())).collect();
            if let Some(places) = Places::find(&hashes, &at) {
                break (key, places);
            }
        };
        Self { key, places, names: names.into(), values: entries.into_values().collect() }
    }

    /// Returns the value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        let hash = self.key.hash_one(name);
        let Slot { start, length, value } = self.places.slot(hash);
        let (start, length) = (start as usize, length as usize);
        let found = &self.names.as_bytes()[start..start + length];
        (length > 0 && found == name.as_bytes()).then(|| &self.values[value as usize])
    }

    /// Returns all values, in the order of their names.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }
}

impl Places {
    /// Finds a number for each bucket such that no two names have the same slot.
    fn find(hashes: &[u64], at: &[Slot]) -> Option<Self> {
        let (bucket_count, slot_count) = (hashes.len() / PER_BUCKET + 1, hashes.len() * 5 / 4 + 1);
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); bucket_count];
        for (name, hash) in hashes.iter().enumerate() {
            members[bucket_of(*hash, bucket_count)].push(name);
        }
        let mut order: Vec<usize> = (0..bucket_count).filter(|n| !members[*n].is_empty()).collect();
        // The fullest first, while there is room.
        order.sort_by_key(|bucket| std::cmp::Reverse(members[*bucket].len()));
        let mut buckets = vec![0; bucket_count];
        let mut slots = vec![Slot::default(); slot_count];
        let mut taken: Vec<usize> = Vec::new();
        for bucket in order {
            let fits = |taken: &mut Vec<usize>, number: u16| {
                taken.clear();
                members[bucket].iter().all(|name| {
                    let slot = slot_of(hashes[*name], number, slot_count);
                    let free = slots[slot].length == 0 && !taken.contains(&slot);
                    taken.push(slot);
                    free
                })
            };
            buckets[bucket] = (0..TRIES).find(|number| fits(&mut taken, *number))?;
            for (slot, name) in taken.iter().zip(&members[bucket]) {
                slots[*slot] = at[*name];
            }
        }
        Some(Self { buckets: buckets.into(), slots: slots.into() })
    }

    fn slot(&self, hash: u64) -> Slot {
        let number = self.buckets[bucket_of(hash, self.buckets.len())];
        self.slots[slot_of(hash, number, self.slots.len())]
    }
}

fn bucket_of(hash: u64, count: usize) -> usize {
    within(hash, count)
}

fn slot_of(hash: u64, number: u16, count: usize) -> usize {
    // The two constants are those of splitmix and murmur: any that mix well will do.
    let moved = hash ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    within(moved.wrapping_mul(0xff51_afd7_ed55_8ccd), count)
}

/// Brings the upper half of a hash below a count, without a division.
fn within(hash: u64, count: usize) -> usize {
    usize::try_from(((hash >> 32) * count as u64) >> 32).unwrap_or_default()
}

fn number(length: usize) -> u32 {
    u32::try_from(length).expect("names of all apps together are far below four gigabytes")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn numbered(count: usize) -> Lookup<usize> {
        Lookup::new((0..count).map(|n| (format!("app{n}.s.shop.localhost"), n)))
    }

    #[test]
    fn every_name_is_found_and_no_other() {
        for count in [0, 1, 2, 5, 1000, 20_000] {
            let lookup = numbered(count);
            for n in 0..count {
                assert_eq!(lookup.get(&format!("app{n}.s.shop.localhost")), Some(&n));
            }
            for other in
                ["", "app", "app0.s.shop.localhos", &format!("app{count}.s.shop.localhost")]
            {
                assert_eq!(lookup.get(other), None, "{other} among {count}");
            }
            assert_eq!(lookup.values().count(), count);
        }
    }

    #[test]
    fn two_are_equal_if_they_say_the_same_whatever_their_keys() {
        assert_eq!(numbered(100), numbered(100));
        assert_ne!(numbered(100), numbered(99));
        let of = |names: [&str; 2]| Lookup::new(names.map(|name| (name.to_owned(), 1)));
        assert_ne!(of(["a", "bc"]), of(["ab", "c"]));
    }

    proptest! {
        #[test]
        fn it_answers_as_any_map_does(
            entries in prop::collection::vec(("[a-c]{0,3}", 0..9_u8), 0..40),
            asked in "[a-d]{0,4}",
        ) {
            let map: HashMap<_, _> = entries.iter().filter(|(name, _)| !name.is_empty()).cloned().collect();
            let lookup = Lookup::new(entries.clone());
            prop_assert_eq!(lookup.get(&asked), map.get(&asked));
            for (name, _) in &entries {
                prop_assert_eq!(lookup.get(name), map.get(name));
            }
        }
    }
}
