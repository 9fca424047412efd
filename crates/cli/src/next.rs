//! Prints one line about the next step after a successful command, on a terminal, until the user turns it off.

use hothouse_config::{File, Layers, MAX_BYTES};
use hothouse_host::{files, folders::Folders};

use crate::args::{Command, ConfigCommand, EgressCommand, Named, SecretCommand, Which};

/// Whether the user wants such lines: a variable or their config file can turn them off.
pub(crate) fn are_wanted(variables: &[(String, String)], folders: Option<&Folders>) -> bool {
    let said_no = |(name, value): &(String, String)| {
        name == "HOTHOUSE_HINTS" && matches!(value.as_str(), "off" | "0" | "false" | "no")
    };
    !variables.iter().any(said_no) && folders.is_none_or(|folders| !is_turned_off(folders))
}

/// Whether the user's config file turns them off. One that cannot be read does not.
fn is_turned_off(folders: &Folders) -> bool {
    let bytes = files::read_capped(&folders.user_config(), MAX_BYTES as u64).unwrap_or_default();
    let user = File { name: "hothouse.toml", bytes: &bytes };
    let read = hothouse_config::resolve(&Layers { user: Some(user), ..Layers::default() });
    read.is_ok_and(|read| read.config.terminal.hints == Some(false))
}

/// Returns the command that often comes next. Commands that show a sandbox's state decide this themselves.
pub(crate) fn after(command: &Command) -> Option<String> {
    let line = match command {
        Command::Adopt(args) => format!("up{}", given(args.name.as_deref())),
        Command::Down(named) => format!("up{}", named_with(named)),
        Command::Pause(named) => format!("resume{}", named_with(named)),
        Command::Resume(named) => format!("status{}", named_with(named)),
        Command::Snapshot(args) => format!("snapshots{}", which(&args.which)),
        Command::Restore(args) => format!("status{}", which(&args.which)),
        Command::Start(args) | Command::Restart(args) => {
            format!("logs {}{} -f", args.service, which(&args.which))
        }
        Command::Stop(args) => format!("start {}{}", args.service, which(&args.which)),
        Command::Mark(args) => format!("since {}{}", args.name, which(&args.which)),
        Command::Runs => "timeline --run RUN".to_owned(),
        Command::Size(_) => "clean --merged --dry-run".to_owned(),
        Command::Nuke(_) => "fork NAME".to_owned(),
        Command::Doctor(args) if !args.fix => "fork NAME".to_owned(),
        Command::Trust(args) if !args.remove => "open".to_owned(),
        Command::Secret(SecretCommand::Set(_)) => "up".to_owned(),
        Command::Config(ConfigCommand::Check(_)) => "fork NAME".to_owned(),
        Command::Config(ConfigCommand::Approve(args)) => {
            format!("up{}", given(args.which.sandbox.as_deref()))
        }
        Command::Egress(EgressCommand::Log(_)) => "egress why HOST".to_owned(),
        Command::Egress(EgressCommand::Learn(_)) => "egress allow HOST".to_owned(),
        Command::Emails(args) => format!("email latest{}", which(&args.part.run.which)),
        Command::Seeds(_) => "seed NAME".to_owned(),
        Command::Scenarios(_) => "smoke SCENARIO".to_owned(),
        Command::Smoke(_) | Command::Prove(_) => "summary".to_owned(),
        _ => return None,
    };
    Some(format!("hothouse {line}"))
}

fn given(name: Option<&str>) -> String {
    name.map(|name| format!(" {name}")).unwrap_or_default()
}

fn named_with(named: &Named) -> String {
    given(named.clone().which().sandbox.as_deref())
}

fn which(which: &Which) -> String {
    which.sandbox.as_ref().map(|name| format!(" -w {name}")).unwrap_or_default()
}
