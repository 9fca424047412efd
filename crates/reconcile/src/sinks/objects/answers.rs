//! Responses for clients of object stores. Pure, except for files that are passed on.

use std::{collections::BTreeMap, fs::File};

use bytes::Bytes;
use hothouse_objects::{About, Deleted, Digests, Expected, Object, StoreError};
use hothouse_sinks::objects::{
    Asked, ObjectError,
    conditions::Wanted,
    form::Upload,
    operation::{Setting, SettingAct},
    tags::{self, Tags},
    xml,
};
use hothouse_terminate::{AnswerBody, StreamedAnswer};
use jiff::Timestamp;

/// The fixture named in the request's record.
const FIXTURE: &str = "s3";

/// Headers of an object that are returned unchanged.
const KEPT: &[&str] =
    &["cache-control", "content-disposition", "content-encoding", "content-language", "expires"];

/// The maximum size of metadata.
const METADATA_LIMIT: usize = 8 << 10;

/// Answers with XML.
pub(super) fn text(status: u16, xml: String) -> StreamedAnswer {
    StreamedAnswer {
        status,
        headers: vec![("content-type".into(), "application/xml".into())],
        body: AnswerBody::Bytes(Bytes::from(xml)),
        fixture: FIXTURE.into(),
    }
}

/// Answers without a body.
pub(super) fn empty(status: u16, headers: &[(&str, String)]) -> StreamedAnswer {
    StreamedAnswer {
        status,
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        body: AnswerBody::Bytes(Bytes::new()),
        fixture: FIXTURE.into(),
    }
}

pub(super) fn failed(error: &ObjectError, path: &str) -> StreamedAnswer {
    text(error.status, xml::error(error, path, "hothouse"))
}

/// Answers a CORS preflight. In production the bucket's settings decide; here every page is
/// allowed.
pub(super) fn preflight() -> StreamedAnswer {
    empty(200, &[])
}

/// Allows the requesting page to read the response.
pub(super) fn share(answer: &mut StreamedAnswer, asked: &Asked<'_>) {
    let Some(origin) = asked.header("origin") else { return };
    let wanted = asked.header("access-control-request-headers").unwrap_or("*");
    for (name, value) in [
        ("access-control-allow-origin", origin),
        ("access-control-allow-methods", "GET, HEAD, PUT, POST, DELETE"),
        ("access-control-allow-headers", wanted),
        ("access-control-expose-headers", "ETag, x-amz-request-id"),
        ("access-control-max-age", "3000"),
        ("vary", "Origin"),
    ] {
        answer.headers.push((name.into(), value.into()));
    }
}

/// Reads the properties of an object from a request.
pub(super) fn about(asked: &Asked<'_>) -> Result<About, StoreError> {
    let kept = KEPT.iter().filter_map(|name| {
        let value = asked.header(name)?;
        // The transfer encoding is not stored.
        let plain = value.split(',').map(str::trim).filter(|one| *one != "aws-chunked");
        let value = if *name == "content-encoding" {
            plain.collect::<Vec<_>>().join(", ")
        } else {
            value.into()
        };
        (!value.is_empty()).then(|| ((*name).to_owned(), value))
    });
    let mut left = METADATA_LIMIT;
    let metadata = asked.headers.iter().filter_map(|(name, value)| {
        let name = name.to_ascii_lowercase();
        let name = name.strip_prefix("x-amz-meta-")?.to_owned();
        let value = String::from_utf8_lossy(value).into_owned();
        left = left.checked_sub(name.len() + value.len())?;
        Some((name, value))
    });
    Ok(About {
        content_type: asked.header("content-type").map(str::to_owned),
        headers: kept.collect(),
        metadata: metadata.collect(),
        tags: asked.header("x-amz-tagging").map(tags::of_header).transpose()?.unwrap_or_default(),
    })
}

/// Whether a header or trailer is the checksum of an object.
pub(super) fn is_checksum(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let kind = name.strip_prefix("x-amz-checksum-");
    kind.is_some_and(|kind| !matches!(kind, "algorithm" | "mode" | "type"))
}

/// Determines the digests that a client sends, as headers or trailers.
pub(super) fn digests(asked: &Asked<'_>) -> Digests {
    let trailers = asked.header("x-amz-trailer").unwrap_or_default();
    let announced = |kind: &str| {
        let name = format!("x-amz-checksum-{kind}");
        asked.header(&name).is_some()
            || trailers.split(',').any(|trailer| trailer.trim().eq_ignore_ascii_case(&name))
    };
    let hash = asked.header("x-amz-content-sha256").is_some_and(|sha| sha.len() == 64);
    Digests {
        crc32: announced("crc32"),
        crc32c: announced("crc32c"),
        sha1: announced("sha1"),
        sha256: announced("sha256") || hash,
    }
}

