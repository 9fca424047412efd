//! The CA that a room trusts in addition to the host's: added to the system's certificate bundle,
//! which most programs use, and to the policies of browsers, which do not.
//!
//! It is written beneath the overlay, into folders that the room's root may have changed. Links are
//! never followed, and a room that damaged its own bundle still starts, without the CA.

use super::browsers::{self, CHROMIUM, FIREFOX_CERTIFICATES};
use hothouse_host::{FileError, beneath::Folder};
use std::path::Path;

/// The certificate bundles of common systems, below `/etc`. Those that are links are left alone.
pub const CERTIFICATE_BUNDLES: [&str; 4] = [
    "ssl/certs/ca-certificates.crt",
    "pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "ssl/ca-bundle.pem",
    "ssl/cert.pem",
];

/// The CA certificate alone, below `/etc`, for programs that take an additional file.
pub const CA_ALONE: &str = "ssl/certs/hothouse.pem";

/// Debian includes this file, below `/usr`, when it regenerates its bundle.
const DEBIAN: &str = "local/share/ca-certificates/hothouse.crt";

/// The size limit of a bundle.
const MOST: u64 = 4 << 20;

const BEGIN: &str = "# Hothouse: the CA of terminated hosts\n";
const END: &str = "# Hothouse: end\n";

/// Adds a CA to the system folder `name` of a room, or removes it.
pub(super) fn apply(name: &str, upper: &Path, below: &[&Path], ca: Option<&str>) {
    let applied = match name {
        "etc" => etc(upper, below, ca),
        "usr" => Folder::open(upper).and_then(|own| put(&own, DEBIAN, ca)),
        _ => Ok(()),
    };
    // Only the room can cause a failure, and only the room is affected.
    applied.ok();
}

/// `below` contains the layers below the room's own, uppermost first.
fn etc(upper: &Path, below: &[&Path], ca: Option<&str>) -> Result<(), FileError> {
    let own = Folder::open(upper)?;
    let below = below.iter().map(|layer| Folder::open(layer)).collect::<Result<Vec<_>, _>>()?;
    let found = |file: &Path| below.iter().find_map(|layer| text(layer, file));
    for bundle in CERTIFICATE_BUNDLES.map(Path::new) {
        let lower = || ca.and_then(|_| found(bundle));
        let Some(before) = text(&own, bundle).or_else(lower) else { continue };
        let after = with_ca(&before, ca);
        if after != before {
            own.make_folders(bundle.parent().unwrap_or(bundle))?;
            own.write(bundle, after.as_bytes(), 0o644)?;
        }
    }
    let chromium = ca.and_then(|it| {
        let every = found(Path::new(CHROMIUM)).unwrap_or_default();
        browsers::chromium_trusting(&every, it)
    });
    put(&own, CHROMIUM, chromium.as_deref())?;
    let mut certificates = ca.map(browsers::certificates);
    for file in FIREFOX_CERTIFICATES {
        put(&own, file, certificates.as_mut().and_then(Iterator::next))?;
    }
    put(&own, CA_ALONE, ca)
}

/// Writes one of our files to the room's own layer, or removes it.
fn put(own: &Folder, file: &str, content: Option<&str>) -> Result<(), FileError> {
    let file = Path::new(file);
    let known = text(own, file);
    match content {
        Some(content) if known.as_deref() != Some(content) => {
            own.make_folders(file.parent().unwrap_or(file))?;
            own.write(file, content.as_bytes(), 0o644)
        }
        None if known.is_some() => own.remove_file(file),
        _ => Ok(()),
    }
}

/// Reads a regular file; ignores anything else that the room put in its place.
fn text(folder: &Folder, file: &Path) -> Option<String> {
    String::from_utf8(folder.read_capped(file, MOST).ok()?).ok()
}

/// Appends a CA to a bundle, replacing the previous one.
fn with_ca(bundle: &str, ca: Option<&str>) -> String {
    let mut text = bundle.to_owned();
    while let Some(begin) = text.find(BEGIN) {
        let end = text[begin..].find(END).map_or(text.len(), |end| begin + end + END.len());
        text.replace_range(begin..end, "");
    }
    if let Some(ca) = ca {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(BEGIN);
        text.push_str(ca.trim_end());
        text.push('\n');
        text.push_str(END);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hothouse_host::files;

    #[test]
    fn a_ca_stands_once_and_goes_again() {
        let with = with_ca("one\n", Some("A\n"));
        assert_eq!(with, format!("one\n{BEGIN}A\n{END}"));
        assert_eq!(with_ca(&with, Some("A")), with);
        assert_eq!(with_ca(&with, Some("B")), format!("one\n{BEGIN}B\n{END}"));
        assert_eq!(with_ca(&with, None), "one\n");
    }

    #[test]
    fn the_bundle_is_changed_above_and_links_of_the_room_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (upper, base) = (folder.path().join("upper"), folder.path().join("base"));
        files::make_folder(&upper).unwrap();
        files::make_folder(&base.join("ssl/certs")).unwrap();
        let bundle = "ssl/certs/ca-certificates.crt";
        files::replace(&base.join(bundle), b"host\n", 0o644).unwrap();
        files::replace(&base.join(CHROMIUM), b"{}", 0o644).unwrap();
        apply("etc", &upper, &[&base], Some("OURS\n"));
        assert!(files::read_text(&upper.join(bundle)).unwrap().contains("OURS"));
        assert_eq!(files::read_text(&base.join(bundle)).unwrap(), "host\n");
        let chromium = files::read_text(&upper.join(CHROMIUM)).unwrap();
        assert_eq!(chromium, "{\"CACertificates\":[]}\n", "no certificate is in sight");
        apply("etc", &upper, &[&base], None);
        assert_eq!(files::read_text(&upper.join(bundle)).unwrap(), "host\n");
        assert!(!files::exists(&upper.join(CA_ALONE)));
        assert!(!files::exists(&upper.join(FIREFOX_CERTIFICATES[0])));

        files::remove_tree(&upper.join("ssl")).unwrap();
        let outside = folder.path().join("outside");
        files::make_folder(&outside.join("certs")).unwrap();
        std::os::unix::fs::symlink(&outside, upper.join("ssl")).unwrap();
        apply("etc", &upper, &[&base], Some("OURS\n"));
        assert!(files::list(&outside.join("certs")).unwrap().is_empty());
    }
}
