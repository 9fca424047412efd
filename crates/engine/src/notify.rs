//! Tells the user that an agent waits: by a command of theirs, and on the desktop.
//!
//! What is asked is the agent's text. It is handed over as an argument, never as part of a command.

use std::time::Duration;

use hothouse_host::Program;
use hothouse_model::{config::Notify, visible};

use crate::Engine;

/// How long a program may take to tell.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much of a request is shown.
const SHOWN: usize = 400;

/// Something that waits for the user.
#[derive(Clone, Debug)]
pub struct Notice {
    pub sandbox: String,
    /// What it is about, in the agent's own words.
    pub text: String,
    /// The id of the request; the tool where an agent waits at its terminal.
    pub id: String,
}

impl Engine {
    /// Tells the user that an agent waits, as their own file says. It is a courtesy: nothing depends on it.
    pub fn tell_user(&self, notice: &Notice) {
        tell(&self.notify_settings(), notice);
    }
}

/// Notifies in every way that the user has chosen; failures are logged, and nobody waits.
fn tell(settings: &Notify, notice: &Notice) {
    for words in commands(settings, notice) {
        std::thread::spawn(move || {
            let [program, arguments @ ..] = words.as_slice() else { return };
            let ended = Program::new(program).args(arguments).output_within(PATIENCE);
            if let Err(error) = ended {
                tracing::warn!(%error, "the user could not be told that an agent waits");
            }
        });
    }
}

fn commands(settings: &Notify, notice: &Notice) -> Vec<Vec<String>> {
    let text: String = visible::line(&notice.text).chars().take(SHOWN).collect();
    let mut all = Vec::new();
    if let Some(command) = &settings.command {
        let words =
            ["/bin/sh", "-c", command.as_str(), "hothouse", &notice.sandbox, &text, &notice.id];
        all.push(words.map(str::to_owned).to_vec());
    }
    if settings.desktop {
        let title = format!("{} asks", notice.sandbox);
        // Desktops read markup in the body.
        let body = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let words = ["notify-send", "--app-name=Hothouse", "--", &title, &body];
        all.push(words.map(str::to_owned).to_vec());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_agent_is_an_argument_and_never_markup() {
        let settings: Notify = serde_json::from_value(
            serde_json::json!({ "command": "tell \"$2\"", "desktop": true, "bell": false }),
        )
        .unwrap();
        let notice = Notice {
            sandbox: "agent-a".into(),
            text: "$(reboot) <b>now</b>\u{202e}".into(),
            id: "ask_1".into(),
        };
        let all = commands(&settings, &notice);
        assert_eq!(all[0][..5], ["/bin/sh", "-c", "tell \"$2\"", "hothouse", "agent-a"]);
        assert_eq!(all[0][5], "$(reboot) <b>now</b>\\u{202e}");
        assert_eq!(all[1][4], "$(reboot) &lt;b&gt;now&lt;/b&gt;\\u{202e}");
        assert!(commands(&Notify::default(), &notice).is_empty());
    }
}
