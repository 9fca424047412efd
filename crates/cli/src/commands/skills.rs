//! `skills`: texts for agents, written where their tools look.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use hothouse_host::files;
use hothouse_model::{Failure, FailureKind};
use serde_json::json;

use crate::{
    args::{AgentTool, SkillsCommand, SkillsInstallArgs},
    edited::{Base, Edited},
    render::{Cell, table},
    session::Session,
    skills::{self, Skill},
    ui::{Tone, Ui},
};

/// The lines around our paragraph in `AGENTS.md`.
const BEGIN: &str = "<!-- hothouse: begin -->";
const END: &str = "<!-- hothouse: end -->";

/// Runs a `skills` command.
pub(crate) fn run(session: &Session, ui: &Ui, command: SkillsCommand) -> Result<ExitCode, Failure> {
    let skills = skills::all(&crate::command(), session.is_inside());
    match command {
        SkillsCommand::List => {
            list(ui, &skills);
            Ok(ExitCode::SUCCESS)
        }
        SkillsCommand::Install(args) => install(session, ui, &args, &skills),
    }
}

fn list(ui: &Ui, skills: &[Skill]) {
    if ui.json {
        let shown = skills.iter().map(
            |skill| json!({ "name": skill.full_name(), "about": skill.about, "text": skill.text }),
        );
        ui.print_json(&shown.collect::<Vec<_>>());
        return;
    }
    let row = |skill: &Skill| {
        vec![Cell::new(skill.full_name()).tone(Tone::Strong), Cell::new(skill.about)]
    };
    ui.print(&table(ui, &["SKILL", "USE"], skills.iter().map(row).collect()));
}

/// Returns the skills folder that a tool reads, below the project or the home.
fn folder_of(tool: AgentTool, user: bool) -> &'static str {
    match (tool, user) {
        (AgentTool::Claude, _) => ".claude/skills",
        (AgentTool::Codex, _) => ".agents/skills",
        (AgentTool::Cursor, _) => ".cursor/skills",
        (AgentTool::Vscode, false) => ".github/skills",
        (AgentTool::Vscode, true) => ".copilot/skills",
        (AgentTool::Gemini, _) => ".gemini/skills",
    }
}

fn install(
    session: &Session,
    ui: &Ui,
    args: &SkillsInstallArgs,
    skills: &[Skill],
) -> Result<ExitCode, Failure> {
    let base = match (&args.folder, args.user) {
        (Some(folder), _) => Base::Project(session.folder.join(folder)),
        (None, true) => Base::Home(session.folders.home.clone()),
        (None, false) => Base::Project(session.folder.clone()),
    };
    let mut changed = Vec::new();
    for tool in &args.tools {
        let folder = Path::new(folder_of(*tool, args.user));
        for skill in skills {
            let own = base.file(folder.join(skill.full_name()).join("SKILL.md"));
            let is_changed = match args.remove {
                true => take(&own, skill, args.force)?,
                false => put(&own, skill, args.force)?,
            };
            changed.extend(is_changed);
        }
    }
    if args.agents_md {
        changed.extend(paragraph(&base.file("AGENTS.md"), args.remove)?);
    }
    if ui.json {
        ui.print_json(&json!({ "changed": changed, "removed": args.remove }));
    } else if changed.is_empty() {
        ui.say("Nothing to change.");
    } else {
        changed.iter().for_each(|file| ui.print(&file.display().to_string()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether we wrote a file, in any version: only our files name the skill in their header.
fn is_ours(text: &str, skill: &Skill) -> bool {
    text.starts_with(&format!("---\nname: {}\n", skill.full_name()))
        && text.contains(&format!("\n# {}\n", skill.full_name()))
}

fn put(file: &Edited, skill: &Skill, force: bool) -> Result<Option<PathBuf>, Failure> {
    let text = skill.file();
    if let Some(known) = file.read()? {
        if known == text {
            return Ok(None);
        }
        check_own(file, &known, skill, force)?;
    }
    file.write(&text)?;
    Ok(Some(file.path()))
}

fn take(file: &Edited, skill: &Skill, force: bool) -> Result<Option<PathBuf>, Failure> {
    let Some(known) = file.read()? else { return Ok(None) };
    check_own(file, &known, skill, force)?;
    file.remove()?;
    // A folder that contains other files stays.
    if let Some(folder) = file.path().parent() {
        files::remove_empty_folder(folder).ok();
    }
    Ok(Some(file.path()))
}

fn check_own(file: &Edited, known: &str, skill: &Skill, force: bool) -> Result<(), Failure> {
    if force || is_ours(known, skill) {
        return Ok(());
    }
    let message = format!("{} is not as Hothouse wrote it", file.path().display());
    Err(Failure::new(FailureKind::Conflict, message).hint("pass --force to replace it"))
}

/// Adds our paragraph to `AGENTS.md`, or removes it.
fn paragraph(file: &Edited, remove: bool) -> Result<Option<PathBuf>, Failure> {
    let text = file.read()?.unwrap_or_default();
    let rest = without_paragraph(&text);
    let new = match remove {
        true => rest,
        false => {
            let gap = if rest.is_empty() { "" } else { "\n" };
            format!("{rest}{gap}{BEGIN}\n{}{END}\n", skills::paragraph(&crate::command()))
        }
    };
    if new == text {
        return Ok(None);
    }
    file.write(&new)?;
    Ok(Some(file.path()))
}

fn without_paragraph(text: &str) -> String {
    match (text.find(BEGIN), text.find(END)) {
        (Some(from), Some(to)) if from < to => {
            let before = text[..from].strip_suffix('\n').unwrap_or(&text[..from]);
            let after = text[to + END.len()..].strip_prefix('\n').unwrap_or_default();
            format!("{before}{after}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_taken_out_as_it_was_put_in() {
        let own = format!("{BEGIN}\nx\n{END}\n");
        assert_eq!(without_paragraph(&format!("# Mine\n\n{own}")), "# Mine\n");
        assert_eq!(without_paragraph(&own), "");
        assert_eq!(without_paragraph("nothing of ours"), "nothing of ours");
    }
}
