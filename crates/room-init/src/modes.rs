//! `chmod`, `install` and `dpkg-statoverride` in the room: they run the host's programs, but drop
//! setuid and setgid bits for the room's root.
//!
//! The room's seccomp filter refuses such modes. Maintainer scripts of packages and start scripts of
//! services set them anyway, as root, and fail when refused, although the bits have no effect under
//! `no_new_privs`. So they are dropped for root. Other users set them only to use them, and get the
//! kernel's error.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Where the host's own programs are.
const REAL: &str = "/usr/lib/hothouse";

const SPECIAL: u32 = 0o6000;

/// A program with a mode argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Chmod,
    Install,
    StatOverride,
}

impl Tool {
    /// Returns the tool of this name.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"chmod" => Some(Self::Chmod),
            b"install" => Some(Self::Install),
            b"dpkg-statoverride" => Some(Self::StatOverride),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Chmod => "chmod",
            Self::Install => "install",
            Self::StatOverride => "dpkg-statoverride",
        }
    }
}

pub(crate) fn main(tool: Tool) -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if rustix::process::geteuid().is_root() {
        arguments = without_special_modes(tool, arguments);
    }
    #[expect(clippy::disallowed_methods, reason = "a program of the room, run in the room")]
    let mut real = Command::new(format!("{REAL}/{}", tool.name()));
    let error = real.arg0(tool.name()).args(arguments).exec();
    // If stderr is closed, the error cannot be reported.
    let _ = writeln!(io::stderr(), "{}: {error}", tool.name());
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Removes the special bits from the mode in argv.
fn without_special_modes(tool: Tool, arguments: Vec<OsString>) -> Vec<OsString> {
    let mut arguments: Vec<Vec<u8>> = arguments.into_iter().map(OsString::into_vec).collect();
    let found = match tool {
        Tool::Chmod => find_of_chmod(&arguments),
        Tool::Install => find_of_install(&arguments),
        Tool::StatOverride => find_of_override(&arguments),
    };
    if let Some((word, at)) = found {
        let mode = plain(tool, &arguments[word][at..]).into_owned();
        arguments[word].splice(at.., mode);
    }
    arguments.into_iter().map(OsString::from_vec).collect()
}

/// The position of the mode: the argument, and the byte in it at which the mode begins.
type Place = (usize, usize);

/// Finds the first argument that is not an option. One that begins with a dash may be a mode: `-x`.
fn find_of_chmod(arguments: &[Vec<u8>]) -> Option<Place> {
    for (at, word) in arguments.iter().enumerate() {
        match word.as_slice() {
            b"--" => return (at + 1 < arguments.len()).then_some((at + 1, 0)),
            // `--reference` takes the mode of another file, which the kernel checks.
            long if long.starts_with(b"--reference") => return None,
            long if long.starts_with(b"--") => {}
            [b'-', letters @ ..]
                if !letters.is_empty() && letters.iter().all(|it| b"cfvRhHLP".contains(it)) => {}
            _ => return Some((at, 0)),
        }
    }
    None
}

/// Finds the value of `-m` or `--mode`; the last one counts.
fn find_of_install(arguments: &[Vec<u8>]) -> Option<Place> {
    let mut found = None;
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        match word.as_slice() {
            b"--" => break,
            b"--mode" => {
                at += 1;
                found = Some((at, 0));
            }
            long if long.starts_with(b"--mode=") => found = Some((at, b"--mode=".len())),
            b"--group" | b"--owner" | b"--suffix" | b"--target-directory" => at += 1,
            long if long.starts_with(b"--") => {}
            [b'-', letters @ ..] => {
                // The first option with a value takes the rest of the argument, or the next one.
                if let Some(taker) = letters.iter().position(|it| b"gmoSt".contains(it)) {
                    let value = match taker + 1 < letters.len() {
                        true => (at, taker + 2),
                        false => (at + 1, 0),
                    };
                    if letters[taker] == b'm' {
                        found = Some(value);
                    }
                    at = value.0;
                }
            }
            _ => {}
        }
        at += 1;
    }
    found.filter(|(word, _)| *word < arguments.len())
}

