//! The JSON API of Google Cloud Storage: parsing requests and describing objects.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hothouse_model::id::unhex;
use serde_json::{Value, json};

use super::{Asked, List, ObjectError, place};

/// The maximum number of entries per listing.
const MOST: usize = 1000;

/// The maximum size of an upload's metadata.
const METADATA_MOST: usize = 64 << 10;

/// The requested operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GcsCall {
    Buckets,
    CreateBucket,
    Bucket(String),
    DeleteBucket(String),
    List(String, List),
    Metadata(GcsPlace),
    Media(GcsPlace),
    Delete(GcsPlace),
    Copy {
        from: GcsPlace,
        to: GcsPlace,
        is_rewrite: bool,
    },
    /// Bytes, and the key in the query.
    UploadMedia(GcsPlace),
    /// Metadata, then bytes.
    UploadMultipart(String),
    /// Bytes that follow in separate requests; the key may be in the metadata.
    BeginUpload {
        bucket: String,
        key: Option<String>,
    },
    ContinueUpload {
        bucket: String,
        upload: String,
    },
    AbortUpload {
        bucket: String,
        upload: String,
    },
}

/// The location of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcsPlace {
    pub bucket: String,
    pub key: String,
}

/// Returns whether a request uses this API.
pub fn is_asked(path: &str) -> bool {
    const ROOTS: [&str; 3] = ["/storage/v1/b", "/upload/storage/v1/b/", "/download/storage/v1/b/"];
    ROOTS.iter().any(|root| path.starts_with(root))
}

/// Parses a request.
pub fn read(asked: &Asked<'_>) -> Result<GcsCall, ObjectError> {
    let path = asked.path.trim_start_matches('/').trim_end_matches('/');
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["upload", "storage", "v1", "b", bucket, "o"] => upload(asked, name(bucket)?),
        ["download", "storage", "v1", "b", bucket, "o", key] => {
            Ok(GcsCall::Media(at(bucket, key)?))
        }
        ["storage", "v1", "b"] => match asked.method {
            "GET" => Ok(GcsCall::Buckets),
            "POST" => Ok(GcsCall::CreateBucket),
            _ => Err(method(asked)),
        },
        ["storage", "v1", "b", bucket] => match asked.method {
            "GET" | "PATCH" | "PUT" => Ok(GcsCall::Bucket(name(bucket)?)),
            "DELETE" => Ok(GcsCall::DeleteBucket(name(bucket)?)),
            _ => Err(method(asked)),
        },
        ["storage", "v1", "b", bucket, "o"] if asked.method == "GET" => {
            Ok(GcsCall::List(name(bucket)?, list(asked)))
        }
        ["storage", "v1", "b", bucket, "o", key] => {
            let at = at(bucket, key)?;
            let is_media = asked.parameter("alt").as_deref() == Some("media");
            match asked.method {
                "GET" if is_media => Ok(GcsCall::Media(at)),
                // Changes of metadata have no effect except in the response.
                "GET" | "PATCH" | "PUT" => Ok(GcsCall::Metadata(at)),
                "DELETE" => Ok(GcsCall::Delete(at)),
                _ => Err(method(asked)),
            }
        }
        ["storage", "v1", "b", bucket, "o", key, verb, "b", to, "o", to_key]
            if matches!(verb, "rewriteTo" | "copyTo") && asked.method == "POST" =>
        {
            let (from, to) = (at(bucket, key)?, at(to, to_key)?);
            Ok(GcsCall::Copy { from, to, is_rewrite: verb == "rewriteTo" })
        }
        _ => Err(ObjectError::not_here("such call of the JSON API of Google Cloud Storage")),
    }
}

fn upload(asked: &Asked<'_>, bucket: String) -> Result<GcsCall, ObjectError> {
    if let Some(upload) = asked.parameter("upload_id") {
        return match asked.method {
            "PUT" | "POST" => Ok(GcsCall::ContinueUpload { bucket, upload }),
            "DELETE" => Ok(GcsCall::AbortUpload { bucket, upload }),
            _ => Err(method(asked)),
        };
    }
    let key = asked.parameter("name");
    match (asked.parameter("uploadType").as_deref(), key) {
        (Some("media"), Some(key)) => Ok(GcsCall::UploadMedia(GcsPlace { bucket, key })),
        (Some("multipart"), _) => Ok(GcsCall::UploadMultipart(bucket)),
        (Some("resumable"), key) => Ok(GcsCall::BeginUpload { bucket, key }),
        _ => Err(ObjectError::invalid("an upload has an `uploadType` and a `name`")),
    }
}

