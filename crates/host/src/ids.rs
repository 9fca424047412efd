//! Id maps: from the host to the wall, and from the wall to the room.

use crate::owners::Owner;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The uid and gid of `agent` in every room.
pub const AGENT_ID: u32 = 1000;

/// The agent's ids inside every room.
pub(crate) const AGENT_INSIDE: Owner = Owner { user: AGENT_ID, group: AGENT_ID };

/// The first host uid of rooms created by root.
pub const SHIFTED_BASE: u32 = 300_000;

/// How many ids a room has: 0 to 65534. Id 65534 must be mapped, or apt fails.
const ROOM_IDS: u32 = 65_535;

/// The id of room-init in the wall: the first one that is not mapped in the room.
pub const INIT_ID: u32 = ROOM_IDS;

/// The id of the host's user in an ordinary user's wall. It is not mapped in the room, so nobody in
/// the room, not even its root, has power over the user's own files.
pub(crate) const USER_ID: u32 = INIT_ID + 1;

/// The id that unmapped host processes appear to have in a namespace.
pub(crate) const OVERFLOW_ID: u32 = 65_534;

/// How ids are mapped, which depends on the user that runs us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Root on the host: a shifted range, idmapped mounts.
    Root,
    /// An ordinary user with ranges in `/etc/subuid`.
    Range,
    /// An ordinary user without ranges: one uid, no root in the room.
    Single,
}

/// Maps `count` ids, starting at `inside`, to those starting at `outside`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    pub(crate) inside: u32,
    pub(crate) outside: u32,
    pub(crate) count: u32,
}

/// A range of subordinate ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// Returns the wall's map for root: one shifted range, without the host's own root.
pub(crate) fn shifted(base: u32) -> Vec<Extent> {
    vec![Extent { inside: 0, outside: base, count: ROOM_IDS + 1 }]
}

/// Returns the wall's map for a user without ranges.
pub(crate) fn single(own: u32) -> Vec<Extent> {
    vec![Extent { inside: AGENT_ID, outside: own, count: 1 }]
}

/// Returns the wall's map for a user with ranges: all ids of the room are subordinate ids, followed
/// by the user's own id. `None` if the ranges are too small.
pub(crate) fn ranged(own: u32, ranges: &[Range]) -> Option<Vec<Extent>> {
    let mut map = take(&mut ranges.to_vec(), 0, INIT_ID + 1)?;
    map.push(Extent { inside: USER_ID, outside: own, count: 1 });
    Some(map)
}

/// Returns the same map for groups, except that the agent's group is the user's, through which the
/// user reaches the agent's files.
pub(crate) fn ranged_groups(own: u32, ranges: &[Range]) -> Option<Vec<Extent>> {
    let mut ranges = ranges.to_vec();
    let mut map = take(&mut ranges, 0, AGENT_ID)?;
    map.push(Extent { inside: AGENT_ID, outside: own, count: 1 });
    map.extend(take(&mut ranges, AGENT_ID + 1, INIT_ID - AGENT_ID)?);
    Some(map)
}

/// Translates an id inside to the host's id.
pub(crate) fn outside(map: &[Extent], id: u32) -> Option<u32> {
    let holds = |extent: &&Extent| (extent.inside..extent.inside + extent.count).contains(&id);
    map.iter().find(holds).map(|extent| extent.outside + (id - extent.inside))
}

fn take(ranges: &mut Vec<Range>, mut inside: u32, mut wanted: u32) -> Option<Vec<Extent>> {
    let mut extents = Vec::new();
    while wanted > 0 {
        let range = ranges.first_mut()?;
        let count = range.count.min(wanted);
        if count > 0 {
            extents.push(Extent { inside, outside: range.first, count });
        }
        range.first += count;
        range.count -= count;
        inside += count;
        wanted -= count;
        if range.count == 0 {
            ranges.remove(0);
        }
    }
    Some(extents)
}

/// Returns the room's map inside a wall: the same ids except room-init's. The extents match the
/// wall's, because the kernel refuses an extent that spans two of them.
pub fn nested(wall: &[Extent]) -> Vec<Extent> {
    let kept = wall.iter().filter(|extent| extent.inside < INIT_ID);
    kept.map(|extent| Extent {
        inside: extent.inside,
        outside: extent.inside,
        count: extent.count.min(INIT_ID - extent.inside),
    })
    .collect()
}

