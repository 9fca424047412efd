//! Commands as MCP tools: their schemas, and the command line of a call. Pure.
//!
//! Everything comes from the argument tree and the line in `describe`, so a tool accepts what the command accepts.

use std::any::TypeId;

use clap::{Arg, ArgAction, Command};
use hothouse_mcp::tool::{Effects, Tool};
use serde_json::{Map, Value, json};

use crate::{
    describe::{self, Description, Profile, Risk},
    outputs::Outputs,
};

/// The approximate number of tokens that a tool prints, if the command supports a limit.
const BUDGET: usize = 4000;

/// Options that make no sense for a program that waits for the end, or that use one of the user's keys.
const LEFT_OUT: [&str; 5] = ["follow", "attach", "wait", "no-wait", "sign"];

/// Commands whose `--wait` is useful to a caller.
const MAY_WAIT: [&str; 2] = ["ask", "up"];

/// Where tools are offered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) profile: Profile,
    /// In a room there is only one sandbox, and commands that are not for rooms are not offered.
    pub(crate) inside: bool,
}

/// Returns the tools of the commands that exist.
pub(crate) fn tools(tree: &Command, offer: Offer) -> Vec<Tool> {
    let offered = describe::all().filter(|known| known.profile <= offer.profile);
    let offered = offered.filter(|known| known.profile != Profile::Never);
    let offered = offered.filter(|known| !offer.inside || known.risk.is_for_rooms());
    let outputs = Outputs::load();
    offered
        .filter_map(|known| Some(tool(find(tree, known.path)?, known, offer, &outputs)))
        .collect()
}

/// Returns the name of a command's tool.
pub(crate) fn name_of(path: &str) -> String {
    path.replace(' ', "_")
}

/// Finds a command by its names.
pub(crate) fn find<'a>(tree: &'a Command, path: &str) -> Option<&'a Command> {
    path.split(' ').try_fold(tree, |at, name| at.find_subcommand(name))
}

fn tool(command: &Command, known: Description, offer: Offer, outputs: &Outputs) -> Tool {
    let about = command.get_long_about().or(command.get_about());
    let mut about = about.map(ToString::to_string).unwrap_or_default();
    if known.risk == Risk::Destroy {
        about.push_str("\n\nSomething is lost by it.");
    }
    Tool {
        name: name_of(known.path),
        about,
        input: input(command, known, offer, outputs.is_list(known.path)),
        output: outputs.of_tool(known.path),
        effects: Effects {
            read_only: matches!(known.risk, Risk::Read | Risk::Local),
            destructive: known.risk == Risk::Destroy,
        },
    }
}

/// Returns the arguments of a tool.
fn arguments<'a>(
    command: &'a Command,
    path: &'a str,
    inside: bool,
) -> impl Iterator<Item = &'a Arg> {
    command.get_arguments().filter(move |arg| {
        let long = arg.get_long().unwrap_or_default();
        let is_left_out = LEFT_OUT.contains(&long) && !MAY_WAIT.contains(&path);
        let is_sandbox = value_name(arg) == "SANDBOX" || inside && long == "sandbox";
        !arg.is_hide_set() && !is_left_out && !is_sandbox
    })
}

fn value_name(arg: &Arg) -> &str {
    arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str())
}

/// Returns the JSON name of an argument.
fn key(arg: &Arg) -> String {
    match arg.get_long() {
        Some(long) => long.replace('-', "_"),
        None => {
            let name = value_name(arg).to_lowercase();
            let is_word = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase());
            if is_word { name } else { arg.get_id().to_string() }
        }
    }
}

fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse)
}

fn is_many(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
        || arg.get_num_args().is_some_and(|count| count.max_values() > 1)
}

fn is_number(arg: &Arg) -> bool {
    let kind = arg.get_value_parser().type_id();
    [TypeId::of::<usize>(), TypeId::of::<u64>(), TypeId::of::<u32>(), TypeId::of::<u16>()]
        .into_iter()
        .any(|number| kind == number)
}

