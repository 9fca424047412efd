//! Versions that a repository requires: which of this host's matches, and what to report if none does.

use crate::{
    draft::{Draft, DraftWork},
    finding::{Findings, Pin},
    host::{HostFacts, numbers},
};

use super::{missing::propose, toolchains};

/// The version of a program in a stack, where it matters.
const STACK_VERSIONS: [(&str, &str); 1] = [("node", "22")];

/// Lines of Node by the codenames that `.nvmrc` may contain.
const CODENAMES: [(&str, u32); 4] =
    [("lts/hydrogen", 18), ("lts/iron", 20), ("lts/jod", 22), ("lts/krypton", 24)];

/// Chooses versions of toolchains, and reports mismatches.
pub(super) fn decide(found: &Findings, host: &HostFacts, draft: &mut Draft) {
    for pin in &found.pins {
        let Some(have) = host.versions.get(pin.program) else { continue };
        let wanted = Wanted::of(&pin.version);
        if wanted.is_met(pin.program, have) {
            continue;
        }
        if let Some((_, folder)) = chosen(host, pin, &wanted) {
            prefer(draft, folder);
            continue;
        }
        let is_node = pin.program == "node" && (!wanted.allows(have) || toolchains::is_chosen(pin));
        if is_node && toolchains::bring_node(host, pin, |have| wanted.is_met("node", have), draft) {
            continue;
        }
        if wanted.allows(have) {
            // Newer than the named version, which nearly always works; the caveat is for when it does not.
            draft.caveats.push(format!(
                "the repository names {} {} ({}:{}); this host has {have}, which is used",
                pin.program, pin.version, pin.evidence.file, pin.evidence.line
            ));
            continue;
        }
        let offered = STACK_VERSIONS.iter().find(|(program, _)| *program == pin.program);
        let fits = offered.is_some_and(|(_, version)| wanted.allows(version));
        if fits && propose(draft, pin.program, &pin.evidence) {
            continue;
        }
        let nearest = nearest(host, pin.program, have);
        let used = nearest.as_ref().map_or(have.as_str(), |(version, _)| version.as_str());
        let is_allowed = found
            .ranges
            .iter()
            .any(|range| range.program == pin.program && Wanted::of(&range.version).allows(used));
        let outlook =
            if is_allowed { "which its manifest allows" } else { "so installing may fail" };
        draft.caveats.push(format!(
            "the repository asks for {} {} ({}:{}); this host has {used}, {outlook}",
            pin.program, pin.version, pin.evidence.file, pin.evidence.line
        ));
        if is_allowed && pin.program == "python3" {
            tell_uv(draft, used);
        }
        if let Some((_, folder)) = nearest {
            prefer(draft, folder);
        }
    }
}

/// Tells uv which Python to use: it would download the named one even if another one is allowed.
fn tell_uv(draft: &mut Draft, version: &str) {
    let short = version.split('.').take(2).collect::<Vec<_>>().join(".");
    let told = |line: &str| line.replace("uv sync ", &format!("uv sync --python {short} "));
    draft.setup = draft.setup.as_deref().map(told);
    for service in &mut draft.services {
        let DraftWork::Run { run, .. } = &mut service.work else { continue };
        *run = told(run);
        if run.contains("uv run ") {
            service.env.insert("UV_PYTHON".to_owned(), short.clone());
        }
    }
}

/// Puts a folder first on the search path of rooms.
fn prefer(draft: &mut Draft, folder: String) {
    draft.tools.retain(|tool| tool != &folder);
    draft.tools.insert(0, folder);
}

