//! The basics of Azure Blob Storage: parsing requests and building XML responses.
//!
//! A blob is sent at once or in blocks; pages, appends, leases and snapshots are refused.

use super::{Asked, List, ObjectError, place, xml::each_text};

/// The maximum number of entries per listing.
const MOST: usize = 5000;

/// The suffix of production hosts.
const HOST: &str = ".blob.core.windows.net";

/// The requested operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AzureCall {
    Containers,
    CreateContainer(String),
    Container(String),
    DeleteContainer(String),
    List(String, List),
    Put {
        container: String,
        blob: String,
    },
    /// From a URL of the same account.
    Copy {
        container: String,
        blob: String,
        from: (String, String),
    },
    /// A block of a blob, by its name.
    PutBlock {
        container: String,
        blob: String,
        name: String,
    },
    /// Creates a blob from blocks.
    PutBlockList {
        container: String,
        blob: String,
    },
    /// The uncommitted blocks.
    Blocks {
        container: String,
        blob: String,
    },
    Get {
        container: String,
        blob: String,
    },
    Delete {
        container: String,
        blob: String,
    },
}

/// Returns whether a host belongs to this vendor.
pub fn knows(host: &str) -> bool {
    host.ends_with(HOST)
}

/// Returns whether a request uses this API: by its host or, on a port, by the version that every
/// client sends.
pub fn is_asked(asked: &Asked<'_>) -> bool {
    knows(asked.host) || asked.header("x-ms-version").is_some()
}

/// Parses a request.
pub fn read(asked: &Asked<'_>) -> Result<AzureCall, ObjectError> {
    let (container, blob) = place_of(asked.host, asked.path)?;
    let parameter = |name| asked.parameter(name).unwrap_or_default();
    let (kind, part) = (parameter("restype"), parameter("comp"));
    let Some(container) = container else {
        return match (asked.method, part.as_str()) {
            ("GET", "list") => Ok(AzureCall::Containers),
            _ => Err(not_here()),
        };
    };
    if let Some(blob) = blob {
        return of_blob(asked, &part, (container, blob));
    }
    match (asked.method, kind.as_str(), part.as_str()) {
        ("PUT", "container", "") => Ok(AzureCall::CreateContainer(container)),
        ("GET" | "HEAD", "container", "") => Ok(AzureCall::Container(container)),
        ("DELETE", "container", "") => Ok(AzureCall::DeleteContainer(container)),
        ("GET", "container", "list") => {
            let most = parameter("maxresults").parse().unwrap_or(MOST);
            Ok(AzureCall::List(
                container,
                List {
                    prefix: parameter("prefix"),
                    delimiter: parameter("delimiter"),
                    after: parameter("marker"),
                    most: most.clamp(1, MOST),
                    ..List::default()
                },
            ))
        }
        _ => Err(not_here()),
    }
}

fn of_blob(
    asked: &Asked<'_>,
    part: &str,
    (container, blob): (String, String),
) -> Result<AzureCall, ObjectError> {
    match (asked.method, part, asked.parameter("blockid")) {
        ("PUT", "block", Some(name)) => {
            return Ok(AzureCall::PutBlock { container, blob, name });
        }
        ("PUT", "blocklist", _) => return Ok(AzureCall::PutBlockList { container, blob }),
        ("GET", "blocklist", _) => return Ok(AzureCall::Blocks { container, blob }),
        _ => {}
    }
    if !part.is_empty() || asked.parameter("snapshot").is_some() {
        return Err(ObjectError::not_here(&format!("`comp={part}` of Azure Blob Storage")));
    }
    match (asked.method, asked.header("x-ms-copy-source")) {
        ("PUT", Some(url)) => {
            let from = source(url).ok_or_else(|| {
                ObjectError::new(
                    400,
                    "InvalidHeaderValue",
                    "the source is not a blob of this store",
                )
            })?;
            Ok(AzureCall::Copy { container, blob, from })
        }
        ("PUT", None) => match asked.header("x-ms-blob-type") {
            Some("BlockBlob") | None => Ok(AzureCall::Put { container, blob }),
            Some(other) => Err(ObjectError::not_here(&format!("blob of type `{other}`"))),
        },
        ("GET" | "HEAD", _) => Ok(AzureCall::Get { container, blob }),
        ("DELETE", _) => Ok(AzureCall::Delete { container, blob }),
        _ => Err(not_here()),
    }
}

fn source(url: &str) -> Option<(String, String)> {
    let rest = url.split_once("://")?.1;
    let (host, path) = rest.split_at(rest.find('/')?);
    let path = path.split('?').next()?;
    let (container, blob) = place_of(host, path).ok()?;
    Some((container?, blob?))
}

/// Returns container and blob. A production host names the account; on a port the path does.
fn place_of(host: &str, path: &str) -> Result<(Option<String>, Option<String>), ObjectError> {
    let rest = match knows(host) {
        true => path,
        false => {
            let inner = path.trim_start_matches('/');
            inner.find('/').map_or("", |at| &inner[at..])
        }
    };
    // Validated like every other place.
    let found = place("localhost", rest)?;
    Ok((found.bucket, found.key))
}

fn not_here() -> ObjectError {
    ObjectError::not_here("such call of Azure Blob Storage")
}

/// Returns Azure's code for an error.
pub fn code(error: &ObjectError) -> &'static str {
    match error.code {
        "NoSuchBucket" => "ContainerNotFound",
        "NoSuchKey" => "BlobNotFound",
        "InvalidRange" => "InvalidRange",
        "PreconditionFailed" => "ConditionNotMet",
        other => other,
    }
}