/// Reads what a client claims about the bytes.
pub(super) fn expected(asked: &Asked<'_>, is_chunked: bool) -> Expected {
    let length = if is_chunked { "x-amz-decoded-content-length" } else { "content-length" };
    let sha256 = asked.header("x-amz-content-sha256").filter(|sha| sha.len() == 64);
    let sums = asked.headers.iter().filter(|(name, _)| is_checksum(name));
    Expected {
        size: asked.header(length).and_then(|length| length.parse().ok()),
        md5: asked.header("content-md5").map(str::to_owned),
        sha256: sha256.map(str::to_owned),
        checksums: sums
            .map(|(name, value)| {
                (name.to_ascii_lowercase(), String::from_utf8_lossy(value).trim().to_owned())
            })
            .collect(),
    }
}

/// Answers that an object is stored.
pub(super) fn stored(object: &Object) -> StreamedAnswer {
    let mut answer = part(&object.etag, &object.checksums);
    answer.headers.extend(version_of(object));
    answer
}

fn version_of(object: &Object) -> Option<(String, String)> {
    object.version.clone().map(|version| ("x-amz-version-id".to_owned(), version))
}

/// Answers that an object was removed, or hidden.
pub(super) fn deleted(deleted: &Deleted) -> StreamedAnswer {
    let mut answer = empty(204, &[]);
    let version = deleted.version.clone().map(|version| ("x-amz-version-id".to_owned(), version));
    answer.headers.extend(version);
    if deleted.is_marker {
        answer.headers.push(("x-amz-delete-marker".into(), "true".into()));
    }
    answer
}

/// Describes a version as a listing has it.
pub(super) fn listed_version((object, is_current): &(Object, bool)) -> xml::ListedVersion {
    xml::ListedVersion {
        object: object.listed(),
        version: object.version_id().to_owned(),
        is_current: *is_current,
        is_marker: object.is_marker,
    }
}

/// Answers that bytes are stored.
pub(super) fn part(etag: &str, checksums: &BTreeMap<String, String>) -> StreamedAnswer {
    let mut answer = empty(200, &[("etag", xml::quoted(etag))]);
    answer.headers.extend(checksums.iter().map(|(name, value)| (name.clone(), value.clone())));
    answer
}

/// Answers that something was copied.
pub(super) fn copied(name: &'static str, etag: &str, modified: Timestamp) -> StreamedAnswer {
    let (etag, modified) = (xml::quoted(etag), hothouse_objects::shown(modified));
    text(200, xml::flat(name, &[("LastModified", &modified), ("ETag", &etag)]))
}

/// Answers with an object, or the requested part of it.
pub(super) fn of_object(
    asked: &Asked<'_>,
    object: &Object,
    (wanted, file): (Wanted, File),
) -> StreamedAnswer {
    let mut headers: Vec<(String, String)> = vec![
        ("etag".into(), xml::quoted(&object.etag)),
        ("last-modified".into(), http_date(object.modified)),
        ("accept-ranges".into(), "bytes".into()),
    ];
    // Overrides in a signed URL take precedence over stored headers.
    let mut shown = object.about.headers.clone();
    let kind = object.about.content_type.clone().unwrap_or_else(|| "binary/octet-stream".into());
    shown.insert("content-type".into(), kind);
    for name in KEPT.iter().chain(&["content-type"]) {
        if let Some(value) = asked.parameter(&format!("response-{name}")) {
            shown.insert((*name).to_owned(), value);
        }
    }
    headers.extend(shown);
    headers.extend(version_of(object));
    let tags = object.about.tags.len();
    headers.extend((tags > 0).then(|| ("x-amz-tagging-count".to_owned(), tags.to_string())));
    let metadata = object.about.metadata.iter();
    headers.extend(metadata.map(|(name, value)| (format!("x-amz-meta-{name}"), value.clone())));
    if wanted == Wanted::Whole && asked.header("x-amz-checksum-mode") == Some("ENABLED") {
        headers.extend(object.checksums.clone());
    }
    let (status, from, length) = match wanted {
        Wanted::Unchanged => (304, 0, 0),
        Wanted::Whole => (200, 0, object.size),
        Wanted::Part(first, last) => {
            let range = format!("bytes {first}-{last}/{}", object.size);
            headers.push(("content-range".into(), range));
            (206, first, last - first + 1)
        }
    };
    let body = AnswerBody::File { file, from, length };
    StreamedAnswer { status, headers, body, fixture: FIXTURE.into() }
}

/// Answers a query for a setting: its value, or the default.
pub(super) fn setting(setting: &Setting, value: Option<String>) -> StreamedAnswer {
    match (setting.act, value) {
        (SettingAct::Put, _) => empty(200, &[]),
        (SettingAct::Delete, _) => empty(204, &[]),
        (SettingAct::Get, Some(value)) => text(200, value),
        (SettingAct::Get, None) => unset(setting.name),
    }
}

