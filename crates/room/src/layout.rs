//! Paths in the room's root, in its storage, and in a base layer.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// System folders whose only lower layer is a copy.
pub(super) const COPIED: [&str; 2] = ["etc", "var"];

/// System folders whose lower layer is the host's folder.
const SHARED: [&str; 2] = ["usr", "opt"];

/// Names at the root that are links into `/usr` on a system with merged `/usr`, and folders on an older one.
const MAYBE_LINKS: [&str; 7] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "libo32"];

/// The subfolder of a storage folder that belongs to the room's ids.
pub(super) const LAYERS: &str = "layers";

/// The part of the host's root folder that a room shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct System {
    /// Folders whose lower layer is the host's.
    pub(super) shared: Vec<String>,
    /// Links to create, with their targets.
    pub(super) links: Vec<(String, PathBuf)>,
}

/// Inspects the host's root.
pub(super) fn look() -> System {
    let mut system = System::default();
    for name in SHARED.iter().chain(&MAYBE_LINKS) {
        let path = Path::new("/").join(name);
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                if let Ok(target) = std::fs::read_link(&path) {
                    system.links.push(((*name).to_owned(), target));
                }
            }
            Ok(found) if found.is_dir() => system.shared.push((*name).to_owned()),
            _ => {}
        }
    }
    system
}

/// Returns the content of `/etc/hosts`.
pub(super) fn hosts(hostname: &str) -> String {
    format!(
        "127.0.0.1 localhost\n127.0.1.1 {hostname}\n::1 localhost ip6-localhost ip6-loopback\nff02::1 ip6-allnodes\nff02::2 ip6-allrouters\n"
    )
}

/// Marks the line of `/etc/hosts` that we manage.
const NAMES_MARK: &str = "# services, by hothouse";

/// Adds the names of services to `/etc/hosts`; keeps the room's own lines.
pub(super) fn with_names(known: &str, names: &[String]) -> String {
    let mut text = String::new();
    for line in known.lines().filter(|line| !line.ends_with(NAMES_MARK)) {
        text.push_str(line);
        text.push('\n');
    }
    if !names.is_empty() {
        let names = names.join(" ");
        text.push_str(&format!("127.0.0.1 {names} {NAMES_MARK}\n::1 {names} {NAMES_MARK}\n"));
    }
    text
}

/// The content of `/etc/resolv.conf`. DNS to any address is redirected to us.
pub(super) const RESOLVER: &str = "nameserver 127.0.0.1\noptions timeout:5 attempts:2\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_services_are_replaced_and_other_lines_stay() {
        let first = with_names("127.0.0.1 localhost\n10.0.0.1 mine\n", &["db".into()]);
        assert!(first.contains("127.0.0.1 db #") && first.contains("10.0.0.1 mine\n"), "{first}");
        let second = with_names(&first, &["api".into(), "web".into()]);
        assert!(second.contains("127.0.0.1 api web #") && !second.contains(" db "), "{second}");
        assert_eq!(with_names(&second, &[]), "127.0.0.1 localhost\n10.0.0.1 mine\n");
    }
}
