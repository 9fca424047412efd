//! Adds our own CA to the certificate stores of this host, or removes it.
//!
//! Each store is found, changed or explained. Nothing here prompts the user.

use std::path::{Path, PathBuf};

use crate::{FileError, Program, files, process};

/// The system's folder for additional CAs (Debian and its derivatives), and the program that
/// applies it.
const SYSTEM_FOLDER: &str = "/usr/local/share/ca-certificates";
const SYSTEM_UPDATE: &str = "update-ca-certificates";

/// The file name in the system's folder, and the nickname in browser stores.
const NAME: &str = "hothouse-local-urls";

/// What to do with the CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Trust,
    Forget,
}

/// A certificate store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The system's store, used by curl, Python, Go and many others.
    System,
    /// A browser's NSS store: a folder with `cert9.db`.
    Nss(PathBuf),
}

/// The outcome for one store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Nothing had to be changed.
    Already,
    /// Permissions or a program are missing; these commands do it.
    ByHand {
        why: String,
        commands: Vec<String>,
    },
}

/// A store that could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("run {program}")]
    Run {
        program: &'static str,
        #[source]
        source: crate::command::RunError,
    },
}

/// Finds a user's stores: the system's, and those of the browsers below the home.
pub fn places(home: &Path) -> Vec<Place> {
    let shared = home.join(".pki/nssdb");
    let firefox = [".mozilla/firefox", "snap/firefox/common/.mozilla/firefox"];
    let profiles =
        firefox.iter().flat_map(|folder| files::list(&home.join(folder)).unwrap_or_default());
    let profiles = profiles.filter(|folder| files::exists(&folder.join("cert9.db")));
    let browsers = std::iter::once(shared).chain(profiles).map(Place::Nss);
    std::iter::once(Place::System).chain(browsers).collect()
}

/// Makes a store trust the CA in a certificate file, or distrust it.
pub fn apply(place: &Place, certificate: &Path, wish: Wish) -> Result<Outcome, TrustError> {
    match place {
        Place::System => system(certificate, wish),
        Place::Nss(folder) => nss(folder, certificate, wish),
    }
}

impl Place {
    /// Returns the name of the place.
    pub fn shown(&self) -> String {
        match self {
            Self::System => "the system's certificates".to_owned(),
            Self::Nss(folder) => format!("browsers ({})", folder.display()),
        }
    }
}

fn system(certificate: &Path, wish: Wish) -> Result<Outcome, TrustError> {
    let file = Path::new(SYSTEM_FOLDER).join(format!("{NAME}.crt"));
    let wanted = files::read_text(certificate)?;
    let there = files::read_text(&file).ok();
    if wish == Wish::Trust && there.as_deref() == Some(wanted.as_str())
        || wish == Wish::Forget && there.is_none()
    {
        return Ok(Outcome::Already);
    }
    let (change, update) = match wish {
        Wish::Trust => {
            (format!("cp {} {}", certificate.display(), file.display()), SYSTEM_UPDATE.to_owned())
        }
        Wish::Forget => (format!("rm {}", file.display()), format!("{SYSTEM_UPDATE} --fresh")),
    };
    if !has(SYSTEM_UPDATE) {
        let why = format!("{SYSTEM_UPDATE} is missing; install the package ca-certificates");
        return Ok(Outcome::ByHand { why, commands: Vec::new() });
    }
    if !process::is_root() {
        let commands = [change, update].map(|command| format!("sudo {command}")).to_vec();
        return Ok(Outcome::ByHand { why: "needs root".to_owned(), commands });
    }
    let program = match wish {
        Wish::Trust => {
            files::make_folder(Path::new(SYSTEM_FOLDER))?;
            files::replace(&file, wanted.as_bytes(), 0o644)?;
            Program::new(SYSTEM_UPDATE)
        }
        Wish::Forget => {
            files::remove_file(&file)?;
            Program::new(SYSTEM_UPDATE).arg("--fresh")
        }
    };
    ran(program, SYSTEM_UPDATE)
}

fn nss(folder: &Path, certificate: &Path, wish: Wish) -> Result<Outcome, TrustError> {
    let store = format!("sql:{}", folder.display());
    let exists = files::exists(&folder.join("cert9.db"));
    if wish == Wish::Forget && !exists {
        return Ok(Outcome::Already);
    }
    let words: Vec<String> = match wish {
        Wish::Trust => {
            let file = certificate.display().to_string();
            ["-d", &store, "-A", "-t", "C,,", "-n", NAME, "-i", &file].map(str::to_owned).to_vec()
        }
        Wish::Forget => ["-d", &store, "-D", "-n", NAME].map(str::to_owned).to_vec(),
    };
    if !has("certutil") {
        let commands = vec![format!("certutil {}", words.join(" "))];
        let why = "certutil is missing; install the package libnss3-tools".to_owned();
        return Ok(Outcome::ByHand { why, commands });
    }
    let run = |words: &[String]| Program::new("certutil").args(words).run();
    let failed = |source| TrustError::Run { program: "certutil", source };
    if !exists {
        files::make_private_folder(folder)?;
        let new = ["-d", &store, "-N", "--empty-password"].map(str::to_owned);
        ran(Program::new("certutil").args(&new), "certutil")?;
    }
    let listed = ["-d", &store, "-L", "-n", NAME, "-a"].map(str::to_owned);
    let there = run(&listed).map_err(failed)?;
    match (wish, there.status.success()) {
        (Wish::Forget, false) => return Ok(Outcome::Already),
        (Wish::Trust, true) => {
            if same_certificate(&there.stdout, files::read_text(certificate)?.as_bytes()) {
                return Ok(Outcome::Already);
            }
            // An earlier CA of ours, whose key no longer exists. A nickname must be unique.
            let forget = ["-d", &store, "-D", "-n", NAME].map(str::to_owned);
            ran(Program::new("certutil").args(&forget), "certutil")?;
        }
        _ => {}
    }
    ran(Program::new("certutil").args(&words), "certutil")
}

/// Compares two certificates as text, ignoring line endings.
fn same_certificate(one: &[u8], two: &[u8]) -> bool {
    let plain = |bytes: &[u8]| {
        bytes.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect::<Vec<_>>()
    };
    plain(one) == plain(two)
}

fn has(program: &str) -> bool {
    let folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    folders.iter().any(|folder| files::exists(&Path::new(folder).join(program)))
}

fn ran(program: Program, name: &'static str) -> Result<Outcome, TrustError> {
    program
        .output()
        .map(|_| Outcome::Done)
        .map_err(|source| TrustError::Run { program: name, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_compared_by_what_they_say() {
        assert!(same_certificate(b"-----A\r\nab\r\ncd\r\n", b"-----A\nabcd\n"));
        assert!(!same_certificate(b"ab", b"ac"));
    }
}
