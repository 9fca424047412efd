//! Skills: short texts that tell an agent how to use Hothouse, with this version's commands. Pure.

use clap::Command;

use crate::{describe, tools};

/// One skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skill {
    pub(crate) name: &'static str,
    /// When to use it, in one sentence.
    pub(crate) about: &'static str,
    pub(crate) text: String,
}

/// A line of a skill: its purpose, and the command. Left out if the command does not exist.
type Line = (&'static str, &'static str);

/// Each skill: name, when to use it, an opening sentence, and the lines.
const SKILLS: [(&str, &str, &str, &[Line]); 5] = [
    (
        "status",
        "Use to find out which Hothouse sandbox you are in, what runs there, and at which URLs.",
        "A sandbox is your own copy of the repository with its services running. Look before you change.",
        &[
            ("where you are, services, URLs, caveats", "status"),
            ("all sandboxes", "list"),
            ("the URL of an app", "url web"),
            ("the last lines of a log", "logs api --tail 50"),
            ("why a connection was denied", "egress why HOST"),
            ("what you changed", "diff --stat"),
        ],
    ),
    (
        "up",
        "Use to start a Hothouse sandbox, or to apply changes of hothouse.toml to one that runs.",
        "Starting waits until the services are ready; a failing one shows its last log lines.",
        &[
            ("make a sandbox on its own branch", "fork agent-a"),
            ("start it, or apply changes of hothouse.toml", "up"),
            ("fill it with data", "seed demo"),
            ("run something in it", "exec -- npm test"),
            ("restart one service after a change", "restart api"),
            ("keep a state to return to", "snapshot before-change"),
        ],
    ),
    (
        "down",
        "Use when you are done with a Hothouse sandbox for now; files, commits and data are kept.",
        "Commit first: what is committed in the sandbox reaches the user's repository by itself.",
        &[
            ("what is not committed yet", "diff --stat"),
            ("your commits", "log"),
            ("stop the room, keep everything", "down"),
        ],
    ),
    (
        "debug",
        "Use when something in a Hothouse sandbox fails: a service, a request, a mail that does not come.",
        "Set a mark, do it once, then read what happened since. Believe the records, not the absence of errors.",
        &[
            ("set a mark", "mark before-try"),
            ("count everything that happened since", "since before-try"),
            ("errors that the apps reported", "errors --since before-try"),
            ("requests to outside services, unmatched ones first", "requests --unmatched"),
            ("log lines around an error", "logs --grep 'ERROR|panic' -B 2 -A 5"),
            ("connections that were denied", "egress log --denied"),
            ("mails", "emails --since before-try"),
            ("wait for something to happen", "wait mail to:ann --timeout 30s"),
            ("look at a page", "browse web /"),
        ],
    ),
    (
        "prove",
        "Use to show that a change works before you say that it does.",
        "A claim needs a record. Do what a user would do, then name the records that show it.",
        &[
            ("a named check, run in this sandbox", "smoke SCENARIO"),
            ("the same in a fresh run", "prove SCENARIO"),
            ("or by hand: set a mark", "mark proof"),
            ("do what a user would do", "browse web /"),
            ("the mail that must come", "wait mail subject:receipt --since proof"),
            ("the events that must be sent", "analytics --require order_completed"),
            ("new errors: there must be none", "errors --since proof"),
            ("everything since, with what could not be seen", "since proof"),
            ("a report for your user", "summary --md"),
        ],
    ),
];

/// The end of every skill.
const ASK: &str = "What a room may not do (reach a new host, use a secret, change a limit) is for your user to \
     decide: `hothouse ask 'why you need it' --host HOST`, then `hothouse wait ask id=ID`. Add `--json` to any \
     command for data, and `--budget N` for about N tokens.";

/// Returns the skills with the commands that exist, and in a room only those that it may use.
pub(crate) fn all(tree: &Command, inside: bool) -> Vec<Skill> {
    let skill = |(name, about, opening, lines): (&'static str, &'static str, &str, &[Line])| {
        let lines = lines.iter().filter(|(_, command)| is_usable(tree, command, inside));
        let lines = lines.map(|(what, command)| format!("- {what}: `hothouse {command}`\n"));
        let text = format!("{opening}\n\n{}\n{ASK}\n", lines.collect::<String>());
        Skill { name, about, text }
    };
    SKILLS.into_iter().map(skill).collect()
}

fn is_usable(tree: &Command, line: &str, inside: bool) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let two = words.get(..2).map(|two| two.join(" "));
    let path = two.filter(|path| describe::find(path).is_some());
    let path = path.unwrap_or_else(|| words[0].to_owned());
    let known = describe::find(&path);
    tools::find(tree, &path).is_some()
        && known.is_some_and(|known| !inside || known.risk.is_for_rooms())
}

impl Skill {
    /// Returns the skill's name among those of other tools.
    pub(crate) fn full_name(&self) -> String {
        format!("hothouse-{}", self.name)
    }

    /// Renders the skill as a file with a header, as agents read it.
    pub(crate) fn file(&self) -> String {
        let name = self.full_name();
        format!("---\nname: {name}\ndescription: {}\n---\n\n# {name}\n\n{}", self.about, self.text)
    }
}

/// Returns the paragraph for `AGENTS.md`.
pub(crate) fn paragraph(tree: &Command) -> String {
    let skills = all(tree, false);
    let lines: String =
        skills.iter().map(|skill| format!("- {}: {}\n", skill.full_name(), skill.about)).collect();
    format!(
        "## Hothouse\n\nThis repository runs in Hothouse sandboxes. `hothouse status` shows where you are, \
         `hothouse --help` all commands.\n\n{lines}\n{ASK}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skills_name_only_commands_that_exist() {
        let tree = crate::command();
        for inside in [false, true] {
            for skill in all(&tree, inside) {
                for line in skill.text.lines().filter_map(|line| line.strip_prefix("- ")) {
                    let command = line.split("`hothouse ").nth(1).unwrap().trim_end_matches('`');
                    let name = command.split(' ').next().unwrap();
                    assert!(tree.find_subcommand(name).is_some(), "{line}");
                }
                assert!(skill.text.len() < 2000, "{} is long", skill.name);
                assert!(skill.text.lines().filter(|l| l.starts_with("- ")).count() >= 2);
            }
        }
        assert!(!all(&tree, true)[1].text.contains("hothouse fork"));
        assert!(all(&tree, false)[1].text.contains("hothouse fork"));
    }

    #[test]
    fn a_skill_has_a_head_that_agents_read() {
        let file = all(&crate::command(), false)[0].file();
        assert!(file.starts_with("---\nname: hothouse-status\ndescription: Use to "), "{file}");
    }
}