fn name(bucket: &str) -> Result<String, ObjectError> {
    // Validated like every other place.
    let found = place("localhost", &format!("/{bucket}"))?;
    found.bucket.ok_or_else(|| ObjectError::invalid("a bucket has a name"))
}

fn at(bucket: &str, key: &str) -> Result<GcsPlace, ObjectError> {
    let found = place("localhost", &format!("/{}/{key}", name(bucket)?))?;
    let key = found.key.ok_or_else(|| ObjectError::invalid("an object has a name"))?;
    Ok(GcsPlace { bucket: found.bucket.unwrap_or_default(), key })
}

fn list(asked: &Asked<'_>) -> List {
    let text = |name| asked.parameter(name).unwrap_or_default();
    let token = STANDARD.decode(text("pageToken")).ok();
    let most = text("maxResults").parse().unwrap_or(MOST);
    List {
        prefix: text("prefix"),
        delimiter: text("delimiter"),
        after: token.and_then(|token| String::from_utf8(token).ok()).unwrap_or_default(),
        most: most.clamp(1, MOST),
        ..List::default()
    }
}

fn method(asked: &Asked<'_>) -> ObjectError {
    let message = format!("`{}` is not a method of this resource", asked.method);
    ObjectError::new(405, "methodNotAllowed", message)
}

/// The properties of a described object.
#[derive(Clone, Debug, Default)]
pub struct Described<'a> {
    pub at: GcsPlace,
    pub size: u64,
    /// Without quotes.
    pub etag: &'a str,
    /// In base64.
    pub crc32c: Option<&'a str>,
    pub content_type: Option<&'a str>,
    pub metadata: Vec<(&'a str, &'a str)>,
    /// In microseconds since the epoch: the generation.
    pub modified: i64,
    /// In S3's format.
    pub time: String,
}

/// Formats an object.
pub fn object(one: &Described<'_>) -> Value {
    let GcsPlace { bucket, key } = &one.at;
    let encoded: String =
        percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC).collect();
    let link = format!("/storage/v1/b/{bucket}/o/{encoded}");
    let mut tree = json!({
        "kind": "storage#object", "id": format!("{bucket}/{key}/{}", one.modified), "name": key, "bucket": bucket,
        "selfLink": link,
        "generation": one.modified.to_string(), "metageneration": "1", "storageClass": "STANDARD",
        "size": one.size.to_string(), "etag": one.etag, "timeCreated": one.time, "updated": one.time,
        "contentType": one.content_type.unwrap_or("application/octet-stream"),
    });
    if let Some(md5) = md5(one.etag) {
        tree["md5Hash"] = md5.into();
    }
    if let Some(crc32c) = one.crc32c {
        tree["crc32c"] = crc32c.into();
    }
    if !one.metadata.is_empty() {
        let metadata = one.metadata.iter();
        tree["metadata"] =
            metadata.map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    }
    tree
}

/// Returns the MD5 of an object in base64, if its entity tag is an MD5.
pub fn md5(etag: &str) -> Option<String> {
    let bytes = unhex(etag).filter(|bytes| bytes.len() == 16)?;
    Some(STANDARD.encode(bytes))
}

pub fn bucket(name: &str, time: &str) -> Value {
    json!({ "kind": "storage#bucket", "id": name, "name": name, "selfLink": format!("/storage/v1/b/{name}"),
            "projectNumber": "1", "metageneration": "1", "location": "US", "storageClass": "STANDARD", "etag": "CAE=",
            "timeCreated": time, "updated": time, "locationType": "multi-region" })
}

/// Encodes the token where a listing continues.
pub fn token(after: &str) -> String {
    STANDARD.encode(after)
}

/// Formats an error.
pub fn error(error: &ObjectError) -> Value {
    json!({ "error": { "code": error.status, "message": error.message,
                       "errors": [{ "domain": "global", "reason": error.code, "message": error.message }] } })
}

