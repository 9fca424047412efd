//! Browser policies in a room: host names are not encrypted, and the room's CA is trusted.
//!
//! Browsers send a (possibly empty) encrypted SNI, which a wall that decides by name must refuse,
//! and bring their own list of CAs. Both can be configured with policy files below `/etc`. The
//! host's policies are kept, next to ours or merged with them.

use serde_json::{Map, Value, json};

/// The policy file for Chromium and its derivatives, below `/etc`; each browser's folder contains a
/// link to it. A room with a CA has its own version.
pub(super) const CHROMIUM: &str = "ssl/certs/hothouse-chromium.json";

/// Policy folders of Chromium and its derivatives, below `/etc`.
pub(super) const CHROMIUM_FOLDERS: [&str; 6] = [
    "chromium/policies/managed",
    "chromium-browser/policies/managed",
    "opt/chrome/policies/managed",
    "opt/chrome_for_testing/policies/managed",
    "opt/edge/policies/managed",
    "brave/policies/managed",
];

/// The name of our policy file among the host's. If two files set the same policy, Chromium uses
/// the one whose name sorts last.
pub(super) const CHROMIUM_NAME: &str = "zz-hothouse.json";

/// The policy file for Firefox, below `/etc`. There can be only one.
pub(super) const FIREFOX: &str = "firefox/policies/policies.json";

/// Firefox settings that have no policy, below `/etc`: for Mozilla's build and for Debian's.
pub(super) const FIREFOX_SETTINGS: [&str; 2] =
    ["firefox/defaults/pref/hothouse.js", "firefox-esr/hothouse.js"];

/// Disables empty encrypted names too, because a ClientHello with one looks like one with a real name.
pub(super) const FIREFOX_SETTINGS_TEXT: &str =
    "// Hothouse: the wall of a room decides by host names, so they must be sent in the clear.
pref(\"network.dns.echconfig.enabled\", false);
pref(\"network.dns.http3_echconfig.enabled\", false);
pref(\"security.tls.ech.grease_probability\", 0);
pref(\"security.tls.ech.grease_http3\", false);
";

/// The room's certificates for Firefox, which reads one certificate per file, below `/etc`.
pub(super) const FIREFOX_CERTIFICATES: [&str; 2] =
    ["ssl/certs/hothouse-1.pem", "ssl/certs/hothouse-2.pem"];

const AUTHORITIES: &str = "CACertificates";

/// Returns the Chromium policies for every room. `hosts` are the host's policy files: one list of
/// CAs replaces another, so ours must include theirs.
pub(super) fn chromium(hosts: &[String]) -> String {
    let mut policies = Map::new();
    policies.insert("EncryptedClientHelloEnabled".into(), json!(false));
    policies.insert("DnsOverHttpsMode".into(), json!("off"));
    let known = hosts.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let trusted: Vec<Value> =
        known.filter_map(|it| it.get(AUTHORITIES)?.as_array().cloned()).flatten().collect();
    if !trusted.is_empty() {
        policies.insert(AUTHORITIES.into(), trusted.into());
    }
    Value::Object(policies).to_string() + "\n"
}

/// Adds a room's CAs to the policies for every room.
pub(super) fn chromium_trusting(policies: &str, ca: &str) -> Option<String> {
    let mut policies: Value = serde_json::from_str(policies).ok()?;
    let trusted = policies.as_object_mut()?.entry(AUTHORITIES).or_insert_with(|| json!([]));
    let bodies = certificates(ca).map(|pem| {
        pem.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect::<String>()
    });
    trusted.as_array_mut()?.extend(bodies.map(Value::String));
    Some(policies.to_string() + "\n")
}

/// Returns the host's Firefox policies with ours added, unless they cannot be parsed.
pub(super) fn firefox(hosts: Option<&str>) -> Option<String> {
    let mut all: Value = match hosts {
        Some(text) => serde_json::from_str(text).ok()?,
        None => json!({}),
    };
    let policies = all.as_object_mut()?.entry("policies").or_insert_with(|| json!({}));
    let policies = policies.as_object_mut()?;
    policies.insert("DisableEncryptedClientHello".into(), json!(true));
    policies.insert("DNSOverHTTPS".into(), json!({ "Enabled": false, "Locked": true }));
    let trusted = policies.entry("Certificates").or_insert_with(|| json!({})).as_object_mut()?;
    let trusted = trusted.entry("Install").or_insert_with(|| json!([])).as_array_mut()?;
    trusted.extend(FIREFOX_CERTIFICATES.map(|file| format!("/etc/{file}").into()));
    Some(all.to_string() + "\n")
}

/// Splits a PEM text into its certificates.
pub(super) fn certificates(pem: &str) -> impl Iterator<Item = &str> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----\n";
    pem.match_indices(BEGIN).filter_map(|(from, _)| {
        let rest = &pem[from..];
        let end = rest.find(END.trim_end())? + END.len();
        Some(rest.get(..end).unwrap_or(rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "-----BEGIN CERTIFICATE-----\nAA\nBB\n-----END CERTIFICATE-----\n\
                       -----BEGIN CERTIFICATE-----\nCC\n-----END CERTIFICATE-----";

    fn read(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn certificates_are_taken_apart() {
        let all: Vec<&str> = certificates(TWO).collect();
        assert_eq!(all.len(), 2);
        assert!(all[0].ends_with("-----END CERTIFICATE-----\n") && all[0].contains("BB"));
        assert!(all[1].ends_with("-----END CERTIFICATE-----") && all[1].contains("CC"));
        assert_eq!(certificates("-----BEGIN CERTIFICATE-----\nAA").count(), 0);
    }

    #[test]
    fn chromium_trusts_the_hosts_cas_and_the_rooms() {
        let plain = read(&chromium(&["{\"HomepageLocation\":\"x\"}".into(), "nonsense".into()]));
        assert_eq!(plain, json!({"EncryptedClientHelloEnabled": false, "DnsOverHttpsMode": "off"}));
        let every = chromium(&["{\"CACertificates\":[\"HOST\"]}".into()]);
        let room = read(&chromium_trusting(&every, TWO).unwrap());
        assert_eq!(room["CACertificates"], json!(["HOST", "AABB", "CC"]));
        assert_eq!(room["EncryptedClientHelloEnabled"], false);
    }

    #[test]
    fn firefox_keeps_what_the_host_says() {
        let hosts =
            r#"{"policies": {"DisableTelemetry": true, "Certificates": {"Install": ["a.pem"]}}}"#;
        let policies = read(&firefox(Some(hosts)).unwrap())["policies"].clone();
        assert_eq!(policies["DisableTelemetry"], true);
        assert_eq!(policies["Certificates"]["Install"].as_array().unwrap().len(), 3);
        assert_eq!(read(&firefox(None).unwrap())["policies"]["DNSOverHTTPS"]["Enabled"], false);
        assert_eq!(firefox(Some("not json")), None);
        assert_eq!(firefox(Some("[]")), None);
    }
}
