//! Notifies the user that an agent is waiting: with a configured command, and on the desktop.
//!
//! The text comes from the agent. It is passed as an argument, never as part of a command.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use hothouse_host::Program;
use hothouse_model::{config::Notify, visible};

use crate::Engine;

/// The time limit of a notification program.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much of a request is shown.
const SHOWN: usize = 400;

/// The rate limit of notifications per sandbox. Each one runs the user's programs.
const TIMES: usize = 20;
const WHILE: Duration = Duration::from_secs(600);

/// The times of recent notifications, by sandbox.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<HashMap<String, VecDeque<Instant>>>);

impl Told {
    /// Counts a notification, if the limit allows it.
    fn admits(&self, sandbox: &str, now: Instant) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |then: &Instant| now.duration_since(*then) < WHILE;
        for times in all.values_mut() {
            times.retain(is_recent);
        }
        all.retain(|_, times| !times.is_empty());
        let times = all.entry(sandbox.to_owned()).or_default();
        let admitted = times.len() < TIMES;
        if admitted {
            times.push_back(now);
        }
        admitted
    }
}

/// Something that waits for the user.
#[derive(Clone, Debug)]
pub struct Notice {
    pub sandbox: String,
    /// Its subject, in the agent's words.
    pub text: String,
    /// The id of the request; the tool's name if an agent waits at its terminal.
    pub id: String,
}

impl Engine {
    /// Notifies the user that an agent is waiting, as configured in their own file. Best effort,
    /// and rate-limited per agent.
    pub fn tell_user(&self, notice: &Notice) {
        if self.told.admits(&notice.sandbox, Instant::now()) {
            tell(&self.notify_settings(), notice);
        }
    }
}

/// Notifies in every configured way; failures are logged, and nothing waits.
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
        let title = format!("{} waits for you", notice.sandbox);
        // Desktops interpret markup in the body.
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
    fn an_agent_that_asks_without_end_starts_no_programs_without_end() {
        let (told, begun) = (Told::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let heard = (0..300).filter(|_| told.admits("a", at(0))).count();
        assert_eq!(heard, TIMES);
        assert!(told.admits("b", at(1)), "another one is heard");
        assert!(!told.admits("a", at(599)) && told.admits("a", at(600)));
        assert_eq!(told.0.lock().unwrap().len(), 2);
    }

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