/// Finds the third argument after `--add`: user, group, mode, file.
fn find_of_override(arguments: &[Vec<u8>]) -> Option<Place> {
    let add = arguments.iter().position(|word| word == b"--add")?;
    let words = arguments.iter().enumerate().skip(add + 1);
    words.filter(|(_, word)| !word.starts_with(b"--")).nth(2).map(|(at, _)| (at, 0))
}

/// Returns a mode without setuid and setgid bits.
///
/// With a plain number `chmod` keeps the special bits that a folder has, and passes them to the kernel.
/// A fifth digit, or a last clause, clears them.
fn plain(tool: Tool, mode: &[u8]) -> Cow<'_, [u8]> {
    let text = String::from_utf8_lossy(mode);
    let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    match u32::from_str_radix(&text, 8) {
        Ok(number) if is_number && number <= 0o7777 => {
            Cow::Owned(format!("{:05o}", number & !SPECIAL).into_bytes())
        }
        // The tool itself reports an invalid mode.
        _ if is_number || tool == Tool::StatOverride || !is_symbolic(&text) => Cow::Borrowed(mode),
        _ => Cow::Owned(format!("{},ug-s", without_adding(&text)).into_bytes()),
    }
}

fn is_symbolic(text: &str) -> bool {
    text.contains(['+', '-', '=']) && text.bytes().all(|it| b"ugoarwxXst+-=,01234567".contains(&it))
}

/// Drops each `s` that a clause would add or set.
fn without_adding(text: &str) -> String {
    let mut removes = false;
    let keep = |letter: &char| {
        match letter {
            '-' => removes = true,
            '+' | '=' | ',' => removes = false,
            _ => {}
        }
        *letter != 's' || removes
    };
    text.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn check(tool: Tool, line: &str, expected: &str) {
        let words = line.split(' ').map(OsString::from).collect();
        let words = without_special_modes(tool, words);
        assert_eq!(words.join(OsStr::new(" ")), expected, "{line}");
    }

    #[test]
    fn chmod_is_asked_for_no_special_bit() {
        for (line, expected) in [
            ("2775 /run/postgresql", "00775 /run/postgresql"),
            ("04755 a b", "00755 a b"),
            ("1777 /tmp", "01777 /tmp"),
            ("-R 755 d", "-R 00755 d"),
            ("-Rf --verbose 6711 d", "-Rf --verbose 00711 d"),
            ("u+s f", "u+,ug-s f"),
            ("u=rwxs,g+sx,o=t f", "u=rwx,g+x,o=t,ug-s f"),
            ("u-s f", "u-s,ug-s f"),
            ("-x f", "-x,ug-s f"),
            ("-- +x f", "-- +x,ug-s f"),
            ("--reference=a b", "--reference=a b"),
            ("nonsense f", "nonsense f"),
            ("99999 f", "99999 f"),
            ("--", "--"),
        ] {
            check(Tool::Chmod, line, expected);
        }
    }

    #[test]
    fn install_is_asked_for_no_special_bit_wherever_its_mode_stands() {
        for (line, expected) in [
            ("-d -m 2775 -o postgres -g postgres /r", "-d -m 00775 -o postgres -g postgres /r"),
            ("-dm2750 /r", "-dm00750 /r"),
            ("-Dm 4755 a b", "-Dm 00755 a b"),
            ("--mode=4755 a b", "--mode=00755 a b"),
            ("--mode u+s a b", "--mode u+,ug-s a b"),
            ("-o -m -m 644 a b", "-o -m -m 00644 a b"),
            ("-om 4755 b", "-om 4755 b"),
            ("a b", "a b"),
            ("a -- -m 4755", "a -- -m 4755"),
            ("a b -m", "a b -m"),
        ] {
            check(Tool::Install, line, expected);
        }
    }

    #[test]
    fn an_override_is_noted_without_special_bits() {
        for (line, expected) in [
            ("--update --add root crontab 2755 /x", "--update --add root crontab 00755 /x"),
            ("--add --force-all root root 4755 /x", "--add --force-all root root 00755 /x"),
            ("--list /x", "--list /x"),
            ("--add root", "--add root"),
        ] {
            check(Tool::StatOverride, line, expected);
        }
    }
}
