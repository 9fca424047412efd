//! The requested operation of an object store.

use super::{Asked, ObjectError, Place, decoded};

/// The maximum number of entries per listing.
const MOST: usize = 1000;

/// The maximum part number.
const PARTS: u32 = 10_000;

/// The requested operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A CORS preflight.
    Preflight,
    ListBuckets,
    CreateBucket,
    HeadBucket,
    DeleteBucket,
    BucketLocation,
    ListObjects(List),
    DeleteObjects,
    ListUploads,
    ListVersions(List),
    /// A setting of a bucket or an object that has no effect here, such as `cors` or `tagging`.
    Setting(Setting),
    /// A form upload of a page.
    PostForm,
    PutObject,
    CopyObject {
        bucket: String,
        key: String,
    },
    GetObject,
    HeadObject,
    /// What is known of an object, without its bytes.
    GetAttributes,
    DeleteObject,
    CreateUpload,
    PutPart {
        upload: String,
        number: u32,
    },
    CopyPart {
        upload: String,
        number: u32,
        bucket: String,
        key: String,
    },
    CompleteUpload {
        upload: String,
    },
    AbortUpload {
        upload: String,
    },
    ListParts {
        upload: String,
    },
}

/// The parameters of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    pub version_two: bool,
    pub prefix: String,
    pub delimiter: String,
    /// Only keys after this one.
    pub after: String,
    pub most: usize,
    /// Whether keys are URL-encoded.
    pub encoded: bool,
    /// The client's continuation token, which is echoed.
    pub token: Option<String>,
}

/// A setting that is stored unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub name: &'static str,
    pub act: SettingAct,
}

/// An operation on a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingAct {
    Get,
    Put,
    Delete,
}

/// Settings without an effect here.
const SETTINGS: &[&str] = &[
    "accelerate",
    "acl",
    "cors",
    "encryption",
    "lifecycle",
    "logging",
    "notification",
    "ownershipControls",
    "policy",
    "publicAccessBlock",
    "requestPayment",
    "tagging",
    "versioning",
    "website",
];

/// Refused, because ignoring it would mislead an app.
const REFUSED: &[&str] = &[
    "object-lock",
    "legal-hold",
    "retention",
    "replication",
    "restore",
    "select",
    "torrent",
    "inventory",
    "analytics",
    "metrics",
    "intelligent-tiering",
    "policyStatus",
    "session",
    "metadataTable",
    "metadataConfiguration",
    "abac",
    "renameObject",
];

impl Operation {
    /// Parses the operation on a place.
    pub fn read(asked: &Asked<'_>, place: &Place) -> Result<Self, ObjectError> {
        if asked.method == "OPTIONS" {
            return Ok(Self::Preflight);
        }
        if let Some(refused) = REFUSED.iter().find(|name| asked.parameter(name).is_some()) {
            return Err(ObjectError::not_here(&format!("`{refused}`")));
        }
        if let Some(name) = SETTINGS.iter().find(|name| asked.parameter(name).is_some()) {
            let act = match asked.method {
                "GET" => SettingAct::Get,
                "PUT" => SettingAct::Put,
                "DELETE" => SettingAct::Delete,
                _ => return Err(method(asked)),
            };
            return Ok(Self::Setting(Setting { name, act }));
        }
        match (&place.bucket, &place.key) {
            (None, _) => match asked.method {
                "GET" | "HEAD" => Ok(Self::ListBuckets),
                _ => Err(method(asked)),
            },
            (Some(_), None) => bucket(asked),
            (Some(_), Some(_)) => object(asked),
        }
    }

    /// Returns whether the operation changes anything.
    pub fn writes(&self) -> bool {
        match self {
            Self::Setting(setting) => setting.act != SettingAct::Get,
            Self::Preflight
            | Self::ListBuckets
            | Self::HeadBucket
            | Self::BucketLocation
            | Self::ListObjects(_)
            | Self::ListUploads
            | Self::ListVersions(_)
            | Self::GetObject
            | Self::HeadObject
            | Self::GetAttributes
            | Self::ListParts { .. } => false,
            _ => true,
        }
    }
}

