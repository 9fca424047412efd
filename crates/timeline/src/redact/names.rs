//! Field names that identify a credential, or a person.

use std::sync::LazyLock;

/// Suffixes of credential names, in lower case and without `-`, `_` and `.`.
const ENDS: [&str; 27] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "accesskeyid",
    "authkey",
    "credential",
    "credentials",
    "authorization",
    "cookie",
    "cookies",
    "sessionid",
    "connectionstring",
    "clientassertion",
    "xamzsignature",
    "xamzcredential",
    "otp",
    "cvc",
    "cardnumber",
];

/// Complete names, too common as suffixes.
const WHOLE: [&str; 7] = ["pin", "sig", "jwt", "bearer", "ssn", "iban", "cvv"];

/// Field names in analytics that identify a person.
const PEOPLE: [&str; 19] = [
    "distinctid",
    "userid",
    "anonymousid",
    "previousid",
    "email",
    "emailaddress",
    "phone",
    "phonenumber",
    "firstname",
    "lastname",
    "fullname",
    "username",
    "displayname",
    "address",
    "ip",
    "alias",
    "anondistinctid",
    "deviceid",
    "clientid",
];

/// The suffixes by their last byte.
static ENDS_BY_LAST: LazyLock<[Vec<&str>; 256]> = LazyLock::new(|| {
    let mut by_last = [const { Vec::new() }; 256];
    for end in ENDS {
        by_last[usize::from(end.as_bytes()[end.len() - 1])].push(end);
    }
    by_last
});

/// Longer names are ignored.
const LONGEST: usize = 100;

/// Returns whether a field with this name is a credential.
pub(crate) fn is_sensitive(name: &str) -> bool {
    if name.len() > LONGEST || name.len() < 3 {
        return false;
    }
    // This runs for every word of every text, so it avoids allocations and compares few suffixes.
    let mut plain = [0; LONGEST];
    let mut length = 0;
    for byte in name.bytes().filter(|byte| !is_separator(*byte)) {
        plain[length] = byte.to_ascii_lowercase();
        length += 1;
    }
    let plain = &plain[..length];
    let Some(last) = plain.last() else { return false };
    let ends = ENDS_BY_LAST[usize::from(*last)].iter().any(|end| plain.ends_with(end.as_bytes()));
    ends || WHOLE.iter().any(|whole| plain == whole.as_bytes())
}

/// Returns whether a field with this name identifies a person.
pub(super) fn is_person(name: &str) -> bool {
    name.len() <= LONGEST && PEOPLE.contains(&plain(name).trim_start_matches('$'))
}

/// Returns whether a field with this name describes a person, so that a `name` in it is theirs.
pub(super) fn is_traits(name: &str) -> bool {
    let plain = plain(name);
    ["set", "setonce", "traits", "userproperties"].contains(&plain.trim_start_matches('$'))
}

/// Returns whether a text is an e-mail address and nothing else.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim();
    text.len() <= 254
        && !text.contains(char::is_whitespace)
        && text.split_once('@').is_some_and(|(name, host)| {
            !name.is_empty() && host.contains('.') && !host.contains(['@', '/'])
        })
}

fn plain(name: &str) -> String {
    let kept = name.chars().filter(|c| !u8::try_from(*c).is_ok_and(is_separator));
    kept.map(|c| c.to_ascii_lowercase()).collect()
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'-' | b'_' | b'.' | b'[' | b']' | b' ')
}