/// Returns the map of a worktree whose files belong to `owner` on disk: they appear as the agent's,
/// and files of others in the room keep their wall ids. If `owner` is already one of the room's
/// ids, the worktree needs no map; then root's files are mapped, for other shared trees.
pub(crate) fn worktree(owner: u32, base: u32) -> Vec<Extent> {
    let agent = base + AGENT_ID;
    let owner = if (base..=base + INIT_ID).contains(&owner) { 0 } else { owner };
    vec![
        Extent { inside: owner, outside: agent, count: 1 },
        Extent { inside: base, outside: base, count: AGENT_ID },
        Extent { inside: agent + 1, outside: agent + 1, count: INIT_ID - AGENT_ID },
    ]
}

/// Formats a map for `/proc/PID/uid_map`.
pub fn text(map: &[Extent]) -> String {
    map.iter().fold(String::new(), |mut text, extent| {
        writeln!(text, "{} {} {}", extent.inside, extent.outside, extent.count)
            .expect("writing to a string does not fail");
        text
    })
}

/// Parses a user's ranges from `/etc/subuid` or `/etc/subgid`.
pub(crate) fn subordinate(table: &str, name: &str, id: u32) -> Vec<Range> {
    let id = id.to_string();
    let lines = table.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let (owner, first, count) = (fields.next()?, fields.next()?, fields.next()?);
        if owner != name && owner != id {
            return None;
        }
        Some(Range { first: first.parse().ok()?, count: count.parse().ok()? })
    });
    lines
        .filter(|range| range.count > 0 && range.first.checked_add(range.count).is_some())
        .collect()
}

/// The daemon's uid as room-init sees it.
pub fn daemon_uid(mode: Mode) -> u32 {
    match mode {
        Mode::Root => OVERFLOW_ID,
        Mode::Range => USER_ID,
        Mode::Single => AGENT_ID,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_in_the_wall_and_not_in_the_room() {
        let map = ranged(501, &[Range { first: 100_000, count: 65_536 }]).unwrap();
        assert_eq!(text(&map), "0 100000 65536\n65536 501 1\n");
        assert_eq!(text(&nested(&map)), "0 0 65535\n");
        assert_eq!(outside(&map, AGENT_ID), Some(101_000));
        assert_eq!(outside(&map, USER_ID), Some(501));
        assert_eq!(outside(&map, USER_ID + 1), None);
    }

    #[test]
    fn the_agents_group_is_the_users() {
        let map = ranged_groups(501, &[Range { first: 100_000, count: 65_536 }]).unwrap();
        assert_eq!(text(&map), "0 100000 1000\n1000 501 1\n1001 101000 64535\n");
        assert_eq!(text(&nested(&map)), "0 0 1000\n1000 1000 1\n1001 1001 64534\n");
    }

    #[test]
    fn several_ranges_are_joined_and_the_nested_map_follows_them() {
        let ranges =
            [Range { first: 200_000, count: 500 }, Range { first: 300_000, count: 70_000 }];
        let map = ranged(501, &ranges).unwrap();
        assert_eq!(text(&map), "0 200000 500\n500 300000 65036\n65536 501 1\n");
        assert_eq!(text(&nested(&map)), "0 0 500\n500 500 65035\n");
        assert_eq!(outside(&map, AGENT_ID), Some(300_500));
    }

    #[test]
    fn too_small_a_range_is_none() {
        assert_eq!(ranged(501, &[Range { first: 100_000, count: 65_535 }]), None);
        assert_eq!(ranged(501, &[]), None);
    }

    #[test]
    fn the_hosts_root_is_in_no_map() {
        for map in
            [shifted(300_000), ranged(501, &[Range { first: 100_000, count: 65_536 }]).unwrap()]
        {
            assert!(map.iter().all(|extent| extent.outside > 0));
        }
    }

    #[test]
    fn room_init_has_an_id_that_the_room_lacks() {
        let wall = shifted(300_000);
        assert_eq!(text(&nested(&wall)), "0 0 65535\n");
        assert!(wall[0].count > INIT_ID);
        assert_eq!(text(&nested(&single(501))), "1000 1000 1\n");
    }

    #[test]
    fn a_roots_worktree_is_agents_and_never_the_rooms_roots() {
        assert_eq!(
            text(&worktree(0, 300_000)),
            "0 301000 1\n300000 300000 1000\n301001 301001 64535\n"
        );
        assert_eq!(worktree(301_000, 300_000), worktree(0, 300_000));
    }

    #[test]
    fn ranges_are_found_by_name_or_id_and_broken_lines_are_skipped() {
        let table = "bob:100:5\n# x\nann:200:7\n501:300:9\nann:oops:1\nann:4294967295:2\n";
        let found = subordinate(table, "ann", 501);
        assert_eq!(found, [Range { first: 200, count: 7 }, Range { first: 300, count: 9 }]);
    }
}
