//! Object storage: requests to S3 and compatible stores.
//!
//! Requests are parsed here ([`Operation`]), and responses are built ([`xml`]); the caller stores
//! the objects. Signatures are not verified: an app signs with its own secret, which is unknown
//! here. But requests must be signed, and in time ([`signed`]).
//!
//! - [`address`]: the bucket and key of a request
//! - [`operation`]: the requested operation
//! - [`signed`]: whether it is signed, and in time
//! - [`chunked`]: bodies that are signed in chunks
//! - [`conditions`]: ranges and conditions
//! - [`form`]: form uploads of browsers
//! - [`azure`]: the basics of Azure Blob Storage
//! - [`gcs`]: the JSON API of Google Cloud Storage
//! - [`media`]: the dimensions of images
//! - [`notify`]: notifications of changes
//! - [`tags`]: tags of objects
//! - [`xml`]: XML requests and responses

pub mod address;
pub mod azure;
pub mod chunked;
pub mod conditions;
pub mod form;
pub mod gcs;
pub mod media;
pub mod notify;
pub mod operation;
pub mod signed;
pub mod tags;
pub mod xml;

pub use address::{Place, knows, place};
pub use operation::{List, Operation};

/// A request from an app, without its body.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub host: &'a str,
    pub method: &'a str,
    /// The raw path.
    pub path: &'a str,
    pub query: &'a str,
    pub headers: &'a [(String, Vec<u8>)],
}

impl<'a> Asked<'a> {
    /// Returns a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| std::str::from_utf8(value).ok()).map(str::trim)
    }

    /// Returns a parameter of the query, decoded; empty for one without a value.
    pub fn parameter(&self, name: &str) -> Option<String> {
        parameters(self.query).find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// Returns the parameters of a query, decoded.
pub(crate) fn parameters(query: &str) -> impl Iterator<Item = (String, String)> {
    query.split('&').filter(|part| !part.is_empty()).map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decoded(&name.replace('+', " ")), decoded(&value.replace('+', " ")))
    })
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// An error of S3.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ObjectError {
    pub status: u16,
    pub code: &'static str,
    pub message: String,
}

impl ObjectError {
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub fn no_such_bucket(bucket: &str) -> Self {
        Self::new(404, "NoSuchBucket", format!("there is no bucket `{bucket}`"))
    }

    pub fn no_such_key(key: &str) -> Self {
        Self::new(404, "NoSuchKey", format!("there is no object `{key}`"))
    }

    pub fn no_such_upload() -> Self {
        Self::new(404, "NoSuchUpload", "there is no such upload; it was completed or aborted")
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "InvalidRequest", message)
    }

    pub fn malformed_xml() -> Self {
        Self::new(400, "MalformedXML", "the XML of the request is not what this call expects")
    }

    /// Builds the error of an unsupported operation, which is refused rather than ignored.
    pub fn not_here(what: &str) -> Self {
        Self::new(
            501,
            "NotImplemented",
            format!("the object store of this sandbox has no {what}; see docs/objects.md"),
        )
    }
}
