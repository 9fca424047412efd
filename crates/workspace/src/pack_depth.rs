//! The depth of delta chains in a pack.
//!
//! Reading an object at the end of a chain reconstructs every object before it. Git writes chains
//! of at most 4095 (`git-pack-objects(1)`, `--depth`) but reads longer ones, and an agent may send
//! any length: reading one file would then take minutes, for as long as the repository exists.
//!
//! The files were written and checked by `git index-pack` (gitformat-pack(5), version 2 of
//! indexes). Whatever does not fit the format is an error, never a panic.

use std::{
    collections::HashMap,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use hothouse_host::files;
use hothouse_model::id::hex;

/// The signature and version of an index.
const SIGNATURE: [u8; 8] = *b"\xfftOc\0\0\0\x02";

/// The header of an index, including its fan-out table.
const INDEX_HEAD: u64 = 8 + 256 * 4;

/// The maximum size of an entry's header: its size, then the id of its base.
const ENTRY_HEAD: usize = 10 + 32;

/// Returns the indexes of packs in which one of these objects is at the end of a chain of more than
/// `limit` deltas.
pub(crate) fn deeper(objects: &Path, names: &[Vec<u8>], limit: u32) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for index in indexes(objects) {
        match Pack::open(&index).and_then(|pack| pack.is_any_deeper(names, limit)) {
            Ok(true) => found.push(index),
            Ok(false) => {}
            // Repacked in the meantime: its objects are in another pack.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Returns the ids of all objects in a pack, in hexadecimal, one per line.
pub(crate) fn names(index: &Path) -> io::Result<String> {
    let pack = Pack::open(index)?;
    let length = usize::try_from(pack.name).map_err(|_| malformed())?;
    let mut all = vec![0; length * usize::try_from(pack.count).map_err(|_| malformed())?];
    pack.index.read_exact_at(&mut all, INDEX_HEAD)?;
    Ok(all.chunks(length).map(|name| hex(name) + "\n").collect())
}

/// Returns the indexes of the packs in an objects folder.
fn indexes(objects: &Path) -> Vec<PathBuf> {
    let files = files::list(&objects.join("pack")).unwrap_or_default();
    files.into_iter().filter(|file| file.extension().is_some_and(|word| word == "idx")).collect()
}

/// Counts the deltas from an object to its full base, but not much beyond `limit`.
///
/// `depths` caches earlier results, so each object is read once.
fn depth(
    offset: u64,
    limit: u32,
    depths: &mut HashMap<u64, u32>,
    base: &dyn Fn(u64) -> io::Result<Option<u64>>,
) -> io::Result<u32> {
    let (mut chain, mut at) = (Vec::new(), offset);
    let mut depth = loop {
        if let Some(depth) = depths.get(&at) {
            break depth + 1;
        }
        chain.push(at);
        match base(at)? {
            // The limit also breaks cycles, which git would have refused.
            Some(next) if chain.len() <= limit as usize + 1 => at = next,
            _ => break 0,
        }
    };
    for member in chain.into_iter().rev() {
        depths.insert(member, depth);
        depth += 1;
    }
    Ok(depths[&offset])
}

/// A pack and its index.
struct Pack {
    pack: File,
    index: File,
    count: u64,
    /// The length of an object id.
    name: u64,
}

impl Pack {
    fn open(index: &Path) -> io::Result<Self> {
        let (pack, index) = (File::open(index.with_extension("pack"))?, File::open(index)?);
        let mut signature = [0; SIGNATURE.len()];
        index.read_exact_at(&mut signature, 0)?;
        if signature != SIGNATURE {
            return Err(malformed());
        }
        let count = number(&index, INDEX_HEAD - 4)?.into();
        let (end, pack_end) = (index.metadata()?.len(), pack.metadata()?.len());
        for name in [20, 32] {
            // Both files contain the pack's hash at their end; in the index its own hash follows.
            let (mut in_index, mut in_pack) = ([0; 32], [0; 32]);
            let (in_index, in_pack) = (&mut in_index[..name], &mut in_pack[..name]);
            let name = name as u64;
            let (Some(at), Some(pack_at)) = (end.checked_sub(2 * name), pack_end.checked_sub(name))
            else {
                continue;
            };
            index.read_exact_at(in_index, at)?;
            pack.read_exact_at(in_pack, pack_at)?;
            if in_index == in_pack {
                return Ok(Self { pack, index, count, name });
            }
        }
        Err(malformed())
    }

    fn is_any_deeper(&self, names: &[Vec<u8>], limit: u32) -> io::Result<bool> {
        let mut depths = HashMap::new();
        for name in names {
            let Some(offset) = self.find(name)? else { continue };
            if depth(offset, limit, &mut depths, &|offset| self.base(offset))? > limit {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the offset of an object. Ids are sorted.
    fn find(&self, name: &[u8]) -> io::Result<Option<u64>> {
        let Some(first) = name.first().filter(|_| name.len() as u64 == self.name) else {
            return Ok(None);
        };
        let table = |byte: u8| number(&self.index, 8 + 4 * u64::from(byte)).map(u64::from);
        let mut low = if *first == 0 { 0 } else { table(first - 1)? };
        let mut high = table(*first)?;
        let mut found = vec![0; name.len()];
        while low < high {
            let middle = low.midpoint(high);
            self.index.read_exact_at(&mut found, INDEX_HEAD + middle * self.name)?;
            match found.as_slice().cmp(name) {
                std::cmp::Ordering::Equal => return self.offset(middle).map(Some),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    fn offset(&self, at: u64) -> io::Result<u64> {
        let offsets = INDEX_HEAD + self.count * (self.name + 4);
        let offset = number(&self.index, offsets + at * 4)?;
        if offset & 0x8000_0000 == 0 {
            return Ok(offset.into());
        }
        let large = offsets + self.count * 4 + u64::from(offset & 0x7fff_ffff) * 8;
        let (high, low) = (number(&self.index, large)?, number(&self.index, large + 4)?);
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    /// Returns the offset of an object's delta base, if it is a delta.
    fn base(&self, offset: u64) -> io::Result<Option<u64>> {
        let mut head = [0; ENTRY_HEAD];
        let length = self.pack.read_at(&mut head, offset)?;
        let head = &head[..length];
        let size = head.iter().position(|byte| byte & 0x80 == 0).ok_or_else(malformed)? + 1;
        let rest = &head[size..];
        match head[0] >> 4 & 7 {
            6 => {
                let back = distance(rest).ok_or_else(malformed)?;
                offset.checked_sub(back).map(Some).ok_or_else(malformed)
            }
            7 => {
                let name = usize::try_from(self.name).ok().and_then(|name| rest.get(..name));
                let found = self.find(name.ok_or_else(malformed)?)?;
                found.map(Some).ok_or_else(malformed)
            }
            _ => Ok(None),
        }
    }
}

/// Parses the distance to a base.
fn distance(bytes: &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first()?;
    let (mut value, mut last) = (u64::from(first & 0x7f), *first);
    for byte in rest {
        if last & 0x80 == 0 {
            break;
        }
        value = (value.checked_add(1)?).checked_mul(128)? | u64::from(byte & 0x7f);
        last = *byte;
    }
    (last & 0x80 == 0).then_some(value)
}

fn number(file: &File, at: u64) -> io::Result<u32> {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, at)?;
    Ok(u32::from_be_bytes(bytes))
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a pack and its index")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_counted_as_far_as_it_matters() {
        let check = |bases: &[(u64, u64)], of: u64, expected: u32| {
            let bases: HashMap<_, _> = bases.iter().copied().collect();
            let base = |offset: u64| Ok(bases.get(&offset).copied());
            let depths = &mut HashMap::new();
            assert_eq!(depth(of, 50, depths, &base).unwrap(), expected, "{of} of {bases:?}");
            // Counted again, from cached depths.
            assert_eq!(depth(of, 50, depths, &base).unwrap(), expected, "{of} of {bases:?}");
        };
        check(&[], 12, 0);
        check(&[(90, 12), (99, 12)], 99, 1);
        // A base may come after its delta.
        check(&[(12, 90), (90, 99)], 12, 2);
        let long: Vec<_> = (1..1000).map(|at| (at, at - 1)).collect();
        check(&long, 50, 50);
        check(&long, 999, 51);
        check(&[(1, 2), (2, 1)], 1, 51);
    }

    #[test]
    fn the_end_of_a_long_chain_is_deep_also_when_its_middle_was_looked_at_before() {
        let base = |offset: u64| Ok(offset.checked_sub(1));
        let depths = &mut HashMap::new();
        for (offset, is_deep) in [(10, false), (40, false), (60, true), (50, false), (90, true)] {
            assert_eq!(depth(offset, 50, depths, &base).unwrap() > 50, is_deep, "{offset}");
        }
    }

    #[test]
    fn a_distance_is_read_as_git_writes_it() {
        for (bytes, expected) in [
            (&[0x00][..], Some(0)),
            (&[0x7f], Some(127)),
            (&[0x80, 0x00], Some(128)),
            (&[0x81, 0x00, 0x55], Some(256)),
            (&[0x80], None),
            (&[], None),
            (&[0xff; 30], None),
        ] {
            assert_eq!(distance(bytes), expected, "{bytes:?}");
        }
    }
}