fn bucket(asked: &Asked<'_>) -> Result<Operation, ObjectError> {
    let has = |name| asked.parameter(name).is_some();
    match asked.method {
        "PUT" => Ok(Operation::CreateBucket),
        "HEAD" => Ok(Operation::HeadBucket),
        "DELETE" => Ok(Operation::DeleteBucket),
        "POST" if has("delete") => Ok(Operation::DeleteObjects),
        "POST" => Ok(Operation::PostForm),
        "GET" if has("location") => Ok(Operation::BucketLocation),
        "GET" if has("uploads") => Ok(Operation::ListUploads),
        "GET" if has("versions") => {
            let list = List { after: String::new(), ..list(asked)? };
            if !list.delimiter.is_empty() {
                return Err(ObjectError::not_here("listing of versions by folders"));
            }
            Ok(Operation::ListVersions(list))
        }
        "GET" => Ok(Operation::ListObjects(list(asked)?)),
        _ => Err(method(asked)),
    }
}

fn object(asked: &Asked<'_>) -> Result<Operation, ObjectError> {
    let upload = asked.parameter("uploadId");
    match (asked.method, upload) {
        ("POST", Some(upload)) => Ok(Operation::CompleteUpload { upload }),
        ("DELETE", Some(upload)) => Ok(Operation::AbortUpload { upload }),
        ("GET", Some(upload)) => Ok(Operation::ListParts { upload }),
        ("PUT", Some(upload)) => {
            let number = part_number(asked)?;
            Ok(match source(asked)? {
                Some((bucket, key)) => Operation::CopyPart { upload, number, bucket, key },
                None => Operation::PutPart { upload, number },
            })
        }
        ("POST", None) if asked.parameter("uploads").is_some() => Ok(Operation::CreateUpload),
        ("PUT", None) => Ok(match source(asked)? {
            Some((bucket, key)) => Operation::CopyObject { bucket, key },
            None => Operation::PutObject,
        }),
        ("GET", None) if asked.parameter("attributes").is_some() => Ok(Operation::GetAttributes),
        ("GET", None) => Ok(Operation::GetObject),
        ("HEAD", None) => Ok(Operation::HeadObject),
        ("DELETE", None) => Ok(Operation::DeleteObject),
        _ => Err(method(asked)),
    }
}

fn part_number(asked: &Asked<'_>) -> Result<u32, ObjectError> {
    let number = asked.parameter("partNumber").and_then(|number| number.parse().ok());
    number.filter(|number| (1..=PARTS).contains(number)).ok_or_else(|| {
        let message = format!("`partNumber` is a number from 1 to {PARTS}");
        ObjectError::new(400, "InvalidArgument", message)
    })
}

/// Parses the source of a copy.
fn source(asked: &Asked<'_>) -> Result<Option<(String, String)>, ObjectError> {
    let Some(source) = asked.header("x-amz-copy-source") else { return Ok(None) };
    let (source, version) = source.split_once('?').unwrap_or((source, ""));
    if !version.is_empty() {
        return Err(ObjectError::not_here("versions"));
    }
    let source = decoded(source);
    let source = source.strip_prefix('/').unwrap_or(&source);
    let (bucket, key) = source.split_once('/').ok_or_else(|| {
        ObjectError::new(400, "InvalidArgument", "`x-amz-copy-source` is `bucket/key`")
    })?;
    // Validated like every other place.
    let path = format!("/{bucket}");
    super::place("localhost", &path)?;
    Ok(Some((bucket.to_owned(), key.to_owned())))
}

fn list(asked: &Asked<'_>) -> Result<List, ObjectError> {
    let text = |name| asked.parameter(name).unwrap_or_default();
    let version_two = text("list-type") == "2";
    let most = match asked.parameter("max-keys").filter(|most| !most.is_empty()) {
        Some(most) => most.parse().map_err(|_| {
            ObjectError::new(400, "InvalidArgument", "`max-keys` is a number from 0 to 1000")
        })?,
        None => MOST,
    };
    let token = asked.parameter("continuation-token").filter(|_| version_two);
    let after = match &token {
        Some(token) => token.clone(),
        None if version_two => text("start-after"),
        None => text("marker"),
    };
    Ok(List {
        version_two,
        prefix: text("prefix"),
        delimiter: text("delimiter"),
        after,
        most: most.min(MOST),
        encoded: text("encoding-type") == "url",
        token,
    })
}