/// Returns a matching version of a program that the user has besides the default, and what grants it: the named one, or
/// else the lowest one allowed.
fn chosen(host: &HostFacts, pin: &Pin, wanted: &Wanted) -> Option<(String, String)> {
    let mut all = host.installed.get(pin.program)?.clone();
    all.sort_by_key(|(version, _)| numbers(version));
    let is_named = matches!(wanted, Wanted::Named(_));
    let named = all.iter().rfind(|(version, _)| is_named && wanted.is_met(pin.program, version));
    let usual = host.versions.get(pin.program);
    // Python packages are built for a line of releases: the next one is closer than the default.
    let is_near = |version: &str| {
        is_named
            && pin.program == "python3"
            && usual.is_some_and(|have| numbers(version) < numbers(have))
    };
    let is_needed = usual.is_none_or(|have| !wanted.allows(have))
        || all.iter().any(|(version, _)| wanted.allows(version) && is_near(version));
    let allowed = || all.iter().find(|(version, _)| is_needed && wanted.allows(version));
    named.or_else(allowed).cloned()
}

/// Returns the newest version that the user has, if it is newer than the default.
fn nearest(host: &HostFacts, program: &str, have: &str) -> Option<(String, String)> {
    let all = host.installed.get(program)?;
    let newest = all.iter().max_by_key(|(version, _)| numbers(version))?;
    (numbers(&newest.0) > numbers(have)).then(|| newest.clone())
}

/// The requirement in a text such as `3.12`, `^20`, `>=3.9,<3.12` or `18 || 20`.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// One version, by its first numbers; later ones are expected to work.
    Named(Vec<u32>),
    /// Any of several ranges: a minimum, and an exclusive maximum.
    Within(Vec<(Vec<u32>, Option<Vec<u32>>)>),
    /// Not comparable, such as `lts/iron`.
    Anything,
}

impl Wanted {
    fn of(text: &str) -> Self {
        let text = text.trim();
        if let Some((_, line)) =
            CODENAMES.iter().find(|(name, _)| *name == text.to_ascii_lowercase())
        {
            return Self::Named(vec![*line]);
        }
        let bare = text.trim_start_matches(['v', '=']).trim_start_matches("python-");
        let is_plain = bare.starts_with(|c: char| c.is_ascii_digit())
            && !bare.contains(['|', ',', '<', '>', ' ', '*', 'x', '~', '^']);
        if is_plain {
            return Self::Named(leading(bare));
        }
        let ranges: Vec<_> = text.split("||").filter_map(range).collect();
        match ranges.is_empty() {
            true => Self::Anything,
            false => Self::Within(ranges),
        }
    }

    /// Whether a version is the required one. A named one matches its line of releases, which is the major version
    /// unless minor ones break things.
    fn is_met(&self, program: &str, version: &str) -> bool {
        match self {
            Self::Named(named) => {
                let depth = if matches!(program, "python3" | "ruby" | "php") { 2 } else { 1 };
                let (have, named) = (leading(version), &named[..named.len().min(depth)]);
                have.starts_with(named)
            }
            _ => self.allows(version),
        }
    }

    /// Whether a version can be expected to work.
    fn allows(&self, version: &str) -> bool {
        let have = leading(version);
        let is_below = |one: &[u32], other: &[u32]| {
            let shared = one.len().min(other.len()).min(2);
            one[..shared] < other[..shared]
        };
        match self {
            Self::Anything => true,
            Self::Named(least) => !is_below(&have, least),
            Self::Within(ranges) => ranges.iter().any(|(least, below)| {
                !is_below(&have, least)
                    && below.as_ref().is_none_or(|below| {
                        let shared = have.len().min(below.len());
                        have[..shared] < below[..shared]
                    })
            }),
        }
    }
}