/// The metadata of an upload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcsAbout {
    pub key: Option<String>,
    pub content_type: Option<String>,
    pub metadata: Vec<(String, String)>,
}

/// Parses metadata; invalid metadata counts as empty.
pub fn about(bytes: &[u8]) -> GcsAbout {
    let tree: Value = match bytes.len() <= METADATA_MOST {
        true => serde_json::from_slice(bytes).unwrap_or_default(),
        false => Value::Null,
    };
    let text = |name: &str| tree[name].as_str().map(str::to_owned);
    let metadata = tree["metadata"].as_object().into_iter().flatten();
    GcsAbout {
        key: text("name"),
        content_type: text("contentType"),
        metadata: metadata
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect(),
    }
}

/// Parses an upload of two parts: the metadata, the type of the bytes, and where they are.
pub fn multipart<'b>(
    content_type: &str,
    body: &'b [u8],
) -> Result<(GcsAbout, Option<String>, &'b [u8]), ObjectError> {
    let broken = || ObjectError::invalid("the body is not `multipart/related` with two parts");
    let boundary = content_type.split("boundary=").nth(1).ok_or_else(broken)?;
    let boundary = boundary.split(';').next().unwrap_or_default().trim().trim_matches(['"', '\'']);
    if boundary.is_empty() {
        return Err(broken());
    }
    let mark = format!("--{boundary}");
    let (first, body) = next_part(body, mark.as_bytes()).ok_or_else(broken)?;
    let (_, description) = split_head(first).ok_or_else(broken)?;
    let (second, _) = next_part(body, mark.as_bytes()).ok_or_else(broken)?;
    let (head, bytes) = split_head(second).ok_or_else(broken)?;
    let head = String::from_utf8_lossy(head).into_owned();
    let kind = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-type").then(|| value.trim().to_owned())
    });
    Ok((about(description), kind, bytes))
}

/// Returns what is between a boundary and the next, and the rest starting with that one.
fn next_part<'b>(body: &'b [u8], mark: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let begin = memchr::memmem::find(body, mark)? + mark.len();
    let rest = &body[begin..];
    let rest = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n"))?;
    let end = memchr::memmem::find(rest, mark)?;
    let part = &rest[..end];
    let part = part.strip_suffix(b"\r\n").or_else(|| part.strip_suffix(b"\n")).unwrap_or(part);
    Some((part, &rest[end..]))
}

fn split_head(part: &[u8]) -> Option<(&[u8], &[u8])> {
    for end in [&b"\r\n\r\n"[..], b"\n\n"] {
        if let Some(at) = memchr::memmem::find(part, end) {
            return Some((&part[..at], &part[at + end.len()..]));
        }
    }
    None
}

/// The bytes of an upload in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// From this offset, and nothing follows.
    Last { from: u64 },
    /// From this offset, and more follows.
    More { from: u64 },
    /// None: the client asks for the progress.
    Question { total: Option<u64> },
}