fn unset(name: &str) -> StreamedAnswer {
    let missing = |code, what: &str| {
        failed(&ObjectError::new(404, code, format!("the {what} does not exist")), "")
    };
    match name {
        "cors" => missing("NoSuchCORSConfiguration", "CORS configuration"),
        "lifecycle" => missing("NoSuchLifecycleConfiguration", "lifecycle configuration"),
        "policy" => missing("NoSuchBucketPolicy", "bucket policy"),
        "website" => missing("NoSuchWebsiteConfiguration", "website configuration"),
        "encryption" => {
            missing("ServerSideEncryptionConfigurationNotFoundError", "encryption configuration")
        }
        "publicAccessBlock" => {
            missing("NoSuchPublicAccessBlockConfiguration", "public access block configuration")
        }
        "ownershipControls" => missing("OwnershipControlsNotFoundError", "ownership controls"),
        "versioning" => text(200, xml::flat("VersioningConfiguration", &[])),
        "tagging" => tagged(&Tags::new()),
        "acl" => text(200, acl()),
        "notification" => text(200, xml::flat("NotificationConfiguration", &[])),
        "requestPayment" => {
            text(200, xml::flat("RequestPaymentConfiguration", &[("Payer", "BucketOwner")]))
        }
        "accelerate" => text(200, xml::flat("AccelerateConfiguration", &[])),
        _ => text(200, xml::flat("BucketLoggingStatus", &[])),
    }
}

/// Answers with the tags of an object.
pub(super) fn tagged(tags: &Tags) -> StreamedAnswer {
    text(200, xml::tagging(tags))
}

/// Answers with the properties of an object that are asked for.
pub(super) fn attributes(asked: &Asked<'_>, object: &Object) -> StreamedAnswer {
    let wanted = asked
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("x-amz-object-attributes"));
    let wanted: Vec<String> = wanted
        .flat_map(|(_, value)| {
            let value = String::from_utf8_lossy(value);
            value.split(',').map(|name| name.trim().to_ascii_lowercase()).collect::<Vec<_>>()
        })
        .collect();
    let has = |name: &str| wanted.iter().any(|one| one == name);
    let found = xml::Attributes {
        etag: has("etag").then(|| object.etag.clone()),
        checksums: match has("checksum") {
            true => object.checksums.clone().into_iter().collect(),
            false => Vec::new(),
        },
        size: has("objectsize").then_some(object.size),
        storage_class: has("storageclass"),
    };
    let mut answer = text(200, xml::attributes(&found));
    answer.headers.push(("last-modified".into(), http_date(object.modified)));
    answer.headers.extend(version_of(object));
    answer
}

fn acl() -> String {
    let owner = "<ID>hothouse</ID><DisplayName>hothouse</DisplayName>";
    let kind = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\"";
    [
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<AccessControlPolicy><Owner>",
        owner,
        "</Owner><AccessControlList><Grant><Grantee ",
        kind,
        ">",
        owner,
        "</Grantee><Permission>FULL_CONTROL</Permission></Grant></AccessControlList></AccessControlPolicy>",
    ]
    .concat()
}

/// Answers a form upload, as requested by the form.
pub(super) fn posted(
    (bucket, key): (&str, &str),
    upload: &Upload,
    object: &Object,
) -> StreamedAnswer {
    let etag = xml::quoted(&object.etag);
    if let Some(redirect) = &upload.redirect {
        return empty(303, &[("location", redirect.clone()), ("etag", etag)]);
    }
    let location = format!("/{bucket}/{key}");
    let mut answer = match upload.status {
        201 => {
            let texts =
                [("Location", &*location), ("Bucket", bucket), ("Key", key), ("ETag", &*etag)];
            text(201, xml::flat("PostResponse", &texts))
        }
        status => empty(status, &[]),
    };
    answer.headers.push(("etag".into(), etag));
    answer
}

/// Parses the range of a source to copy: its start and length.
pub(super) fn copied_range(range: Option<&str>, size: u64) -> Result<(u64, u64), StoreError> {
    let Some(range) = range else { return Ok((0, size)) };
    let bounds = range.strip_prefix("bytes=").and_then(|spec| spec.split_once('-'));
    let bounds = bounds.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match bounds {
        Some((first, last)) if first <= last && last < size => Ok((first, last - first + 1)),
        _ => {
            let message = "`x-amz-copy-source-range` is not a range of the source";
            Err(ObjectError::new(400, "InvalidArgument", message).into())
        }
    }
}

pub(super) fn http_date(time: Timestamp) -> String {
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
