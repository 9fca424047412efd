//! The URLs of the dashboard's pages.

use crate::{Section, text::encoded};

/// The subject of a page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A sandbox by its id, with its current run.
    Sandbox(String),
    /// A run by its id, even if its sandbox is gone.
    Run(String),
}

/// A page about a sandbox or a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Its first page.
    Start,
    Section(Section),
    /// One record by its id; a trace by its own id.
    Record(Section, String),
    /// What the agent changed.
    Changes,
    /// The databases of the room.
    Data,
    /// The log of a service.
    Log(String),
    /// The summary of the run.
    Summary,
    /// The terminals of the room, and the command whose terminal is shown.
    Terminal(Option<String>),
    /// A file of the run, relative to its folder.
    File(String),
}

/// A page of the dashboard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    Overview,
    /// What waits for the user.
    Inbox,
    /// All runs, including those of deleted sandboxes.
    Runs,
    /// Runs side by side.
    Compare,
    Races,
    Of(Subject, Part),
}

impl Place {
    /// Parses the path of a URL.
    pub fn read(path: &str) -> Option<Self> {
        match path {
            "/" => return Some(Self::Overview),
            "/inbox" => return Some(Self::Inbox),
            "/runs" => return Some(Self::Runs),
            "/compare" => return Some(Self::Compare),
            "/races" => return Some(Self::Races),
            _ => {}
        }
        let (what, rest) = path.strip_prefix('/')?.split_once('/')?;
        let (id, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let id = decoded(id).filter(|id| !id.is_empty())?;
        let subject = match what {
            "sandbox" => Subject::Sandbox(id),
            "run" => Subject::Run(id),
            _ => return None,
        };
        let part = part(rest)?;
        let fits = !part.needs_sandbox() || matches!(subject, Subject::Sandbox(_));
        fits.then_some(Self::Of(subject, part))
    }

    /// Returns its path.
    pub fn path(&self) -> String {
        match self {
            Self::Overview => "/".to_owned(),
            Self::Inbox => "/inbox".to_owned(),
            Self::Runs => "/runs".to_owned(),
            Self::Compare => "/compare".to_owned(),
            Self::Races => "/races".to_owned(),
            Self::Of(subject, part) => format!("{}{}", subject.path(), part.path()),
        }
    }
}

impl Subject {
    /// Returns the path of its first page.
    pub fn path(&self) -> String {
        match self {
            Self::Sandbox(id) => format!("/sandbox/{}", encoded(id)),
            Self::Run(id) => format!("/run/{}", encoded(id)),
        }
    }
}

impl Part {
    /// Returns whether it needs a sandbox, because its content is not part of a run.
    pub fn needs_sandbox(&self) -> bool {
        match self {
            Self::Changes | Self::Data | Self::Log(_) | Self::Terminal(_) => true,
            Self::Section(section) | Self::Record(section, _) => section.needs_sandbox(),
            Self::Start | Self::Summary | Self::File(_) => false,
        }
    }

    /// Returns whether it is the same kind of page, whatever terminal it shows.
    pub fn is_like(&self, other: &Self) -> bool {
        self == other || matches!((self, other), (Self::Terminal(_), Self::Terminal(_)))
    }

    fn path(&self) -> String {
        match self {
            Self::Start => String::new(),
            Self::Section(section) => format!("/{}", section.word()),
            Self::Record(section, id) => format!("/{}/{}", section.word(), encoded(id)),
            Self::Changes => "/changes".to_owned(),
            Self::Data => "/data".to_owned(),
            Self::Log(service) => format!("/log/{}", encoded(service)),
            Self::Summary => "/summary".to_owned(),
            Self::Terminal(None) => "/terminal".to_owned(),
            Self::Terminal(Some(exec)) => format!("/terminal/{}", encoded(exec)),
            Self::File(file) => {
                let parts: Vec<String> = file.split('/').map(encoded).collect();
                format!("/file/{}", parts.join("/"))
            }
        }
    }
}

fn part(rest: &str) -> Option<Part> {
    let (first, second) = match rest.split_once('/') {
        Some((first, second)) => (first, Some(second)),
        None => (rest, None),
    };
    match (first, second) {
        ("", None) => Some(Part::Start),
        ("changes", None) => Some(Part::Changes),
        ("data", None) => Some(Part::Data),
        ("summary", None) => Some(Part::Summary),
        ("terminal", None) => Some(Part::Terminal(None)),
        ("log", Some(service)) => {
            let service = decoded(service).filter(|name| is_plain(name) && !name.contains('/'))?;
            Some(Part::Log(service))
        }
        ("terminal", Some(exec)) => {
            let exec = decoded(exec).filter(|exec| is_plain(exec) && !exec.contains('/'))?;
            Some(Part::Terminal(Some(exec)))
        }
        ("file", Some(file)) => decoded(file).filter(|file| is_plain(file)).map(Part::File),
        (word, None) => Section::read(word).map(Part::Section),
        (word, Some(id)) => {
            let id = decoded(id).filter(|id| is_plain(id) && !id.contains('/'))?;
            Section::read(word).map(|section| Part::Record(section, id))
        }
    }
}

/// Returns whether a path has no special parts, such as `..`.
fn is_plain(path: &str) -> bool {
    !path.contains(['\\', '\0'])
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Decodes a percent-encoded text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let code = digit(rest.next())? * 16 + digit(rest.next())?;
                u8::try_from(code).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_back_to_its_page() {
        let sandbox = || Subject::Sandbox("acme/a b".into());
        for place in [
            Place::Overview,
            Place::Inbox,
            Place::Runs,
            Place::Compare,
            Place::Races,
            Place::Of(sandbox(), Part::Data),
            Place::Of(Subject::Run("run_1".into()), Part::Summary),
            Place::Of(sandbox(), Part::Start),
            Place::Of(sandbox(), Part::Changes),
            Place::Of(sandbox(), Part::Log("web".into())),
            Place::Of(sandbox(), Part::Terminal(None)),
            Place::Of(sandbox(), Part::Terminal(Some("agent-1".into()))),
            Place::Of(sandbox(), Part::Section(Section::Mail)),
            Place::Of(sandbox(), Part::Section(Section::Snapshots)),
            Place::Of(Subject::Run("run_1".into()), Part::Record(Section::Mail, "mail_1".into())),
            Place::Of(Subject::Run("run_1".into()), Part::File("browser/page 1.png".into())),
        ] {
            assert_eq!(Place::read(&place.path()), Some(place.clone()), "{}", place.path());
        }
    }

    #[test]
    fn an_address_that_leads_elsewhere_is_not_a_page() {
        for path in [
            "",
            "//",
            "/x",
            "/sandbox",
            "/sandbox/",
            "/sandbox//mail",
            "/sandbox/a/mial",
            "/sandbox/a/file/../env.sh",
            "/sandbox/a/file/x/%2e%2e/env.sh",
            "/sandbox/a/file//etc/passwd",
            "/sandbox/a/file/",
            "/sandbox/a/mail/%2e%2e",
            "/sandbox/a/mail/x/y",
            "/sandbox/%ff",
            "/sandbox/%2",
            "/run/r/changes",
            "/run/r/terminal",
            "/run/r/snapshots",
            "/run/r/data",
        ] {
            assert_eq!(Place::read(path), None, "{path}");
        }
    }
}
