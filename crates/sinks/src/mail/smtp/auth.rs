//! Login: everyone is accepted, and no password is stored.

use base64::{Engine, prelude::BASE64_STANDARD};

/// What the client has to send next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The single response of PLAIN, CRAM-MD5, XOAUTH2 and others.
    Answer(Mechanism),
    /// The user of LOGIN.
    User,
    /// The password of LOGIN.
    Password { user: Option<String> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    Plain,
    CramMd5,
    OAuth,
    Other,
}

/// The state of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Login {
    /// Send a base64 challenge, and wait for a line.
    Ask(String, Step),
    Accepted {
        user: Option<String>,
    },
    /// The client gave up.
    Cancelled,
}

/// Starts a login with the arguments of `AUTH`.
pub(super) fn begin(arguments: &str, hostname: &str) -> Login {
    let mut words = arguments.split_ascii_whitespace();
    let name = words.next().unwrap_or_default().to_ascii_uppercase();
    let initial = words.next();
    let mechanism = match name.as_str() {
        "LOGIN" => return begin_login(initial),
        "PLAIN" => Mechanism::Plain,
        "CRAM-MD5" => Mechanism::CramMd5,
        "XOAUTH2" | "OAUTHBEARER" => Mechanism::OAuth,
        _ => Mechanism::Other,
    };
    match initial {
        Some(initial) => Login::Accepted { user: user_of(mechanism, initial) },
        None if mechanism == Mechanism::CramMd5 => {
            let challenge = BASE64_STANDARD.encode(format!("<0.0@{hostname}>"));
            Login::Ask(challenge, Step::Answer(mechanism))
        }
        None => Login::Ask(String::new(), Step::Answer(mechanism)),
    }
}

fn begin_login(initial: Option<&str>) -> Login {
    match initial {
        Some(user) => ask_password(decoded(user)),
        None => Login::Ask(BASE64_STANDARD.encode("Username:"), Step::User),
    }
}

fn ask_password(user: Option<String>) -> Login {
    Login::Ask(BASE64_STANDARD.encode("Password:"), Step::Password { user })
}

/// Continues a login with a line from the client.
pub(super) fn answer(step: Step, line: &str) -> Login {
    match step {
        _ if line == "*" => Login::Cancelled,
        Step::User => ask_password(decoded(line)),
        Step::Password { user } => Login::Accepted { user },
        Step::Answer(mechanism) => Login::Accepted { user: user_of(mechanism, line) },
    }
}

fn user_of(mechanism: Mechanism, answer: &str) -> Option<String> {
    let text = decoded(answer)?;
    let user = match mechanism {
        Mechanism::Plain => text.split('\0').nth(1)?,
        // The digest follows the last space.
        Mechanism::CramMd5 => text.rsplit_once(' ')?.0,
        Mechanism::OAuth => text.split('\u{1}').find_map(|part| {
            part.strip_prefix("user=")
                .or_else(|| part.split(',').find_map(|p| p.strip_prefix("a=")))
        })?,
        Mechanism::Other => return None,
    };
    Some(user.to_owned()).filter(|user| !user.is_empty())
}

fn decoded(text: &str) -> Option<String> {
    String::from_utf8(BASE64_STANDARD.decode(text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(user: &str) -> Login {
        Login::Accepted { user: Some(user.to_owned()) }
    }

    #[test]
    fn every_mechanism_is_accepted_and_its_user_is_known() {
        let encode = |text: &str| BASE64_STANDARD.encode(text);
        assert_eq!(begin(&format!("PLAIN {}", encode("\0ann\0pw")), "h"), accepted("ann"));
        assert_eq!(begin(&format!("plain {}", encode("as\0ann\0pw")), "h"), accepted("ann"));
        let oauth = encode("user=ann\u{1}auth=Bearer x\u{1}\u{1}");
        assert_eq!(begin(&format!("XOAUTH2 {oauth}"), "h"), accepted("ann"));
        let oauth = encode("n,a=ann,\u{1}auth=Bearer x\u{1}\u{1}");
        assert_eq!(begin(&format!("OAUTHBEARER {oauth}"), "h"), accepted("ann"));

        let Login::Ask(challenge, step) = begin("CRAM-MD5", "h") else { panic!("no challenge") };
        assert_eq!(decoded(&challenge).as_deref(), Some("<0.0@h>"));
        assert_eq!(answer(step, &encode("ann 0123abcd")), accepted("ann"));

        let Login::Ask(_, step) = begin("LOGIN", "h") else { panic!("no challenge") };
        let Login::Ask(_, step) = answer(step, &encode("ann")) else { panic!("no challenge") };
        assert_eq!(answer(step, &encode("pw")), accepted("ann"));
    }

    #[test]
    fn an_unknown_mechanism_and_broken_base64_are_accepted_without_a_user() {
        let nobody = Login::Accepted { user: None };
        assert_eq!(begin("X-NEW abc", "h"), nobody);
        assert_eq!(begin("PLAIN !!!", "h"), nobody);
        let Login::Ask(challenge, step) = begin("X-NEW", "h") else { panic!("no challenge") };
        assert_eq!((challenge.as_str(), answer(step.clone(), "zzz")), ("", nobody));
        assert_eq!(answer(step, "*"), Login::Cancelled);
    }
}
