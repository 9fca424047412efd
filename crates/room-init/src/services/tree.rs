//! Which process descends from which, and which holds which socket, from `/proc`.

#![expect(clippy::disallowed_methods, reason = "hothouse_host is too large for room-init")]

use crate::sys;
use std::collections::BTreeSet;
use std::fs;

/// How often one attempt to kill a tree walks it.
const ROUNDS: usize = 16;

/// Returns the living processes below `root`, without `root` itself.
pub(super) fn below(root: i32) -> Vec<i32> {
    let all = processes();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(all.iter().filter(|process| process.parent == parent).map(|p| p.pid));
        at += 1;
    }
    found.remove(0);
    found.retain(|pid| all.iter().any(|process| process.pid == *pid && !process.zombie));
    found
}

/// Returns all processes of the room.
pub(super) fn all() -> Vec<i32> {
    processes().into_iter().map(|process| process.pid).collect()
}

/// Kills everything below `root`. All are stopped first, so that none forks meanwhile.
pub(super) fn kill_below(root: i32) {
    let mut stopped = BTreeSet::new();
    for _ in 0..ROUNDS {
        let new: Vec<i32> = below(root).into_iter().filter(|pid| stopped.insert(*pid)).collect();
        if new.is_empty() {
            break;
        }
        for pid in new {
            // It may have exited in the meantime.
            let _ = sys::kill(pid, libc::SIGSTOP);
        }
    }
    for pid in stopped {
        let _ = sys::kill(pid, libc::SIGKILL);
    }
}

struct Process {
    pid: i32,
    parent: i32,
    zombie: bool,
}

fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| parse_stat(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// Parses state and parent. The name before them is chosen by the process.
fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    Some(Process { pid, parent: fields.next()?.parse().ok()?, zombie })
}

/// Who listens on a port.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Listener {
    Nobody,
    /// One of the given processes.
    Own,
    Stranger,
}

/// Whether one of `pids` listens on a port.
pub(super) fn listener(port: u16, pids: &[i32]) -> Listener {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let inodes: Vec<u64> = tables
        .iter()
        .flat_map(|table| listening(&fs::read_to_string(table).unwrap_or_default(), port))
        .collect();
    if inodes.is_empty() {
        return Listener::Nobody;
    }
    match pids.iter().any(|pid| holds(*pid, &inodes)) {
        true => Listener::Own,
        false => Listener::Stranger,
    }
}

/// Returns the inodes of the sockets that listen on a port, of a table such as `/proc/net/tcp`.
fn listening(table: &str, port: u16) -> Vec<u64> {
    const LISTEN: &str = "0A";
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, own) = fields.get(1)?.rsplit_once(':')?;
        let fits = u16::from_str_radix(own, 16) == Ok(port) && *fields.get(3)? == LISTEN;
        fields.get(9)?.parse().ok().filter(|_| fits)
    };
    table.lines().skip(1).filter_map(inode).collect()
}

fn holds(pid: i32, inodes: &[u64]) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).any(|link| {
        let inode = link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']'));
        inode.and_then(|inode| inode.parse().ok()).is_some_and(|inode| inodes.contains(&inode))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let process = parse_stat(7, b"7 (a) R 1 (x) S 42 7 7 0").unwrap();
        assert_eq!((process.parent, process.zombie), (42, false));
        assert!(parse_stat(7, b"7 (a) Z 1 7").unwrap().zombie);
        assert!(parse_stat(7, b"7 a Z").is_none());
    }

    #[test]
    fn only_listeners_on_the_port_count() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
            0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 111 1\n\
            1: 0100007F:0BB8 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 222 1\n\
            2: 0100007F:0BB9 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 333 1\n";
        assert_eq!(listening(table, 3000), [111]);
        assert_eq!(listening(table, 1), [0_u64; 0]);
        assert_eq!(listening("garbage\n: : :\n", 3000), [0_u64; 0]);
    }

    #[test]
    fn a_socket_of_our_own_is_found() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(listener(port, &[own]), Listener::Own);
        assert_eq!(listener(port, &[]), Listener::Stranger);
    }
}