/// Parses one range: comparisons that must all hold.
fn range(text: &str) -> Option<(Vec<u32>, Option<Vec<u32>>)> {
    let (mut least, mut below): (Option<Vec<u32>>, Option<Vec<u32>>) = (None, None);
    // `>= 18` is equivalent to `>=18`.
    let joined = [">=", "<=", ">", "<", "^", "~="]
        .iter()
        .fold(text.replace(',', " "), |text, sign| text.replace(&format!("{sign} "), sign));
    for part in joined.split_whitespace() {
        let digits = part.find(|c: char| c.is_ascii_digit())?;
        let (sign, version) = (part[..digits].trim_end_matches('v'), leading(&part[digits..]));
        let after = |at: usize| {
            let mut next: Vec<u32> = version.iter().copied().take(at + 1).collect();
            *next.last_mut()? += 1;
            Some(next)
        };
        match sign {
            ">=" | ">" => least = Some(version),
            "<" => below = Some(version),
            "<=" => below = after(version.len().saturating_sub(1)),
            "^" => (least, below) = (Some(version.clone()), after(0)),
            "~=" | "~" => {
                let at = if version.len() > 2 { 1 } else { 0 };
                (least, below) = (Some(version.clone()), after(at));
            }
            "" | "=" | "==" => {
                (least, below) = (Some(version.clone()), after(version.len().saturating_sub(1)))
            }
            "!=" => {}
            _ => return None,
        }
    }
    (least.is_some() || below.is_some()).then(|| (least.unwrap_or_default(), below))
}

/// Returns the numbers at the beginning of a text.
fn leading(text: &str) -> Vec<u32> {
    let text = text.trim_start_matches('v');
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].split('.').filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Evidence;

    fn pin(version: &str) -> Pin {
        let evidence = Evidence { file: ".python-version".into(), line: 1, fact: String::new() };
        Pin { program: "python3", version: version.into(), evidence }
    }

    fn drafted(version: &str) -> Draft {
        let mut host = HostFacts::default();
        host.versions.insert("python3".into(), "3.11.7".into());
        let known = ["3.8.18", "3.12.1", "3.13.0"]
            .map(|version| (version.to_owned(), format!("~/.pyenv/versions/{version}")));
        host.installed.insert("python3".into(), known.to_vec());
        let found = Findings { pins: vec![pin(version)], ..Findings::default() };
        let mut draft = Draft::default();
        decide(&found, &host, &mut draft);
        draft
    }

    #[test]
    fn the_version_that_a_repository_names_is_used_where_the_user_has_it() {
        for (wanted, tools, caveats) in [
            ("3.12", Some("3.12.1"), 0),
            ("python-3.8.10", Some("3.8.18"), 0),
            ("3.11.9", None, 0),
            // Not installed: the next one is the closest.
            ("3.7", Some("3.8.18"), 0),
            // Only newer ones than the default, which is close enough.
            ("3.9", None, 1),
            (">=3.10", None, 0),
            (">=3.12", Some("3.12.1"), 0),
            (">=3.8,<3.11", Some("3.8.18"), 0),
            // Not installed: the newest is the best guess.
            ("3.14", Some("3.13.0"), 1),
            ("==3.14.*", Some("3.13.0"), 1),
        ] {
            let draft = drafted(wanted);
            let shown = tools.map(|version| format!("~/.pyenv/versions/{version}"));
            assert_eq!(draft.tools.first(), shown.as_ref(), "{wanted}");
            assert_eq!(draft.caveats.len(), caveats, "{wanted}: {:?}", draft.caveats);
        }
    }

    #[test]
    fn ranges_are_understood() {
        for (have, wanted, expected) in [
            ("3.11.7", "3.12", false),
            ("3.11.7", "3.11", true),
            ("20.11.1", ">=18", true),
            ("20.11.1", ">= 18 < 20", false),
            ("20.11.1", "22.x", false),
            ("20.11.1", "20.x", true),
            ("20.11.1", "^18.0.0 || ^20.0.0", true),
            ("20.11.1", "lts/iron", true),
            ("20.11.1", "lts/jod", false),
            ("20.11.1", "lts/*", true),
            ("1.22", "1.21.0", true),
            ("22", "22.21.0", true),
            ("3.11.7", "~=3.10.2", false),
            ("3.11.7", ">=3.8,!=3.9.0,<4.0", true),
            ("3.11.7", "<=3.11", true),
        ] {
            assert_eq!(Wanted::of(wanted).allows(have), expected, "{have} {wanted}");
        }
    }
}
