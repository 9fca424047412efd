//! Image names: `postgres:16`, `ghcr.io/acme/db@sha256:…`, `oci:PATH`, `archive:FILE`.

use std::{fmt, path::PathBuf, str::FromStr};

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageReference {
    Registry {
        host: String,
        name: String,
        target: TagOrDigest,
    },
    /// A folder in the OCI image layout.
    Layout(PathBuf),
    /// A `docker save` file, or a layout in a tar file.
    Archive(PathBuf),
}

/// Which image of a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TagOrDigest {
    Tag(String),
    Digest(String),
}

/// A text that is not a valid image name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an image: {why}")]
pub struct BadReference {
    text: String,
    why: &'static str,
}

/// The default registry.
const USUAL_HOST: &str = "registry-1.docker.io";

impl FromStr for ImageReference {
    type Err = BadReference;

    fn from_str(text: &str) -> Result<Self, BadReference> {
        let bad = |why| BadReference { text: text.chars().take(80).collect(), why };
        if let Some(path) = text.strip_prefix("oci:") {
            return Ok(Self::Layout(path.into()));
        }
        if let Some(path) =
            text.strip_prefix("archive:").or_else(|| text.strip_prefix("docker-archive:"))
        {
            return Ok(Self::Archive(path.into()));
        }
        let bare = text.strip_prefix("docker://").unwrap_or(text);
        let (rest, digest) = match bare.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (bare, None),
        };
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err(bad("its digest is not `sha256:` and 64 hexadecimal digits"));
        }
        let (host, path) = match rest.split_once('/') {
            Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path),
            _ => ("docker.io", rest),
        };
        let (name, tag) = match path.rsplit_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (path, None),
        };
        let is_part = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
                && !part.starts_with('.')
        };
        if !name.split('/').all(is_part) || name.len() > 200 {
            return Err(bad("names are small letters, digits, `.`, `_`, `-` and `/`"));
        }
        if tag.is_some_and(|tag| {
            tag.is_empty()
                || tag.len() > 128
                || !tag.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        }) {
            return Err(bad("its tag is not letters, digits, `.`, `_` and `-`"));
        }
        let begins_well = host.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !begins_well || !host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:".contains(&b)) {
            return Err(bad("its registry is not a host"));
        }
        let is_usual = matches!(host, "docker.io" | "index.docker.io");
        let name = if is_usual && !name.contains('/') {
            format!("library/{name}")
        } else {
            name.to_owned()
        };
        let host = if is_usual { USUAL_HOST } else { host };
        let target = match digest {
            Some(digest) => TagOrDigest::Digest(digest.to_owned()),
            None => TagOrDigest::Tag(tag.unwrap_or("latest").to_owned()),
        };
        Ok(Self::Registry { host: host.to_owned(), name, target })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry { host, name, target: TagOrDigest::Tag(tag) } => {
                write!(f, "{host}/{name}:{tag}")
            }
            Self::Registry { host, name, target: TagOrDigest::Digest(digest) } => {
                write!(f, "{host}/{name}@{digest}")
            }
            Self::Layout(path) => write!(f, "oci:{}", path.display()),
            Self::Archive(path) => write!(f, "archive:{}", path.display()),
        }
    }
}

/// Returns whether a text is a digest that can be verified.
pub(crate) fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:").unwrap_or_default();
    hex.len() == 64
        && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_docker_reads_them() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (text, expected) in [
            ("postgres:16", "registry-1.docker.io/library/postgres:16".to_owned()),
            ("acme/db", "registry-1.docker.io/acme/db:latest".to_owned()),
            ("localhost:5000/db:1", "localhost:5000/db:1".to_owned()),
            ("ghcr.io/a/b", "ghcr.io/a/b:latest".to_owned()),
            ("oci:/tmp/x", "oci:/tmp/x".to_owned()),
        ] {
            assert_eq!(text.parse::<ImageReference>().unwrap().to_string(), expected);
        }
        let pinned = format!("ghcr.io/a/b:1@{digest}");
        assert_eq!(
            pinned.parse::<ImageReference>().unwrap().to_string(),
            format!("ghcr.io/a/b@{digest}")
        );
        for bad in ["", "UPPER", "a:b c", "a@sha256:12", "../x", "a//b", "h\n.x/y"] {
            assert!(bad.parse::<ImageReference>().is_err(), "{bad}");
        }
    }
}