/// Parses the `Content-Range` of an upload.
pub fn chunk(range: Option<&str>) -> Result<Chunk, ObjectError> {
    let Some(range) = range else { return Ok(Chunk::Last { from: 0 }) };
    let wrong = || ObjectError::invalid("`Content-Range` is not `bytes FIRST-LAST/TOTAL`");
    let (span, total) =
        range.strip_prefix("bytes ").and_then(|rest| rest.split_once('/')).ok_or_else(wrong)?;
    let total = match total {
        "*" => None,
        total => Some(total.parse::<u64>().map_err(|_| wrong())?),
    };
    if span == "*" {
        return Ok(Chunk::Question { total });
    }
    let (from, last) = span.split_once('-').ok_or_else(wrong)?;
    let from: u64 = from.parse().map_err(|_| wrong())?;
    if last == "*" {
        return Ok(Chunk::Last { from });
    }
    let last: u64 = last.parse().map_err(|_| wrong())?;
    match total {
        Some(total) if last.checked_add(1) == Some(total) => Ok(Chunk::Last { from }),
        _ => Ok(Chunk::More { from }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, path: &str, query: &str) -> Result<GcsCall, ObjectError> {
        read(&Asked { host: "storage.googleapis.com", method, path, query, headers: &[] })
    }

    #[test]
    fn what_clients_send_is_understood() {
        let at = |key: &str| GcsPlace { bucket: "goods".into(), key: key.into() };
        for (method, path, query, expected) in [
            ("GET", "/storage/v1/b", "project=p", GcsCall::Buckets),
            ("POST", "/storage/v1/b", "project=p", GcsCall::CreateBucket),
            ("GET", "/storage/v1/b/goods", "", GcsCall::Bucket("goods".into())),
            ("GET", "/storage/v1/b/goods/o/a%2Fb%20c", "", GcsCall::Metadata(at("a/b c"))),
            ("GET", "/storage/v1/b/goods/o/a", "alt=media", GcsCall::Media(at("a"))),
            ("GET", "/download/storage/v1/b/goods/o/a", "alt=media", GcsCall::Media(at("a"))),
            ("DELETE", "/storage/v1/b/goods/o/a", "", GcsCall::Delete(at("a"))),
            (
                "POST",
                "/upload/storage/v1/b/goods/o",
                "uploadType=media&name=a",
                GcsCall::UploadMedia(at("a")),
            ),
            (
                "POST",
                "/upload/storage/v1/b/goods/o",
                "uploadType=multipart",
                GcsCall::UploadMultipart("goods".into()),
            ),
            (
                "PUT",
                "/upload/storage/v1/b/goods/o",
                "uploadType=resumable&upload_id=7",
                GcsCall::ContinueUpload { bucket: "goods".into(), upload: "7".into() },
            ),
            (
                "POST",
                "/storage/v1/b/goods/o/a/rewriteTo/b/goods/o/b",
                "",
                GcsCall::Copy { from: at("a"), to: at("b"), is_rewrite: true },
            ),
        ] {
            assert_eq!(call(method, path, query), Ok(expected), "{method} {path}?{query}");
        }
        for path in
            ["/storage/v1/b/..%2F..", "/storage/v1/b/../o/a", "/upload/storage/v1/b/a%2Fb/o"]
        {
            assert!(call("GET", path, "").is_err(), "{path}");
        }
        assert!(
            is_asked("/storage/v1/b/x")
                && !is_asked("/storage/a")
                && !is_asked("/goods/storage/v1/b")
        );
    }

    #[test]
    fn an_upload_of_two_parts_is_taken_apart() {
        let body = b"--b1\r\nContent-Type: application/json\r\n\r\n{\"name\":\"a\",\"metadata\":{\"k\":\"v\"}}\r\n--b1\r\n\
            Content-Type: image/png\r\n\r\n\x89PNG\r\n--b2 is no end\r\n--b1--\r\n";
        let (about, kind, bytes) = multipart("multipart/related; boundary=\"b1\"", body).unwrap();
        assert_eq!((about.key.as_deref(), kind.as_deref()), (Some("a"), Some("image/png")));
        assert_eq!(about.metadata, [("k".to_owned(), "v".to_owned())]);
        assert_eq!(bytes, b"\x89PNG\r\n--b2 is no end");
        for (kind, body) in [
            ("multipart/related", &body[..]),
            ("x; boundary=b1", b"--b1\r\n\r\nx"),
            ("x; boundary=", body),
        ] {
            assert!(multipart(kind, body).is_err());
        }
    }

    #[test]
    fn parts_of_uploads_say_whether_more_follows() {
        for (range, expected) in [
            (None, Chunk::Last { from: 0 }),
            (Some("bytes 0-*/*"), Chunk::Last { from: 0 }),
            (Some("bytes 0-9/10"), Chunk::Last { from: 0 }),
            (Some("bytes 0-9/20"), Chunk::More { from: 0 }),
            (Some("bytes 10-19/*"), Chunk::More { from: 10 }),
            (Some("bytes */20"), Chunk::Question { total: Some(20) }),
            (Some("bytes */*"), Chunk::Question { total: None }),
        ] {
            assert_eq!(chunk(range), Ok(expected), "{range:?}");
        }
        for range in ["bytes", "bytes a-b/c", "bytes 1/2", "0-1/2"] {
            assert!(chunk(Some(range)).is_err(), "{range}");
        }
    }
}