fn input(command: &Command, known: Description, offer: Offer, is_list: bool) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for arg in arguments(command, known.path, offer.inside) {
        if arg.is_required_set() {
            required.push(key(arg));
        }
        properties.insert(key(arg), property(arg, known.path));
    }
    if is_list {
        let about = "Continue a list: the `next_cursor` of its last part";
        properties.insert("cursor".into(), json!({ "type": "string", "description": about }));
    }
    if known.path == "exec" {
        required.push("command".into());
    }
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn property(arg: &Arg, path: &str) -> Value {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<_> =
        arg.get_possible_values().iter().map(|v| v.get_name().to_owned()).collect();
    let mut one = match () {
        () if is_flag(arg) => return json!({ "type": "boolean", "description": help }),
        () if is_number(arg) => json!({ "type": "integer", "minimum": 0 }),
        () => json!({ "type": "string" }),
    };
    if !values.is_empty() {
        one["enum"] = json!(values);
    }
    let mut property = match is_many(arg) {
        true if arg.is_last_set() && path == "exec" => {
            let items = json!({ "type": "array", "items": { "type": "string" } });
            json!({ "anyOf": [items, { "type": "string" }] })
        }
        true => json!({ "type": "array", "items": one }),
        false => one,
    };
    let help = match arg.is_last_set() && path == "exec" {
        true => "The program and its arguments as a list, or a line for the shell".to_owned(),
        false => help,
    };
    property["description"] = json!(help);
    property
}

/// Returns the command line of a call, or the problem with its arguments.
pub(crate) fn command_line(
    tree: &Command,
    path: &str,
    given: &Map<String, Value>,
    sandbox: Option<&str>,
    inside: bool,
) -> Result<Vec<String>, String> {
    let command = find(tree, path).ok_or("there is no such command")?;
    let known: Vec<&Arg> = arguments(command, path, inside).collect();
    let is_known = |name: &str| known.iter().any(|arg| key(arg) == name) || name == "cursor";
    if let Some(unknown) = given.keys().find(|name| !is_known(name)) {
        let names: Vec<_> = known.iter().map(|arg| key(arg)).collect();
        return Err(format!("there is no argument `{unknown}`; there are: {}", names.join(", ")));
    }
    // An argument that selects a run or all sandboxes replaces the server's own sandbox.
    let is_given = |arg: &Arg| given.get(&key(arg)).is_some_and(|value| !value.is_null());
    let excludes = |arg: &Arg| {
        let excluded = command.get_arg_conflicts_with(arg);
        excluded.iter().any(|other| other.get_long() == Some("sandbox"))
    };
    let sandbox = sandbox.filter(|_| !known.iter().any(|arg| is_given(arg) && excludes(arg)));
    let mut words: Vec<String> = path.split(' ').map(str::to_owned).collect();
    words.push("--json".into());
    let (mut positional, mut last) = (Vec::new(), Vec::new());
    for arg in &known {
        let values = match given.get(&key(arg)).filter(|value| !value.is_null()) {
            Some(value) => values(arg, value, path)?,
            None => default(arg, sandbox),
        };
        match arg.get_long() {
            Some(long) if is_flag(arg) => {
                words.extend(values.iter().filter(|v| *v == "true").map(|_| format!("--{long}")));
            }
            Some(long) => words.extend(values.iter().map(|value| format!("--{long}={value}"))),
            None if arg.is_last_set() => last = values,
            None => positional.extend(values),
        }
    }
    let has_last = known.iter().any(|arg| arg.is_last_set());
    if let Some(word) = positional.iter().find(|word| has_last && word.starts_with('-')) {
        return Err(format!("`{word}` begins with a dash"));
    }
    // What follows is never an option.
    if !has_last && !positional.is_empty() {
        words.push("--".into());
    }
    words.extend(positional);
    if has_last && !last.is_empty() {
        words.push("--".into());
        words.extend(last);
    }
    Ok(words)
}