fn method(asked: &Asked<'_>) -> ObjectError {
    let message = format!("`{}` is not a method of this resource", asked.method);
    ObjectError::new(405, "MethodNotAllowed", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        method: &str,
        path: &str,
        query: &str,
        headers: &[(&str, &str)],
    ) -> Result<Operation, ObjectError> {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect();
        let asked = Asked { host: "localhost", method, path, query, headers: &headers };
        Operation::read(&asked, &super::super::place("localhost", path)?)
    }

    #[test]
    fn what_clients_send_is_understood() {
        use Operation as Op;
        for (method, path, query, expected) in [
            ("GET", "/", "x-id=ListBuckets", Op::ListBuckets),
            ("PUT", "/goods", "", Op::CreateBucket),
            ("HEAD", "/goods", "", Op::HeadBucket),
            ("GET", "/goods", "location", Op::BucketLocation),
            ("POST", "/goods", "delete", Op::DeleteObjects),
            ("POST", "/goods", "", Op::PostForm),
            ("PUT", "/goods/a", "x-id=PutObject", Op::PutObject),
            ("GET", "/goods/a", "", Op::GetObject),
            ("GET", "/goods/a", "attributes", Op::GetAttributes),
            ("POST", "/goods/a", "uploads", Op::CreateUpload),
            (
                "PUT",
                "/goods/a",
                "partNumber=3&uploadId=u",
                Op::PutPart { upload: "u".into(), number: 3 },
            ),
            ("POST", "/goods/a", "uploadId=u", Op::CompleteUpload { upload: "u".into() }),
            ("DELETE", "/goods/a", "uploadId=u", Op::AbortUpload { upload: "u".into() }),
            ("OPTIONS", "/goods/a", "", Op::Preflight),
        ] {
            assert_eq!(
                read(method, path, query, &[]).unwrap(),
                expected,
                "{method} {path}?{query}"
            );
        }
        let copied = read("PUT", "/goods/b", "", &[("x-amz-copy-source", "/goods/a%20b")]).unwrap();
        assert_eq!(copied, Op::CopyObject { bucket: "goods".into(), key: "a b".into() });
        let listing = "list-type=2&prefix=a%2F&delimiter=%2F&max-keys=5000&encoding-type=url";
        let Op::ListObjects(list) = read("GET", "/goods", listing, &[]).unwrap() else { panic!() };
        assert_eq!((list.prefix.as_str(), list.delimiter.as_str(), list.most), ("a/", "/", 1000));
        assert!(list.version_two && list.encoded);
    }

    #[test]
    fn what_would_be_ignored_to_the_harm_of_an_app_is_refused() {
        for (method, query) in [
            ("PUT", "replication"),
            ("GET", "versions&delimiter=/"),
            ("PUT", "object-lock"),
            ("GET", "policyStatus"),
        ] {
            assert_eq!(read(method, "/goods", query, &[]).unwrap_err().code, "NotImplemented");
        }
        let copy = [("x-amz-copy-source", "/goods/a?versionId=1")];
        assert_eq!(read("PUT", "/goods/b", "", &copy).unwrap_err().code, "NotImplemented");
        let setting = read("GET", "/goods", "versioning", &[]).unwrap();
        assert!(matches!(setting, Operation::Setting(_)) && !setting.writes());
        assert_eq!(
            read("PUT", "/goods/a", "partNumber=0&uploadId=u", &[]).unwrap_err().code,
            "InvalidArgument"
        );
        assert_eq!(read("PATCH", "/goods/a", "", &[]).unwrap_err().status, 405);
        let escape = read("PUT", "/goods/a", "", &[("x-amz-copy-source", "/../a")]).unwrap_err();
        assert_eq!(escape.code, "InvalidBucketName");
    }
}
