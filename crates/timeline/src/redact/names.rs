//! Field names that identify a credential, or a person.

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

/// The maximum length of a name that is checked.
const LONGEST: usize = 100;

/// Whether a field with this name is a credential.
pub(crate) fn is_sensitive(name: &str) -> bool {
    if name.len() > LONGEST || name.len() < 3 {
        return false;
    }
    let plain = plain(name);
    WHOLE.contains(&plain.as_str()) || ENDS.iter().any(|end| plain.ends_with(end))
}

/// Whether a field with this name identifies a person.
pub(super) fn is_person(name: &str) -> bool {
    name.len() <= LONGEST && PEOPLE.contains(&plain(name).trim_start_matches('$'))
}

/// Whether a field with this name describes a person, so that a `name` in it is theirs.
pub(super) fn is_traits(name: &str) -> bool {
    let plain = plain(name);
    ["set", "setonce", "traits", "userproperties"].contains(&plain.trim_start_matches('$'))
}

/// Whether a text is an e-mail address and nothing else.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim();
    text.len() <= 254
        && !text.contains(char::is_whitespace)
        && text.split_once('@').is_some_and(|(name, host)| {
            !name.is_empty() && host.contains('.') && !host.contains(['@', '/'])
        })
}

fn plain(name: &str) -> String {
    let kept = name.chars().filter(|c| !matches!(c, '-' | '_' | '.' | '[' | ']' | ' '));
    kept.map(|c| c.to_ascii_lowercase()).collect()
}