/// Parses the list of blocks of a blob.
pub fn read_block_list(body: &[u8]) -> Result<Vec<String>, ObjectError> {
    let mut names = Vec::new();
    each_text(body, |path, text| {
        if let ["BlockList", "Latest" | "Uncommitted" | "Committed"] = path {
            names.push(text);
        }
    })?;
    Ok(names)
}

/// Formats the uncommitted blocks: names and sizes.
pub fn blocks(all: &[(String, u64)]) -> String {
    let one = |(name, size): &(String, u64)| {
        format!("<Block>{}{}</Block>", text("Name", name), text("Size", &size.to_string()))
    };
    let all: String = all.iter().map(one).collect();
    format!(
        "{HEAD}<BlockList><CommittedBlocks/><UncommittedBlocks>{all}</UncommittedBlocks></BlockList>"
    )
}

/// A blob in a listing.
#[derive(Clone, Debug, Default)]
pub struct ListedBlob {
    pub name: String,
    pub size: u64,
    pub etag: String,
    /// In HTTP format.
    pub modified: String,
    pub content_type: String,
    /// In base64.
    pub md5: Option<String>,
}

fn text(name: &str, text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("<{name}>{}</{name}>", quick_xml::escape::escape(&plain))
}

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";

/// Formats an error.
pub fn error(error: &ObjectError) -> String {
    let inside = text("Code", code(error)) + &text("Message", &error.message);
    format!("{HEAD}<Error>{inside}</Error>")
}

/// Formats the list of containers: names and creation times.
pub fn containers(all: &[(String, String)]) -> String {
    let one = |(name, made): &(String, String)| {
        let about = text("Last-Modified", made) + &text("Etag", "\"0x1\"");
        format!("<Container>{}<Properties>{about}</Properties></Container>", text("Name", name))
    };
    let all: String = all.iter().map(one).collect();
    format!(
        "{HEAD}<EnumerationResults><Containers>{all}</Containers><NextMarker/></EnumerationResults>"
    )
}

/// Formats a page of a listing.
pub fn listing(
    list: &List,
    blobs: &[ListedBlob],
    prefixes: &[String],
    next: Option<&str>,
) -> String {
    let one = |blob: &ListedBlob| {
        let about = [
            text("Creation-Time", &blob.modified),
            text("Last-Modified", &blob.modified),
            text("Etag", &blob.etag),
            text("Content-Length", &blob.size.to_string()),
            text("Content-Type", &blob.content_type),
            blob.md5.as_deref().map(|md5| text("Content-MD5", md5)).unwrap_or_default(),
            text("BlobType", "BlockBlob"),
            text("AccessTier", "Hot"),
            text("LeaseStatus", "unlocked"),
            text("LeaseState", "available"),
        ];
        let about = about.concat();
        format!("<Blob>{}<Properties>{about}</Properties></Blob>", text("Name", &blob.name))
    };
    let blobs: String = blobs.iter().map(one).collect();
    let prefix = |name: &String| format!("<BlobPrefix>{}</BlobPrefix>", text("Name", name));
    let prefixes: String = prefixes.iter().map(prefix).collect();
    let about = text("Prefix", &list.prefix) + &text("MaxResults", &list.most.to_string());
    let next = text("NextMarker", next.unwrap_or_default());
    format!(
        "{HEAD}<EnumerationResults>{about}<Blobs>{blobs}{prefixes}</Blobs>{next}</EnumerationResults>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(
        method: &str,
        host: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Result<AzureCall, ObjectError> {
        let headers: Vec<(String, Vec<u8>)> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        read(&Asked { host, method, path, query, headers: &headers })
    }

    #[test]
    fn what_clients_send_is_understood() {
        let (production, port) = ("acme.blob.core.windows.net", "127.0.0.1");
        let at = || ("goods".to_owned(), "a/b c".to_owned());
        for (method, host, target, expected) in [
            ("GET", production, "/?comp=list", AzureCall::Containers),
            (
                "PUT",
                production,
                "/goods?restype=container",
                AzureCall::CreateContainer("goods".into()),
            ),
            (
                "PUT",
                port,
                "/acme/goods?restype=container",
                AzureCall::CreateContainer("goods".into()),
            ),
            (
                "PUT",
                port,
                "/acme/goods/a/b%20c",
                AzureCall::Put { container: at().0, blob: at().1 },
            ),
            (
                "GET",
                production,
                "/goods/a/b%20c",
                AzureCall::Get { container: at().0, blob: at().1 },
            ),
            (
                "DELETE",
                production,
                "/goods/a/b%20c",
                AzureCall::Delete { container: at().0, blob: at().1 },
            ),
        ] {
            assert_eq!(call(method, host, target, &[]), Ok(expected), "{method} {target}");
        }
        let copied = call(
            "PUT",
            production,
            "/goods/c",
            &[("x-ms-copy-source", "https://acme.blob.core.windows.net/goods/a?sig=x")],
        );
        let from = ("goods".to_owned(), "a".to_owned());
        assert_eq!(
            copied,
            Ok(AzureCall::Copy { container: "goods".into(), blob: "c".into(), from })
        );
        for (method, target, headers) in [
            ("PUT", "/goods/a?comp=page", &[][..]),
            ("PUT", "/goods/a", &[("x-ms-blob-type", "PageBlob")]),
            ("PUT", "/../a?restype=container", &[]),
            ("POST", "/goods/a", &[]),
        ] {
            assert!(call(method, production, target, headers).is_err(), "{target}");
        }
    }

    #[test]
    fn hostile_names_are_written_as_text() {
        let blob = ListedBlob { name: "<x>&\u{7}".into(), ..ListedBlob::default() };
        let text = listing(&List::default(), &[blob], &["a&/".into()], None);
        assert!(
            text.contains("<Name>&lt;x&gt;&amp;</Name>") && text.contains("<Name>a&amp;/</Name>"),
            "{text}"
        );
    }
}
