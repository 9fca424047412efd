//! Makes package installation work in a room: apt and dpkg files that not every user of the host
//! may read, and wrappers for some of the host's programs.

use super::write::Job;
use hothouse_host::files;
use hothouse_host::ids::Mode;
use hothouse_host::system_error::{Context, SystemError};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The program that dpkg runs before it unpacks.
const HOOK: &str = "usr/lib/hothouse/dpkg-copy-up";

/// Host files that a package replaces have an owner that is not mapped in the room, so dpkg may not
/// create its backup hard link to them. The hook copies them up first.
const HOOK_SCRIPT: &str = include_str!("dpkg-copy-up.sh");

/// Programs in `/usr/bin` that room-init replaces, because the room's seccomp filter would refuse
/// the setuid and setgid bits that packages request, each with its package. The host's programs
/// move to `/usr/lib/hothouse`.
const STAND_INS: [(&str, &str); 4] = [
    ("dpkg-deb", "dpkg"),
    ("dpkg-statoverride", "dpkg"),
    ("chmod", "coreutils"),
    ("install", "coreutils"),
];

const DIVERSIONS: &str = "var/lib/dpkg/diversions";
const OVERRIDES: &str = "var/lib/dpkg/statoverride";

/// The size limit of a program.
const PROGRAM: u64 = 16 << 20;

impl Job<'_> {
    pub(super) fn write_package_files(&self) -> Result<(), SystemError> {
        for name in [
            "var/lib/dpkg/lock",
            "var/lib/dpkg/lock-frontend",
            "var/lib/apt/lists/lock",
            "var/cache/apt/archives/lock",
        ] {
            self.file(name, b"", 0o640)?;
        }
        for (name, mode) in [
            ("var/lib/apt/lists/partial", 0o700),
            ("var/cache/apt/archives/partial", 0o700),
            ("var/tmp", 0o1777),
            ("var/log/apt", 0o755),
        ] {
            let path = self.fresh.join(name);
            self.parents(&path.join("x"))?;
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode))
                .context_at("set the mode of", path)?;
        }
        self.write_stand_ins()?;
        self.file(HOOK, HOOK_SCRIPT.as_bytes(), 0o755)?;
        self.file(
            "etc/dpkg/dpkg.cfg.d/hothouse",
            format!("pre-invoke=/{HOOK}\n").as_bytes(),
            0o644,
        )?;
        if self.mode == Mode::Single {
            self.file("etc/apt/apt.conf.d/99hothouse", b"APT::Sandbox::User \"root\";\n", 0o644)?;
        }
        Ok(())
    }

    /// Does nothing if the host has no dpkg.
    fn write_stand_ins(&self) -> Result<(), SystemError> {
        if !Path::new("/usr/bin/dpkg-deb").exists() {
            return Ok(());
        }
        let mut diversions = self.known(DIVERSIONS);
        for (name, package) in STAND_INS {
            let Ok(real) = files::read_capped(&Path::new("/usr/bin").join(name), PROGRAM) else {
                continue;
            };
            self.file(&format!("usr/lib/hothouse/{name}"), &real, 0o755)?;
            self.file(&format!("usr/bin/{name}"), self.init, 0o755)?;
            let list = format!("/var/lib/dpkg/info/{package}.list");
            let list = files::read_text(Path::new(&list)).unwrap_or_default();
            diversions = with_diversion(diversions, name, &list);
        }
        self.file(DIVERSIONS, diversions.as_bytes(), 0o644)?;
        self.file(OVERRIDES, plain_overrides(&self.known(OVERRIDES)).as_bytes(), 0o644)
    }

    /// Reads a file copied from the host; returns an empty text if there is none.
    fn known(&self, name: &str) -> String {
        files::read_text(&self.fresh.join(name)).unwrap_or_default()
    }
}

/// Registers a diversion with dpkg, so that an upgrade replaces the diverted original. Some
/// packages list their programs below `/bin` until they use merged `/usr`.
fn with_diversion(known: String, name: &str, list: &str) -> String {
    let old = format!("/bin/{name}");
    let from = if list.lines().any(|line| line == old) { old } else { format!("/usr/bin/{name}") };
    let lines: Vec<&str> = known.lines().collect();
    if lines.chunks(3).any(|entry| entry.first() == Some(&from.as_str())) {
        return known;
    }
    format!("{known}{from}\n/usr/lib/hothouse/{name}\nhothouse\n")
}

/// Removes special bits from the modes that dpkg assigns to package files.
fn plain_overrides(known: &str) -> String {
    let plain = |line: &str| {
        let mut words: Vec<&str> = line.splitn(4, ' ').collect();
        let mode = words.get(2).and_then(|mode| u32::from_str_radix(mode, 8).ok());
        let mode = mode.map(|mode| format!("{:o}", mode & 0o1777));
        if let Some(mode) = &mode {
            words[2] = mode;
        }
        words.join(" ") + "\n"
    };
    known.lines().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_in_is_a_diversion_once() {
        let own = "/bin/sh\n/bin/sh.distrib\ndash\n".to_owned();
        let one = with_diversion(own.clone(), "chmod", "/.\n/bin\n/bin/chmod\n");
        assert_eq!(one, format!("{own}/bin/chmod\n/usr/lib/hothouse/chmod\nhothouse\n"));
        assert_eq!(with_diversion(one.clone(), "chmod", "/bin/chmod\n"), one);
        let merged = with_diversion(String::new(), "chmod", "/usr/bin/chmod\n");
        assert_eq!(merged, "/usr/bin/chmod\n/usr/lib/hothouse/chmod\nhothouse\n");
    }

    #[test]
    fn overrides_lose_their_special_bits_only() {
        let known = "root messagebus 4754 /usr/lib/a b\nroot root 1777 /x\nredis redis 640 /y\n";
        let plain = "root messagebus 754 /usr/lib/a b\nroot root 1777 /x\nredis redis 640 /y\n";
        assert_eq!(plain_overrides(known), plain);
        assert_eq!(plain_overrides(""), "");
    }
}
