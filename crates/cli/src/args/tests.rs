use super::{parse::Noun, *};

#[test]
fn the_command_tree_is_sound() {
    command().debug_assert();
}

#[test]
fn frequent_commands_mean_the_same_with_and_without_the_other_commands() {
    for line in [
        "exec -- true",
        "--json exec -w a --sandbox b -q -- ls -l --json",
        "exec --root -C web db -v -- psql -c x",
        "exec --attach ex-1",
        "exec --fresh --explain -- sh -c true",
        "guard",
        "guard --json",
        "guard --tool claude --mode deny",
        "guard install --for claude",
        "-v guard uninstall --for codex",
        "delete a b --force",
        "down -w a",
        "fork a --from b -q",
        "logs web -f -w a --json",
        "since mark-1 --json",
        "status a -f",
        "timeline --kind mail --budget 500",
        "up --seed m --json",
        "wait mail to:ann",
    ] {
        let words: Vec<OsString> =
            std::iter::once("hothouse").chain(line.split(' ')).map(OsString::from).collect();
        let whole = Arguments::try_parse_from(&words).unwrap();
        let alone =
            parse::frequent(&words).unwrap_or_else(|| panic!("{line} needs the whole tree"));
        assert_eq!(format!("{alone:?}"), format!("{whole:?}"), "{line}");
    }
    for line in ["exec", "exec --help", "exec npm test", "guard --nonsense", "list", "--version"] {
        let words: Vec<OsString> =
            std::iter::once("hothouse").chain(line.split(' ')).map(OsString::from).collect();
        assert!(parse::frequent(&words).is_none(), "{line}");
    }
}

#[test]
fn a_name_can_stand_alone_and_a_command_without_dashes_is_recognized() {
    let parse = |line: &str| {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Arguments::parse(&words, |word| match word {
            "agent-a" => Noun::Sandbox,
            "db" => Noun::Service,
            _ => Noun::Unknown,
        })
    };
    let status = parse("hothouse status agent-a").ok().and_then(|parsed| parsed.command);
    let Some(Command::Status(args)) = status else { panic!("status agent-a is not parsed") };
    assert_eq!(args.which.which().sandbox.as_deref(), Some("agent-a"));
    assert!(parse("hothouse status agent-a -w agent-b").is_err());
    for (line, hint) in [
        ("hothouse exec npm test", Some("`hothouse exec -- npm test`")),
        ("hothouse exec --root apt-get update", Some("`hothouse exec --root -- apt-get update`")),
        ("hothouse exec npm", Some("`hothouse exec -- npm`")),
        ("hothouse exec -w agent-a", None),
        ("hothouse exec agent-a ls", Some("`hothouse exec -w agent-a -- ls`")),
        ("hothouse exec agent-a", Some("`hothouse exec -w agent-a -- COMMAND`")),
        ("hothouse exec db psql -l", Some("`hothouse exec db -- psql -l`")),
        ("hothouse exec -w agent-b npm test", Some("`hothouse exec -w agent-b -- npm test`")),
        ("hothouse url web agent-a", Some("`hothouse url web -w agent-a`")),
        ("hothouse restart agent-a web", Some("`hothouse restart web -w agent-a`")),
        ("hothouse url web other", Some("`hothouse url web -w other`")),
        ("hothouse url web -w agent-b agent-a", None),
    ] {
        let early = parse(line).err().unwrap_or_else(|| panic!("{line} is parsed"));
        let told = early.hint.unwrap_or_default();
        assert!(hint.map_or(told.is_empty(), |hint| told.ends_with(hint)), "{line}: {told}");
    }
}

#[test]
fn every_command_has_a_help_text() {
    for command in
        command().get_subcommands().flat_map(|c| std::iter::once(c).chain(c.get_subcommands()))
    {
        assert!(command.get_about().is_some(), "{}", command.get_name());
    }
}

#[test]
fn a_word_of_another_tool_is_told_what_it_is_called_here() {
    let told = |line: &str| {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let early = Arguments::parse(&words, |_| Noun::Unknown).err();
        early.unwrap_or_else(|| panic!("{line} is parsed")).told()
    };
    for (line, meant) in [
        ("hothouse remove a", Some("delete")),
        ("hothouse create a", Some("fork")),
        ("hothouse run npm test", Some("exec")),
        ("hothouse merge a", Some("promote")),
        ("hothouse stauts", Some("status")),
        ("hothouse help forkk", Some("fork")),
        ("hothouse egress wyh", Some("why")),
        ("hothouse frobnicate", None),
    ] {
        let failure = told(line);
        assert!(failure.message.starts_with("unrecognized subcommand"), "{line}: {failure:?}");
        let hint = &failure.hints[0];
        match meant {
            Some(meant) => assert!(hint.ends_with(&format!("exists: '{meant}'")), "{line}: {hint}"),
            None => assert!(!hint.contains("exist"), "{line}: {hint}"),
        }
    }
    let missing = told("hothouse fork --json");
    assert!(missing.message.ends_with("not provided: <NAME>"), "{missing:?}");
    let flag = told("hothouse up a --profle x");
    assert_eq!(flag.hints, ["a similar argument exists: '--profile'"]);
    for (line, hint) in [
        ("hothouse list -w a", "`hothouse list` takes no sandbox: leave `-w` out"),
        ("hothouse config check -w a", "`hothouse config check` takes no sandbox: leave `-w` out"),
    ] {
        assert_eq!(told(line).hints, [hint], "{line}");
    }
}

#[test]
fn every_word_of_another_tool_leads_to_a_command_and_is_none_itself() {
    let tree = command();
    for (word, meant) in parse::SYNONYMS {
        assert!(tree.find_subcommand(word).is_none(), "{word} is a command");
        let found = meant.split(' ').try_fold(&tree, |at, name| at.find_subcommand(name));
        assert!(found.is_some(), "{word}: there is no {meant}");
    }
}

#[test]
fn every_command_that_does_something_has_two_examples() {
    fn check(command: &clap::Command, path: &str) {
        let path = format!("{path} {}", command.get_name());
        // Nobody types a hidden command.
        if command.is_hide_set() {
            return;
        }
        // A group is explained by its commands.
        if !command.is_subcommand_required_set() {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = after.split("Examples:").nth(1).unwrap_or_default();
            let count = examples.lines().filter(|line| line.contains("hothouse")).count();
            assert!(count >= 2, "{path} has {count} examples");
        }
        command.get_subcommands().for_each(|below| check(below, &path));
    }
    command().get_subcommands().for_each(|command| check(command, "hothouse"));
}
