//! Host names: which app of which sandbox a name means.
//!
//! ```text
//! APP.SANDBOX.PROJECT.localhost    one app of one sandbox
//! APP.PROJECT.localhost            the app of the sandbox that a cookie picks
//! PROJECT.localhost                the page to pick one
//! hothouse.localhost               Hothouse itself
//! LABEL.hothouse.localhost         one session of the dashboard
//! ```

use std::fmt;

use hothouse_model::OWN_LABEL;

/// The zone of all names; browsers and curl resolve it to the loopback address.
pub const ZONE: &str = "localhost";

/// The maximum length of a DNS label.
const LABEL_LIMIT: usize = 63;

/// What a host name means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    App { app: String, sandbox: String, project: String },
    Shared { app: String, project: String },
    Picker { project: String },
    Own,
    Session { label: String },
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::App { app, sandbox, project } => write!(f, "{app}.{sandbox}.{project}.{ZONE}"),
            Self::Shared { app, project } => write!(f, "{app}.{project}.{ZONE}"),
            Self::Picker { project } => write!(f, "{project}.{ZONE}"),
            Self::Own => write!(f, "{OWN_LABEL}.{ZONE}"),
            Self::Session { label } => write!(f, "{label}.{OWN_LABEL}.{ZONE}"),
        }
    }
}

/// A host name that is not ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("it is not below .{ZONE}")]
    Foreign,
    #[error("it is not a host name")]
    Malformed,
    #[error("it has more names than APP.SANDBOX.PROJECT.{ZONE}")]
    TooDeep,
}

/// Returns a host without its port and trailing dot.
pub fn bare(host: &str) -> &str {
    let name = without_port(host).unwrap_or(host);
    name.strip_suffix('.').unwrap_or(name)
}

/// Parses a host of a request or ClientHello: any case, with or without a port and a trailing dot.
pub fn parse(host: &str) -> Result<Address, HostError> {
    let name = without_port(host).ok_or(HostError::Malformed)?;
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let labels: Vec<_> = name.split('.').collect();
    if !labels.iter().all(|label| is_label(label)) {
        return Err(HostError::Malformed);
    }
    let Some((&ZONE, labels)) = labels.split_last() else { return Err(HostError::Foreign) };
    let owned = |label: &str| label.to_owned();
    match *labels {
        [] => Err(HostError::Foreign),
        [OWN_LABEL] => Ok(Address::Own),
        [label, OWN_LABEL] => Ok(Address::Session { label: owned(label) }),
        [project] => Ok(Address::Picker { project: owned(project) }),
        [app, project] => Ok(Address::Shared { app: owned(app), project: owned(project) }),
        [app, sandbox, project] => {
            Ok(Address::App { app: owned(app), sandbox: owned(sandbox), project: owned(project) })
        }
        _ => Err(HostError::TooDeep),
    }
}

/// Strips the port of a host; `None` if what follows the colon is not a port.
fn without_port(host: &str) -> Option<&str> {
    match host.split_once(':') {
        None => Some(host),
        Some((name, port)) => {
            let digits = (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit());
            digits.then_some(name)
        }
    }
}

fn is_label(label: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    (1..=LABEL_LIMIT).contains(&label.len())
        && label.bytes().all(plain)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, expected: &str) {
        let shown = match parse(host) {
            Ok(address) => format!("{address:?}"),
            Err(error) => format!("{error:?}"),
        };
        assert!(shown.starts_with(expected), "{host}: {shown}");
    }

    #[test]
    fn names_mean_what_their_depth_says() {
        check("web.a.shop.localhost", "App { app: \"web\", sandbox: \"a\", project: \"shop\" }");
        check(
            "WEB.A.Shop.LOCALHOST.:8443",
            "App { app: \"web\", sandbox: \"a\", project: \"shop\" }",
        );
        check("web.shop.localhost", "Shared");
        check("shop.localhost", "Picker");
        check("hothouse.localhost", "Own");
        check("web.hothouse.localhost", "Session { label: \"web\" }");
    }

    #[test]
    fn everything_else_is_refused() {
        check("localhost", "Foreign");
        check("127.0.0.1", "Foreign");
        check("evil.example", "Foreign");
        check("a.b.c.d.localhost", "TooDeep");
        for host in [
            "",
            ".",
            "a..localhost",
            "-a.localhost",
            "a-.localhost",
            "é.localhost",
            "a_b.localhost",
            "a.localhost:",
            "a.localhost:x",
            "a.localhost:123456",
            "a\0.localhost",
            "[::1]",
            "a b.localhost",
        ] {
            check(host, "Malformed");
        }
        check(&format!("{}.localhost", "a".repeat(64)), "Malformed");
    }

    #[test]
    fn what_is_shown_is_read_again() {
        for host in [
            "web.a.shop.localhost",
            "web.shop.localhost",
            "shop.localhost",
            "hothouse.localhost",
            "0f.hothouse.localhost",
        ] {
            assert_eq!(parse(host).unwrap().to_string(), host);
        }
    }
}
