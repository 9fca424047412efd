//! `dpkg-deb` in the room: it runs the host's program, but unpacks no setuid or setgid bits.
//!
//! The room's seccomp filter refuses such modes, and dpkg fails on a package that has one. So they are
//! removed from the tar stream between `dpkg-deb --fsys-tarfile` and dpkg. Under `no_new_privs` they
//! would have no effect anyway.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

/// The path of the host's program in the room.
const REAL: &str = "/usr/lib/hothouse/dpkg-deb";

const BLOCK: usize = 512;
const MODE: std::ops::Range<usize> = 100..108;
const SIZE: std::ops::Range<usize> = 124..136;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const SPECIAL: u64 = 0o6000;

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    #[expect(clippy::disallowed_methods, reason = "a program of the room, run in the room")]
    let mut real = Command::new(REAL);
    real.args(&arguments);
    if !arguments.iter().any(|argument| argument == "--fsys-tarfile") {
        return failed(&real.exec());
    }
    match filtered(real.stdout(Stdio::piped())) {
        Ok(code) => ExitCode::from(code),
        Err(error) => failed(&error),
    }
}

fn failed(error: &io::Error) -> ExitCode {
    // dpkg closed the pipe and has printed the reason.
    if error.kind() == io::ErrorKind::BrokenPipe {
        return ExitCode::from(2);
    }
    // If stderr is closed, the error cannot be reported.
    let _ = writeln!(io::stderr(), "dpkg-deb: {error}");
    ExitCode::from(2)
}

fn filtered(real: &mut Command) -> io::Result<u8> {
    let mut child = real.spawn()?;
    let outlet = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let copied = copy(io::BufReader::with_capacity(64 << 10, outlet), io::stdout().lock());
    let status = child.wait()?;
    copied?;
    Ok(status.code().map_or(2, |code| u8::try_from(code).unwrap_or(2)))
}

/// Copies an archive, entry by entry, without special modes.
fn copy(mut from: impl Read, to: impl Write) -> io::Result<()> {
    let mut to = io::BufWriter::with_capacity(64 << 10, to);
    let mut block = [0; BLOCK];
    while fill(&mut from, &mut block)? {
        let content = match size(&block) {
            Some(size) if block != [0; BLOCK] => {
                plain(&mut block);
                size.div_ceil(BLOCK as u64) * BLOCK as u64
            }
            // The end, or an unknown header: passed on unchanged, and dpkg checks it.
            _ => 0,
        };
        to.write_all(&block)?;
        let passed = io::copy(&mut (&mut from).take(content), &mut to)?;
        if passed < content {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    to.flush()
}

/// Reads a whole block; returns false at the end.
fn fill(from: &mut impl Read, block: &mut [u8; BLOCK]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < BLOCK {
        match from.read(&mut block[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Removes the special bits from a header and updates its checksum.
fn plain(header: &mut [u8; BLOCK]) {
    let Some(mode) = octal(&header[MODE]).filter(|mode| mode & SPECIAL != 0) else { return };
    header[MODE].copy_from_slice(format!("{:07o}\0", mode & !SPECIAL & 0o777_7777).as_bytes());
    header[CHECKSUM].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    u64::from_str_radix(text, 8).ok()
}

/// Returns the length of the content after a header: octal, or binary if it does not fit.
fn size(header: &[u8; BLOCK]) -> Option<u64> {
    let field = &header[SIZE];
    if field[0] & 0x80 == 0 {
        return octal(field);
    }
    let (high, low) = field.split_at(4);
    let is_small = high[0] == 0x80 && high[1..].iter().all(|byte| *byte == 0);
    is_small.then(|| low.try_into().map(u64::from_be_bytes).ok())?.filter(|size| *size < 1 << 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, mode: u32, size: u32) -> [u8; BLOCK] {
        let mut header = [0; BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[MODE].copy_from_slice(format!("{mode:07o}\0").as_bytes());
        header[SIZE].copy_from_slice(format!("{size:011o}\0").as_bytes());
        header
    }

    fn copied(archive: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        copy(archive, &mut out).map(|()| out)
    }

    #[test]
    fn special_modes_go_and_everything_else_stays() {
        let content = [[b'x'; BLOCK], header("not a header", 0o4755, 9)].concat();
        let archive = [&header("a", 0o4755, 1000)[..], &content, &[0; 1024]].concat();
        let out = copied(&archive).unwrap();
        assert_eq!(octal(&out[MODE]), Some(0o755));
        assert_eq!(out[BLOCK..], archive[BLOCK..], "content is not looked at");
        let sum = octal(&out[CHECKSUM]).unwrap();
        let mut header = out[..BLOCK].to_vec();
        header[CHECKSUM].fill(b' ');
        assert_eq!(sum, header.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        let sticky = [&self::header("tmp", 0o1777, 0)[..], &[0; 1024]].concat();
        assert_eq!(copied(&sticky).unwrap(), sticky);
    }

    #[test]
    fn an_archive_that_is_cut_off_is_an_error() {
        let archive = header("a", 0o644, 1000);
        assert!(copied(&archive).is_err());
        assert!(copied(&archive[..100]).is_err());
        assert!(copied(&[]).unwrap().is_empty());
    }
}
