//! File ACLs (acl(5)), as the kernel stores them in extended attributes.

use std::{io, os::fd::BorrowedFd};

use rustix::{fs::XattrFlags, io::Errno};

/// The ACL of a file or folder itself.
const ACCESS: &str = "system.posix_acl_access";
/// The ACL that new entries of a folder inherit.
const DEFAULT: &str = "system.posix_acl_default";

/// The version of the format (linux/posix_acl_xattr.h).
const VERSION: u32 = 2;
/// The id field of entries without a named user or group.
const NOBODY: u32 = u32::MAX;
/// The size of an entry: a tag, permissions and an id.
const ENTRY: usize = 8;

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP: u16 = 0x04;
const NAMED_GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

pub(super) const READ: u16 = 4;
pub(super) const WRITE: u16 = 2;
pub(super) const EXECUTE: u16 = 1;
const ALL: u16 = READ | WRITE | EXECUTE;

/// An ACL. Each entry is a tag, an id and permissions, in the order that the kernel requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List(Vec<(u16, u32, u16)>);

impl List {
    /// Returns the ACL equivalent to a mode.
    pub(super) fn of_mode(mode: u32) -> Self {
        let bits = |shift: u32| u16::try_from(mode >> shift & 7).unwrap_or_default();
        Self(vec![(OWNER, NOBODY, bits(6)), (GROUP, NOBODY, bits(3)), (OTHERS, NOBODY, bits(0))])
    }

    /// Returns the ACL of a file, derived from its mode if it has none.
    pub(super) fn access(of: BorrowedFd<'_>, mode: u32) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(64 << 10);
        match rustix::fs::fgetxattr(of, ACCESS, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(_) => Ok(Self::read(&bytes).unwrap_or_else(|| Self::of_mode(mode))),
            Err(Errno::NODATA | Errno::NOTSUP) => Ok(Self::of_mode(mode)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Grants permissions to one user, regardless of the mode.
    pub(super) fn with(mut self, user: u32, permissions: u16) -> Self {
        self.0.retain(|(tag, id, _)| (*tag, *id) != (USER, user) && *tag != MASK);
        self.0.push((USER, user, permissions));
        let masked = |tag: u16| [USER, GROUP, NAMED_GROUP].contains(&tag);
        let all =
            self.0.iter().filter(|(tag, ..)| masked(*tag)).fold(0, |all, (.., one)| all | one);
        self.0.push((MASK, NOBODY, all));
        self.0.sort_unstable();
        self
    }

    /// Sets the ACL of a file or folder.
    pub(super) fn set_access(&self, of: BorrowedFd<'_>) -> io::Result<()> {
        Ok(rustix::fs::fsetxattr(of, ACCESS, &self.write(), XattrFlags::empty())?)
    }

    /// Sets the ACL that new entries of a folder inherit.
    pub(super) fn set_default(&self, of: BorrowedFd<'_>) -> io::Result<()> {
        Ok(rustix::fs::fsetxattr(of, DEFAULT, &self.write(), XattrFlags::empty())?)
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for (tag, id, permissions) in &self.0 {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (version, entries) = bytes.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != VERSION || entries.len() % ENTRY != 0 {
            return None;
        }
        let read = |entry: &[u8]| {
            let [t, u, p, q, rest @ ..] = entry else { return None };
            let id = u32::from_le_bytes(rest.try_into().ok()?);
            Some((u16::from_le_bytes([*t, *u]), id, u16::from_le_bytes([*p, *q]) & ALL))
        };
        entries.chunks(ENTRY).map(read).collect::<Option<Vec<_>>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_user_widens_the_mask_and_nothing_else() {
        let list = List::of_mode(0o644).with(501, READ | WRITE);
        let expected = [
            (OWNER, NOBODY, 6),
            (USER, 501, 6),
            (GROUP, NOBODY, 4),
            (MASK, NOBODY, 6),
            (OTHERS, NOBODY, 4),
        ];
        assert_eq!(list.0, expected);
        assert_eq!(list.clone().with(501, READ | WRITE), list, "twice is once");
        assert_eq!(List::read(&list.write()), Some(list));
    }

    #[test]
    fn nonsense_is_no_list() {
        for bytes in [&b""[..], b"\x02\0\0\0abc", b"\x03\0\0\0", b"\x02\0\0\0\x01\0\x07\0\xff"] {
            assert_eq!(List::read(bytes), None, "{bytes:?}");
        }
    }
}
