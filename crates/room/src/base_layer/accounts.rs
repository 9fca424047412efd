//! The accounts of a room: the host's system users, and `agent`.

use hothouse_host::ids::AGENT_ID;
use std::fmt::Write;

/// Generates `/etc/passwd` from the host's, without accounts that have the agent's name or uid and
/// without human users, whose names a room does not need.
pub(super) fn passwd(host: &str) -> String {
    let system = system_lines(host);
    let mut text = system.fold(String::new(), |text, line| text + line + "\n");
    writeln!(text, "agent:x:{AGENT_ID}:{AGENT_ID}:agent:/home/agent:/bin/bash")
        .expect("strings take all");
    text
}

/// Generates `/etc/group` in the same way; removed users are no longer members.
pub(super) fn group(host: &str) -> String {
    let mut text = String::new();
    for line in system_lines(host) {
        let kept = line.rsplit_once(':').map_or(line, |(kept, _)| kept);
        writeln!(text, "{kept}:").expect("strings take all");
    }
    writeln!(text, "agent:x:{AGENT_ID}:").expect("strings take all");
    text
}

fn system_lines(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter(|line| {
        let mut fields = line.split(':');
        let (name, id) = (
            fields.next().unwrap_or_default(),
            fields.nth(1).and_then(|id| id.parse::<u32>().ok()),
        );
        name != "agent" && id.is_some_and(|id| id < AGENT_ID || id == 65_534)
    })
}

/// Generates `/etc/shadow` for a passwd file: no account has a password.
pub(super) fn shadow(passwd: &str) -> String {
    names(passwd).map(|name| format!("{name}:*:19700:0:99999:7:::\n")).collect()
}

/// Generates `/etc/gshadow` for a group file.
pub(super) fn gshadow(group: &str) -> String {
    names(group).map(|name| format!("{name}:*::\n")).collect()
}

fn names(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter_map(|line| line.split(':').next()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/sh\n\
        bob:x:1001:1001::/home/bob:/bin/sh\nnobody:x:65534:65534:n:/:/x\nagent:x:77:77::/:/x\n";

    #[test]
    fn users_of_the_host_are_left_out_and_agent_is_there() {
        let made = passwd(PASSWD);
        let names: Vec<&str> = names(&made).collect();
        assert_eq!(names, ["root", "nobody", "agent"]);
        assert!(made.ends_with("agent:x:1000:1000:agent:/home/agent:/bin/bash\n"));
    }

    #[test]
    fn groups_lose_their_members() {
        assert_eq!(group("docker:x:998:ann,bob\nann:x:1000:\n"), "docker:x:998:\nagent:x:1000:\n");
    }

    #[test]
    fn nobody_has_a_password() {
        assert_eq!(shadow("root:x:0:0\n"), "root:*:19700:0:99999:7:::\n");
        assert_eq!(gshadow("adm:x:4:\n"), "adm:*::\n");
    }
}