fn default(arg: &Arg, sandbox: Option<&str>) -> Vec<String> {
    match arg.get_long() {
        Some("budget") => vec![BUDGET.to_string()],
        Some("sandbox") => sandbox.map(str::to_owned).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Converts the values of one argument.
fn values(arg: &Arg, value: &Value, path: &str) -> Result<Vec<String>, String> {
    let wrong = |what: &str| format!("`{}` is not {what}", key(arg));
    let text = |value: &Value| match value {
        Value::String(text) if text.contains('\0') => Err(wrong("a text without zero bytes")),
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err(wrong("a text")),
    };
    match value {
        Value::Bool(_) if is_flag(arg) => Ok(vec![text(value)?]),
        _ if is_flag(arg) => Err(wrong("true or false")),
        Value::Array(items) if is_many(arg) => items.iter().map(text).collect(),
        Value::String(line) if arg.is_last_set() && path == "exec" => {
            Ok(vec!["sh".into(), "-c".into(), text(&Value::String(line.clone()))?])
        }
        other => Ok(vec![text(other)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(profile: Profile, inside: bool) -> Vec<Tool> {
        tools(&crate::command(), Offer { profile, inside })
    }

    fn has(tools: &[Tool], name: &str) -> bool {
        tools.iter().any(|tool| tool.name == name)
    }

    #[test]
    fn tools_are_the_commands_that_exist_and_may_be_used() {
        let daily = offered(Profile::Daily, false);
        for name in ["status", "up", "down", "exec", "logs", "wait", "since", "emails", "ask"] {
            assert!(has(&daily, name), "{name}");
        }
        assert!(daily.len() <= 16 && has(&daily, "restore"));
        let full = offered(Profile::Full, false);
        assert!(full.len() > daily.len() && has(&full, "egress_why") && has(&full, "flags_set"));
        for name in ["egress_allow", "secret_set", "nuke", "config_approve", "shell", "asks_answer"]
        {
            assert!(!has(&full, name), "{name}");
        }
        let inside = offered(Profile::Full, true);
        for name in ["fork", "delete", "restore", "pause"] {
            assert!(has(&full, name) && !has(&inside, name), "{name}");
        }
        let sandbox = |tools: &[Tool]| {
            let status = tools.iter().find(|tool| tool.name == "status").unwrap();
            status.input["properties"].get("sandbox").is_some()
        };
        assert!(sandbox(&daily) && !sandbox(&inside));
    }

    #[test]
    fn a_call_becomes_a_command_line_in_which_values_are_values() {
        let tree = crate::command();
        let line = |path: &str, given: Value, sandbox: Option<&str>| {
            command_line(&tree, path, given.as_object().unwrap(), sandbox, false)
                .map(|words| words.join(" "))
        };
        assert_eq!(line("status", json!({}), None).unwrap(), "status --json");
        assert_eq!(line("status", json!({}), Some("a")).unwrap(), "status --json --sandbox=a");
        // Arguments that replace the sandbox.
        assert_eq!(
            line("status", json!({ "all": true }), Some("a")).unwrap(),
            "status --json --all"
        );
        let run = json!({ "run": "run_1" });
        assert_eq!(
            line("emails", run, Some("a")).unwrap(),
            "emails --json --budget=4000 --run=run_1"
        );
        assert_eq!(
            line("exec", json!({ "command": ["ls", "-la"], "root": true }), None).unwrap(),
            "exec --json --root -- ls -la"
        );
        assert_eq!(
            line("exec", json!({ "command": "ls | wc -l" }), None).unwrap(),
            "exec --json -- sh -c ls | wc -l"
        );
        let wait = json!({ "kind": "mail", "query": ["to:ann"], "timeout": "5s" });
        assert_eq!(line("wait", wait, None).unwrap(), "wait --json --timeout=5s -- mail to:ann");
        let tricks = json!({ "kind": "--run=run_other" });
        assert_eq!(line("wait", tricks, None).unwrap(), "wait --json -- --run=run_other");
        assert!(line("exec", json!({ "service": "--root", "command": ["id"] }), None).is_err());
        assert!(line("status", json!({ "nonsense": 1 }), None).unwrap_err().contains("sandbox"));
        assert!(line("exec", json!({ "root": "yes", "command": ["id"] }), None).is_err());
        assert!(line("status", json!({ "sandbox": { "a": 1 } }), None).is_err());
        assert!(line("logs", json!({ "tail": 5 }), None).unwrap().contains("--tail=5"));
        assert!(line("logs", json!({}), None).unwrap().contains("--budget=4000"));
    }

    #[test]
    fn every_tool_has_a_schema_that_clients_accept() {
        for tool in offered(Profile::Full, false) {
            assert_eq!(tool.input["type"], "object", "{}", tool.name);
            assert!(!tool.about.is_empty(), "{}", tool.name);
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            assert!(tool.name.chars().all(plain) && tool.name.len() <= 64, "{}", tool.name);
            let output = tool.output.as_ref().unwrap();
            assert_eq!(output["type"], "object", "{}", tool.name);
            assert!(!output.to_string().contains("#/components"), "{}", tool.name);
        }
    }
}
