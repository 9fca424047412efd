//! The settings of a worktree's guard, as the text of a config file.
//!
//! They apply to the user's git, so what they replace still has to work: where one of the user's
//! programs would show or merge a file, git's built-in way does it.

use super::config::silencers;

/// The name of the file, in the admin folder of a worktree.
pub(crate) const GUARD_FILE: &str = "hothouse.config";

/// Settings against programs and repositories chosen by an agent's files.
const ALWAYS: [(&str, &str); 9] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    // Gitlinks that an index marks as skipped stay skipped.
    ("sparse.expectFilesOutsideOfPatterns", "true"),
    ("submodule.recurse", "false"),
    // No submodule has this path, so none is active.
    ("submodule.active", "hothouse-enters-no-submodule"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
];

/// Settings for a worktree that was given back, whose submodules an agent may have created.
const RELEASED: [(&str, &str); 2] =
    [("submodule.recurse", "false"), ("fetch.recurseSubmodules", "false")];

/// Shows a diff without one of the user's programs. Git passes seven arguments: the path, the old
/// file, its id and mode, and the same for the new file.
const PLAIN_DIFF: &str = r#"f() { diff -u -L "a/$1" -L "b/$1" -- "$2" "$5"; true; }; f"#;
/// Merges a file as git does without a driver.
const PLAIN_MERGE: &str = "git merge-file --marker-size=%L %A %O %B";

const HEAD: &str = "\
# Written by Hothouse: in a sandbox's folder, git runs no hooks, filters and drivers, and enters no
# submodules. An agent can write the files that these would run.
";

/// Settings for one worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guard(Vec<(String, String)>);

impl Guard {
    /// Returns the settings against everything that a config names.
    pub(crate) fn against<'a>(config: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let named = config.flat_map(|(key, value)| replacements(key, value));
        let mut settings: Vec<_> = fixed(&ALWAYS).chain(named).collect();
        settings.sort_unstable();
        settings.dedup();
        Self(settings)
    }

    /// Returns the settings that remain in a worktree that was given back.
    pub(crate) fn released() -> Self {
        Self(fixed(&RELEASED).collect())
    }

    /// Returns the text of a config file.
    pub(crate) fn text(&self) -> String {
        let sections = self.0.iter().map(|(key, value)| {
            let (section, rest) = key.split_once('.').unwrap_or((key, ""));
            let value = quoted(value);
            match rest.rsplit_once('.') {
                Some((name, variable)) => {
                    format!("[{section} {}]\n\t{variable} = {value}\n", quoted(name))
                }
                None => format!("[{section}]\n\t{rest} = {value}\n"),
            }
        });
        HEAD.to_owned() + &sections.collect::<String>()
    }
}

fn fixed(settings: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
}

/// Quotes a value or section name. Neither can contain a line end.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

/// Returns the settings that replace a key of the user's config.
fn replacements(key: &str, value: &str) -> Vec<(String, String)> {
    let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    if key == "diff.external" {
        let is_kept = is_one_program(value) || value == PLAIN_DIFF;
        return if is_kept { Vec::new() } else { vec![set(key, PLAIN_DIFF)] };
    }
    let parts =
        key.split_once('.').and_then(|(section, rest)| Some((section, rest.rsplit_once('.')?)));
    match parts {
        Some(("diff", (_, "command"))) => vec![set(key, PLAIN_DIFF)],
        Some(("diff", (name, "textconv"))) => {
            vec![set(key, "cat"), set(&format!("diff.{name}.cachetextconv"), "false")]
        }
        Some(("merge", (_, "driver"))) => vec![set(key, PLAIN_MERGE)],
        Some(("submodule", (_, "active"))) => vec![set(key, "false")],
        _ => silencers(key).into_iter().map(|(key, value)| (key, value.to_owned())).collect(),
    }
}

/// Whether a command is the name of a single program that is not searched for in the current
/// folder. Any other command may find a part of itself there: `./tool`, `python -m tool`, `npx tool`.
fn is_one_program(command: &str) -> bool {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_./+".contains(one);
    let is_found_elsewhere = !command.contains('/') || command.starts_with('/');
    !command.is_empty() && command.chars().all(is_plain) && is_found_elsewhere
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(key: &str, value: &str) -> Vec<String> {
        let all = replacements(key, value);
        all.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn what_a_config_names_is_replaced_by_what_git_does_itself() {
        let off = ["clean=", "smudge=", "process=", "required=false"];
        assert_eq!(named("filter.a.b.clean", "x"), off.map(|end| format!("filter.a.b.{end}")));
        assert_eq!(
            named("diff.pdf.textconv", "x"),
            ["diff.pdf.textconv=cat", "diff.pdf.cachetextconv=false"]
        );
        assert_eq!(named("diff.pdf.command", "x"), [format!("diff.pdf.command={PLAIN_DIFF}")]);
        assert_eq!(named("merge.po.driver", "x"), [format!("merge.po.driver={PLAIN_MERGE}")]);
        assert_eq!(named("submodule.n.active", "true"), ["submodule.n.active=false"]);
        for harmless in ["core.pager", "diff.renames", "merge.tool", "submodule.n.url", "x", ""] {
            assert_eq!(named(harmless, "x"), Vec::<String>::new(), "{harmless}");
        }
    }

    #[test]
    fn an_external_diff_stays_if_nothing_of_it_can_be_in_the_folder() {
        for kept in ["difft", "/usr/bin/difft", "git-split-diffs"] {
            assert_eq!(named("diff.external", kept), Vec::<String>::new(), "{kept}");
        }
        for replaced in ["", "./diff", "tools/diff", "python -m diff", "npx difft", "$DIFF", "a;b"]
        {
            assert_eq!(
                named("diff.external", replaced),
                [format!("diff.external={PLAIN_DIFF}")],
                "{replaced}"
            );
        }
    }

    #[test]
    fn a_guard_against_itself_is_the_same() {
        let config =
            [("filter.x.clean", "a"), ("diff.external", "npx a"), ("diff.d.textconv", "b")];
        let guard = Guard::against(config.into_iter());
        let both = config.iter().map(|(key, value)| (*key, *value));
        let both = both.chain(guard.0.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        assert_eq!(Guard::against(both), guard);
    }

    #[test]
    fn names_with_quotes_are_written_as_git_reads_them() {
        let text = Guard::against([(r#"filter.a"b\c.d.clean"#, "x")].into_iter()).text();
        assert!(text.contains("[filter \"a\\\"b\\\\c.d\"]\n\tclean = \"\"\n"), "{text}");
    }
}
