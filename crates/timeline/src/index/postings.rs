//! Lists of record numbers, delta-encoded as varints.

/// Encodes ascending numbers; the first is stored separately.
pub(super) fn pack(seqs: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(seqs.len());
    for pair in seqs.windows(2) {
        let mut step = pair[1] - pair[0];
        while step >= 0x80 {
            bytes.push(u8::try_from(step & 0x7f).expect("seven bits") | 0x80);
            step >>= 7;
        }
        bytes.push(u8::try_from(step).expect("seven bits"));
    }
    bytes
}

/// Decodes the output of [`pack`]. Other bytes yield numbers that no record has.
pub(super) fn unpack(first: u64, bytes: &[u8], seqs: &mut Vec<u64>) {
    seqs.push(first);
    let (mut last, mut step, mut shift) = (first, 0_u64, 0);
    for byte in bytes {
        step |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        shift += 7;
        if byte & 0x80 == 0 {
            last = last.wrapping_add(step);
            seqs.push(last);
            (step, shift) = (0, 0);
        }
    }
}

/// Intersects two sorted lists.
pub(crate) fn intersect(left: &[u64], right: &[u64]) -> Vec<u64> {
    let (mut both, mut at) = (Vec::new(), 0);
    for seq in left {
        while at < right.len() && right[at] < *seq {
            at += 1;
        }
        if right.get(at) == Some(seq) {
            both.push(*seq);
        }
    }
    both
}

pub(super) fn beyond(mut seqs: Vec<u64>, after: u64) -> Vec<u64> {
    seqs.retain(|seq| *seq > after);
    seqs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_lists_come_back(seqs in proptest::collection::btree_set(1..u64::MAX / 2, 1..50)) {
            let seqs: Vec<u64> = seqs.into_iter().collect();
            let mut again = Vec::new();
            unpack(seqs[0], &pack(&seqs), &mut again);
            prop_assert_eq!(again, seqs);
        }
    }

    #[test]
    fn lists_meet_where_both_have_a_number() {
        assert_eq!(intersect(&[1, 3, 5, 7], &[2, 3, 4, 7, 9]), [3, 7]);
        assert_eq!(intersect(&[], &[1]), [0; 0]);
    }
}
