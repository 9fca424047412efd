use super::*;

#[test]
fn the_command_tree_is_sound() {
    command().debug_assert();
}

#[test]
fn a_name_can_stand_alone_and_a_command_without_dashes_is_recognized() {
    let parse = |line: &str| {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Arguments::parse(&words)
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
        ("hothouse url web agent-a", Some("`hothouse url -w agent-a`")),
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
