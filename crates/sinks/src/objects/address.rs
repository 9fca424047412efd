//! The bucket and key of a request, from its host and path.

use super::{ObjectError, decoded};

/// The maximum length of a key, in bytes.
const KEY_LIMIT: usize = 1024;

/// The bucket and key of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub bucket: Option<String>,
    pub key: Option<String>,
    /// Whether the host names the bucket, as in production.
    pub by_host: bool,
}

/// Vendors besides AWS: the suffix of their hosts, and how many labels before it belong to the
/// endpoint.
const VENDORS: &[(&str, usize)] = &[
    (".r2.cloudflarestorage.com", 1),
    (".digitaloceanspaces.com", 1),
    (".linodeobjects.com", 1),
    (".vultrobjects.com", 1),
    (".wasabisys.com", 2),
    (".backblazeb2.com", 2),
    (".scw.cloud", 2),
];

/// Returns whether a host belongs to an S3-compatible object store.
pub fn knows(host: &str) -> bool {
    bucket_of(host).is_some()
}

/// Returns the bucket in the host name of an object store: `Some(None)` if it names none.
fn bucket_of(host: &str) -> Option<Option<&str>> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let aws = host.strip_suffix(".cn").unwrap_or(host).strip_suffix(".amazonaws.com");
    if let Some(front) = aws {
        return aws_bucket(front);
    }
    if host == "storage.googleapis.com" {
        return Some(None);
    }
    if let Some(bucket) = host.strip_suffix(".storage.googleapis.com") {
        return Some(Some(bucket));
    }
    VENDORS.iter().find_map(|(end, labels)| {
        let front = host.strip_suffix(end)?;
        let before = front.rmatch_indices('.').nth(labels - 1).map(|(at, _)| &front[..at]);
        (front.split('.').count() >= *labels).then_some(before)
    })
}

/// Parses `s3`, `s3.REGION`, `s3-REGION`, `s3.dualstack.REGION`, each optionally preceded by
/// `BUCKET.`
fn aws_bucket(front: &str) -> Option<Option<&str>> {
    let labels: Vec<&str> = front.split('.').collect();
    let at = labels.iter().rposition(|label| *label == "s3" || label.starts_with("s3-"))?;
    let is_endpoint = match labels[at + 1..] {
        [] => true,
        [region] => !region.is_empty(),
        ["dualstack", _] => labels[at] == "s3",
        _ => false,
    };
    let length: usize = labels[..at].iter().map(|label| label.len() + 1).sum();
    is_endpoint.then(|| (at > 0).then(|| &front[..length - 1]))
}

/// Parses the bucket and key of a request. A host that belongs to no vendor is one of the room's
/// own, with buckets in paths.
pub fn place(host: &str, path: &str) -> Result<Place, ObjectError> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let (bucket, key, by_host) = match bucket_of(host).flatten() {
        Some(bucket) => (bucket.to_owned(), path, true),
        None => {
            let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
            (decoded(bucket), key, false)
        }
    };
    let key = decoded(key);
    if key.len() > KEY_LIMIT {
        let message = format!("a key has at most {KEY_LIMIT} bytes");
        return Err(ObjectError::new(400, "KeyTooLongError", message));
    }
    let bucket = (!bucket.is_empty()).then_some(bucket);
    if let Some(bucket) = bucket.as_deref().filter(|bucket| !is_bucket_name(bucket)) {
        let message = format!("`{bucket}` is not a valid name of a bucket");
        return Err(ObjectError::new(400, "InvalidBucketName", message));
    }
    Ok(Place { bucket, key: (!key.is_empty()).then_some(key), by_host })
}

/// Returns whether a bucket name is valid as a folder name too: letters, digits, dots, dashes and
/// (in old buckets) underscores.
fn is_bucket_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (3..=63).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.starts_with(['.', '-'])
        && !name.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_object_stores_are_known_with_the_bucket_they_name() {
        for (host, bucket) in [
            ("s3.amazonaws.com", Some(None)),
            ("s3.us-east-1.amazonaws.com", Some(None)),
            ("s3-eu-west-1.amazonaws.com", Some(None)),
            ("s3.dualstack.eu-west-1.amazonaws.com", Some(None)),
            ("s3.cn-north-1.amazonaws.com.cn", Some(None)),
            ("acme-goods.s3.us-east-1.amazonaws.com", Some(Some("acme-goods"))),
            ("a.b.s3.amazonaws.com", Some(Some("a.b"))),
            ("s3.s3.us-east-1.amazonaws.com", Some(Some("s3"))),
            ("sns.us-east-1.amazonaws.com", None),
            ("amazonaws.com", None),
            ("s3.us-east-1.amazonaws.com.evil.example", None),
            ("abc.r2.cloudflarestorage.com", Some(None)),
            ("pics.abc.r2.cloudflarestorage.com", Some(Some("pics"))),
            ("fra1.digitaloceanspaces.com", Some(None)),
            ("pics.fra1.digitaloceanspaces.com", Some(Some("pics"))),
            ("s3.eu-central-1.wasabisys.com", Some(None)),
            ("pics.s3.eu-central-1.wasabisys.com", Some(Some("pics"))),
            ("wasabisys.com", None),
            ("storage.googleapis.com", Some(None)),
            ("pics.storage.googleapis.com", Some(Some("pics"))),
            ("example.com", None),
        ] {
            assert_eq!(bucket_of(host), bucket, "{host}");
        }
    }

    #[test]
    fn a_place_is_read_from_host_or_path() {
        let check = |host: &str, path: &str, bucket: Option<&str>, key: Option<&str>| {
            let found = place(host, path).unwrap();
            assert_eq!((found.bucket.as_deref(), found.key.as_deref()), (bucket, key), "{path}");
        };
        check("localhost", "/", None, None);
        check("localhost", "/goods", Some("goods"), None);
        check("localhost", "/goods/", Some("goods"), None);
        check("localhost", "/goods/a/b%20c+d", Some("goods"), Some("a/b c+d"));
        check("goods.s3.amazonaws.com", "/a//b", Some("goods"), Some("a//b"));
        check("goods.s3.amazonaws.com", "/../x", Some("goods"), Some("../x"));
    }

    #[test]
    fn names_that_could_leave_the_folder_of_buckets_are_refused() {
        for path in
            ["/../x", "/..", "/a%2fb/c", "/.hid/x", "/ab", "/a b c/x", "/a..b/x", "/abc%00/x"]
        {
            let error = place("localhost", path).unwrap_err();
            assert_eq!(error.code, "InvalidBucketName", "{path}");
        }
        let long = format!("/goods/{}", "k".repeat(1025));
        assert_eq!(place("localhost", &long).unwrap_err().code, "KeyTooLongError");
    }
}
