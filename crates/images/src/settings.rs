//! The runtime settings of an image.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The settings from an image's configuration, as far as they are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSettings {
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub folder: String,
    /// Uid and gid; names are looked up in the image.
    pub user: (u32, u32),
    pub ports: Vec<u16>,
    pub stop_signal: Option<String>,
}

/// The maximum number of words or variables.
const MOST: usize = 500;

impl ImageSettings {
    /// Parses the configuration of an image; `passwd` and `group` are the image's own files.
    pub(crate) fn read(config: &Value, passwd: &str, group: &str) -> Self {
        let config = &config["config"];
        let words = |key: &str| -> Vec<String> {
            let all = config[key].as_array().into_iter().flatten().filter_map(Value::as_str);
            all.filter(|word| !word.contains('\0')).take(MOST).map(str::to_owned).collect()
        };
        let env = words("Env").into_iter().filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        let ports = config["ExposedPorts"].as_object().into_iter().flatten();
        let mut ports: Vec<u16> =
            ports.filter_map(|(port, _)| port.split('/').next()?.parse().ok()).take(MOST).collect();
        ports.sort_unstable();
        let folder =
            config["WorkingDir"].as_str().filter(|folder| folder.starts_with('/')).unwrap_or("/");
        Self {
            entrypoint: words("Entrypoint"),
            command: words("Cmd"),
            env: env.collect(),
            folder: folder.to_owned(),
            user: user(config["User"].as_str().unwrap_or_default(), passwd, group),
            ports,
            stop_signal: config["StopSignal"].as_str().map(str::to_owned),
        }
    }
}

/// Looks up `user[:group]`, by name or number.
fn user(text: &str, passwd: &str, group: &str) -> (u32, u32) {
    let (name, of_group) = match text.split_once(':') {
        Some((name, of_group)) => (name, Some(of_group)),
        None => (text, None),
    };
    let lines = |file: &str| {
        file.lines()
            .map(|line| line.split(':').map(str::to_owned).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    let number =
        |fields: &Vec<String>, at: usize| fields.get(at).and_then(|text| text.parse::<u32>().ok());
    let entry = lines(passwd).into_iter().find(|fields| {
        fields.first().is_some_and(|first| first == name)
            || (number(fields, 2).is_some() && number(fields, 2) == name.parse().ok())
    });
    let uid = name.parse().ok().or_else(|| number(entry.as_ref()?, 2)).unwrap_or(0);
    let gid = match of_group {
        Some(text) => text.parse().ok().or_else(|| {
            let entry = lines(group)
                .into_iter()
                .find(|fields| fields.first().is_some_and(|first| first == text))?;
            number(&entry, 2)
        }),
        None => entry.as_ref().and_then(|entry| number(entry, 3)),
    };
    (uid, gid.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_looked_up_in_the_image() {
        let passwd = "root:x:0:0::/:/bin/sh\npostgres:x:999:998::/:/bin/sh\nbroken\n";
        let group = "db:x:77:\n";
        for (text, expected) in [
            ("", (0, 0)),
            ("postgres", (999, 998)),
            ("999", (999, 998)),
            ("5:6", (5, 6)),
            ("postgres:db", (999, 77)),
            ("nobody", (0, 0)),
        ] {
            assert_eq!(user(text, passwd, group), expected, "{text}");
        }
    }

    #[test]
    fn settings_are_read() {
        let config = serde_json::json!({ "config": { "Entrypoint": ["e"], "Cmd": ["c", "d"], "Env": ["A=b=c", "X"], "ExposedPorts": { "5432/tcp": {}, "80": {} }, "WorkingDir": "/w" } });
        let read = ImageSettings::read(&config, "", "");
        assert_eq!(
            (read.entrypoint.len(), read.command.len(), read.ports.as_slice()),
            (1, 2, &[80, 5432][..])
        );
        assert_eq!(read.env["A"], "b=c");
        assert_eq!(ImageSettings::read(&Value::Null, "", "").folder, "/");
    }
}
