//! The environment of commands in a room: nothing of the caller's comes along.

use hothouse_host::room::wire::RoomUser;
use hothouse_model::SandboxRecord;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the whole environment, as `NAME=value`.
pub(crate) fn of(sandbox: &SandboxRecord, user: RoomUser, terminal: Option<&str>) -> Vec<Vec<u8>> {
    let (name, home) = match user {
        RoomUser::Agent => ("agent", "/home/agent"),
        RoomUser::Root => ("root", "/root"),
    };
    let mut all = vec![
        ("PATH", format!("{home}/.local/bin:{PATH}")),
        ("HOME", home.to_owned()),
        ("USER", name.to_owned()),
        ("LOGNAME", name.to_owned()),
        ("SHELL", "/bin/bash".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        ("HOTHOUSE_SANDBOX", sandbox.name.to_string()),
        ("HOTHOUSE_ID", sandbox.id.to_string()),
    ];
    if let Some(room) = &sandbox.room {
        all.push(("HOTHOUSE_RUN", room.run.id.clone()));
    }
    if let Some(kind) = terminal {
        all.push(("TERM", kind.to_owned()));
    }
    all.into_iter().map(|(name, value)| format!("{name}={value}").into_bytes()).collect()
}
