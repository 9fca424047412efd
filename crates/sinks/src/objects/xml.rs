//! XML requests and responses of an object store.

use quick_xml::{Reader, events::Event};

use super::{List, ObjectError, Place, tags::Tags};

/// The namespace of responses.
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// The maximum number of entries in a request.
const ENTRIES: usize = 10_000;

/// The maximum nesting depth.
const DEPTH: usize = 16;

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub key: String,
    pub size: u64,
    /// Without quotes.
    pub etag: String,
    pub modified: String,
}

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub objects: Vec<Listed>,
    /// Common prefixes, each standing for all keys below it.
    pub prefixes: Vec<String>,
    /// Where the next page starts, if there is one.
    pub next: Option<String>,
}

/// Selects a page of all objects, which are sorted by key.
pub fn page(list: &List, all: impl Iterator<Item = Listed>) -> Page {
    let mut page = Page::default();
    let mut last = String::new();
    for object in all {
        let Some(rest) = object.key.strip_prefix(&list.prefix) else { continue };
        let cut = (!list.delimiter.is_empty()).then(|| rest.find(&list.delimiter)).flatten();
        let prefix = cut.map(|at| format!("{}{}", list.prefix, &rest[..at + list.delimiter.len()]));
        let name = prefix.as_deref().unwrap_or(&object.key);
        // A prefix that was on the previous page counts as before `after`.
        if name <= list.after.as_str() || page.prefixes.last().map(String::as_str) == Some(name) {
            continue;
        }
        if page.objects.len() + page.prefixes.len() >= list.most {
            page.next = (list.most > 0).then_some(last);
            return page;
        }
        name.clone_into(&mut last);
        match prefix {
            Some(prefix) => page.prefixes.push(prefix),
            None => page.objects.push(object),
        }
    }
    page
}

/// Formats a page.
pub fn listing(bucket: &str, list: &List, page: &Page) -> String {
    let shown = |text: &str| match list.encoded {
        true => super::xml::encoded(text),
        false => text.to_owned(),
    };
    let mut out = Writer::root("ListBucketResult");
    out.text("Name", bucket).text("Prefix", &shown(&list.prefix));
    out.text("MaxKeys", &list.most.to_string());
    if !list.delimiter.is_empty() {
        out.text("Delimiter", &shown(&list.delimiter));
    }
    if list.encoded {
        out.text("EncodingType", "url");
    }
    out.text("IsTruncated", if page.next.is_some() { "true" } else { "false" });
    match (list.version_two, &page.next) {
        (true, next) => {
            out.text("KeyCount", &(page.objects.len() + page.prefixes.len()).to_string());
            if let Some(token) = &list.token {
                out.text("ContinuationToken", token);
            }
            if let Some(next) = next {
                out.text("NextContinuationToken", next);
            }
        }
        (false, next) => {
            out.text("Marker", &shown(&list.after));
            if let Some(next) = next {
                out.text("NextMarker", &shown(next));
            }
        }
    }
    for object in &page.objects {
        out.open("Contents").text("Key", &shown(&object.key));
        out.text("LastModified", &object.modified).text("ETag", &quoted(&object.etag));
        out.text("Size", &object.size.to_string()).text("StorageClass", "STANDARD");
        out.close("Contents");
    }
    for prefix in &page.prefixes {
        out.open("CommonPrefixes").text("Prefix", &shown(prefix)).close("CommonPrefixes");
    }
    out.end("ListBucketResult")
}

/// Formats the list of buckets: names and creation times.
pub fn buckets(all: &[(String, String)]) -> String {
    let mut out = Writer::root("ListAllMyBucketsResult");
    out.open("Owner").text("ID", "hothouse").text("DisplayName", "hothouse").close("Owner");
    out.open("Buckets");
    for (name, made) in all {
        out.open("Bucket").text("Name", name).text("CreationDate", made).close("Bucket");
    }
    out.close("Buckets");
    out.end("ListAllMyBucketsResult")
}

/// Formats an element that contains only texts.
pub fn flat(name: &'static str, texts: &[(&'static str, &str)]) -> String {
    let mut out = Writer::root(name);
    for (name, text) in texts {
        out.text(name, text);
    }
    out.end(name)
}

/// Formats the tags of an object or a bucket.
pub fn tagging(tags: &Tags) -> String {
    let mut out = Writer::root("Tagging");
    out.open("TagSet");
    for (key, value) in tags {
        out.open("Tag").text("Key", key).text("Value", value).close("Tag");
    }
    out.close("TagSet");
    out.end("Tagging")
}

/// The properties of an object that a client can ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Without quotes.
    pub etag: Option<String>,
    /// By header name.
    pub checksums: Vec<(String, String)>,
    pub size: Option<u64>,
    pub storage_class: bool,
}

/// Formats the properties of an object.
pub fn attributes(found: &Attributes) -> String {
    const CHECKSUMS: [(&str, &str); 5] = [
        ("x-amz-checksum-crc32", "ChecksumCRC32"),
        ("x-amz-checksum-crc32c", "ChecksumCRC32C"),
        ("x-amz-checksum-crc64nvme", "ChecksumCRC64NVME"),
        ("x-amz-checksum-sha1", "ChecksumSHA1"),
        ("x-amz-checksum-sha256", "ChecksumSHA256"),
    ];
    let mut out = Writer::root("GetObjectAttributesResponse");
    if let Some(etag) = &found.etag {
        out.text("ETag", etag);
    }
    if !found.checksums.is_empty() {
        out.open("Checksum");
        for (header, value) in &found.checksums {
            if let Some((_, name)) = CHECKSUMS.iter().find(|(name, _)| name == header) {
                out.text(name, value);
            }
        }
        out.close("Checksum");
    }
    if found.storage_class {
        out.text("StorageClass", "STANDARD");
    }
    if let Some(size) = found.size {
        out.text("ObjectSize", &size.to_string());
    }
    out.end("GetObjectAttributesResponse")
}

/// Formats the parts of an upload: numbers, entity tags, sizes and times.
pub fn parts(place: &Place, upload: &str, all: &[(u32, Listed)]) -> String {
    let mut out = Writer::root("ListPartsResult");
    out.text("Bucket", place.bucket.as_deref().unwrap_or_default());
    out.text("Key", place.key.as_deref().unwrap_or_default());
    out.text("UploadId", upload).text("IsTruncated", "false");
    for (number, part) in all {
        out.open("Part").text("PartNumber", &number.to_string());
        out.text("LastModified", &part.modified).text("ETag", &quoted(&part.etag));
        out.text("Size", &part.size.to_string()).close("Part");
    }
    out.end("ListPartsResult")
}

/// Formats the incomplete uploads of a bucket: keys and ids.
pub fn uploads(bucket: &str, all: &[(String, String)]) -> String {
    let mut out = Writer::root("ListMultipartUploadsResult");
    out.text("Bucket", bucket).text("IsTruncated", "false");
    for (key, upload) in all {
        out.open("Upload").text("Key", key).text("UploadId", upload).close("Upload");
    }
    out.end("ListMultipartUploadsResult")
}

/// A deletion in a versioned bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The version that the client named.
    pub version: Option<String>,
    /// The delete marker that was added, or removed.
    pub marker: Option<String>,
}

/// Formats the results of deleting keys.
pub fn deleted(keys: &[(String, Result<Removed, ObjectError>)], quiet: bool) -> String {
    let mut out = Writer::root("DeleteResult");
    for (key, outcome) in keys {
        match outcome {
            Ok(_) if quiet => {}
            Ok(removed) => {
                out.open("Deleted").text("Key", key);
                if let Some(version) = &removed.version {
                    out.text("VersionId", version);
                }
                if let Some(marker) = &removed.marker {
                    out.text("DeleteMarker", "true").text("DeleteMarkerVersionId", marker);
                }
                out.close("Deleted");
            }
            Err(error) => {
                out.open("Error").text("Key", key).text("Code", error.code);
                out.text("Message", &error.message).close("Error");
            }
        }
    }
    out.end("DeleteResult")
}

/// A version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedVersion {
    pub object: Listed,
    pub version: String,
    pub is_current: bool,
    /// Whether it is a delete marker.
    pub is_marker: bool,
}

/// Formats the versions of a bucket, starting after the last one that the client has seen.
pub fn versions(
    bucket: &str,
    list: &List,
    (key_marker, version_marker): (&str, &str),
    all: &[ListedVersion],
) -> String {
    let seen = |one: &&ListedVersion| {
        one.object.key == key_marker && (version_marker.is_empty() || one.version == version_marker)
    };
    let from = all.iter().rposition(|one| seen(&one)).map_or(0, |at| at + 1);
    let from = from.max(all.partition_point(|one| one.object.key.as_str() < key_marker));
    let mut found = all[from..].iter().filter(|one| one.object.key.starts_with(&list.prefix));
    let page: Vec<&ListedVersion> = found.by_ref().take(list.most).collect();
    let shown = |text: &str| if list.encoded { encoded(text) } else { text.to_owned() };
    let mut out = Writer::root("ListVersionsResult");
    out.text("Name", bucket).text("Prefix", &shown(&list.prefix));
    out.text("KeyMarker", &shown(key_marker)).text("VersionIdMarker", version_marker);
    out.text("MaxKeys", &list.most.to_string());
    if list.encoded {
        out.text("EncodingType", "url");
    }
    let next = found.next().and(page.last());
    out.text("IsTruncated", if next.is_some() { "true" } else { "false" });
    if let Some(last) = next {
        out.text("NextKeyMarker", &shown(&last.object.key));
        out.text("NextVersionIdMarker", &last.version);
    }
    for one in page {
        let name = if one.is_marker { "DeleteMarker" } else { "Version" };
        out.open(name).text("Key", &shown(&one.object.key)).text("VersionId", &one.version);
        out.text("IsLatest", if one.is_current { "true" } else { "false" });
        out.text("LastModified", &one.object.modified);
        if !one.is_marker {
            out.text("ETag", &quoted(&one.object.etag));
            out.text("Size", &one.object.size.to_string()).text("StorageClass", "STANDARD");
        }
        out.close(name);
    }
    out.end("ListVersionsResult")
}

/// Formats an error. `request` is the id of the request on the timeline.
pub fn error(error: &ObjectError, resource: &str, request: &str) -> String {
    let mut out = Writer(String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>"));
    out.text("Code", error.code).text("Message", &error.message);
    out.text("Resource", resource).text("RequestId", request);
    out.end("Error")
}

/// Quotes an entity tag.
pub fn quoted(etag: &str) -> String {
    format!("\"{etag}\"")
}

/// Encodes a key for `encoding-type=url`.
fn encoded(text: &str) -> String {
    const KEPT: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'_')
        .remove(b'.')
        .remove(b'/')
        .remove(b'*');
    percent_encoding::utf8_percent_encode(text, KEPT).to_string()
}

/// Writes consecutive elements.
struct Writer(String);

impl Writer {
    fn root(name: &str) -> Self {
        Self(format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{name} xmlns=\"{NAMESPACE}\">"))
    }

    fn open(&mut self, name: &str) -> &mut Self {
        self.0 += &format!("<{name}>");
        self
    }

    fn close(&mut self, name: &str) -> &mut Self {
        self.0 += &format!("</{name}>");
        self
    }

    fn text(&mut self, name: &str, text: &str) -> &mut Self {
        // XML 1.0 cannot represent most control characters: they are omitted from listings.
        let plain: String =
            text.chars().filter(|c| !c.is_control() || matches!(c, '\t' | '\n' | '\r')).collect();
        let escaped = quick_xml::escape::escape(&plain);
        self.0 += &format!("<{name}>{escaped}</{name}>");
        self
    }

    fn end(mut self, name: &str) -> String {
        self.close(name);
        self.0
    }
}

/// A key to delete, or a version of it.
pub type Deletion = (String, Option<String>);

/// Parses the keys to delete, and whether the response should be short.
pub fn read_deletion(body: &[u8]) -> Result<(Vec<Deletion>, bool), ObjectError> {
    let (mut keys, mut quiet) = (Vec::new(), false);
    let (mut key, mut version) = (None, None);
    each_text(body, |path, text| match path {
        ["Delete", "Object", "Key"] => key = Some(text),
        ["Delete", "Object", "VersionId"] => version = Some(text).filter(|id| !id.is_empty()),
        ["Delete", "Object"] => keys.extend(key.take().map(|key| (key, version.take()))),
        ["Delete", "Quiet"] => quiet = text == "true",
        _ => {}
    })?;
    match keys.len() {
        1..=1000 => Ok((keys, quiet)),
        _ => Err(ObjectError::malformed_xml()),
    }
}

/// Parses the parts of an upload: numbers and unquoted entity tags.
pub fn read_completion(body: &[u8]) -> Result<Vec<(u32, String)>, ObjectError> {
    let (mut numbers, mut tags) = (Vec::new(), Vec::new());
    each_text(body, |path, text| match path {
        ["CompleteMultipartUpload", "Part", "PartNumber"] => numbers.push(text.parse::<u32>()),
        ["CompleteMultipartUpload", "Part", "ETag"] => tags.push(text.trim_matches('"').to_owned()),
        _ => {}
    })?;
    let numbers: Result<Vec<_>, _> = numbers.into_iter().collect();
    let numbers = numbers.map_err(|_| ObjectError::malformed_xml())?;
    if numbers.is_empty() || numbers.len() != tags.len() {
        return Err(ObjectError::malformed_xml());
    }
    if !numbers.is_sorted_by(|one, next| one < next) {
        let message = "the parts of an upload are listed in the order of their numbers";
        return Err(ObjectError::new(400, "InvalidPartOrder", message));
    }
    Ok(numbers.into_iter().zip(tags).collect())
}

/// Calls `take` with the path and the text of every leaf element.
pub(super) fn each_text(
    body: &[u8],
    mut take: impl FnMut(&[&str], String),
) -> Result<(), ObjectError> {
    let body = std::str::from_utf8(body).map_err(|_| ObjectError::malformed_xml())?;
    let mut reader = Reader::from_str(body);
    let (mut path, mut text): (Vec<String>, String) = (Vec::new(), String::new());
    let mut seen = 0;
    loop {
        match reader.read_event().map_err(|_| ObjectError::malformed_xml())? {
            Event::Start(start) => {
                let name = String::from_utf8_lossy(start.local_name().as_ref()).into_owned();
                path.push(name);
                text.clear();
            }
            Event::Text(part) => {
                text += &part.decode().map_err(|_| ObjectError::malformed_xml())?
            }
            Event::CData(part) => {
                text += &part.decode().map_err(|_| ObjectError::malformed_xml())?
            }
            Event::GeneralRef(name) => text.push(entity(&name)?),
            Event::End(_) => {
                let names: Vec<&str> = path.iter().map(String::as_str).collect();
                take(&names, std::mem::take(&mut text));
                path.pop();
                seen += 1;
            }
            Event::Eof => break,
            _ => {}
        }
        if path.len() > DEPTH || seen > 4 * ENTRIES {
            return Err(ObjectError::malformed_xml());
        }
    }
    if path.is_empty() { Ok(()) } else { Err(ObjectError::malformed_xml()) }
}

/// Resolves an entity reference. Only those predefined in XML are allowed, which also prevents
/// entity bombs.
fn entity(name: &quick_xml::events::BytesRef<'_>) -> Result<char, ObjectError> {
    if let Ok(Some(found)) = name.resolve_char_ref() {
        return Ok(found);
    }
    match &name[..] {
        b"amp" => Ok('&'),
        b"lt" => Ok('<'),
        b"gt" => Ok('>'),
        b"quot" => Ok('"'),
        b"apos" => Ok('\''),
        _ => Err(ObjectError::malformed_xml()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(keys: &[&str]) -> impl Iterator<Item = Listed> {
        let listed = |key: &&str| Listed {
            key: (*key).to_owned(),
            size: 1,
            etag: "e".into(),
            modified: "2026-03-04T05:06:07.000Z".into(),
        };
        keys.iter().map(listed).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn listings_are_cut_into_pages_and_folders() {
        let keys = ["a", "b/1", "b/2", "c", "d/1", "e"];
        let list = |after: &str, most| List {
            delimiter: "/".into(),
            after: after.into(),
            most,
            ..List::default()
        };
        let check = |list: &List, objects: &[&str], prefixes: &[&str], next: Option<&str>| {
            let page = page(list, all(&keys));
            let found: Vec<_> = page.objects.iter().map(|object| object.key.as_str()).collect();
            assert_eq!((found.as_slice(), page.next.as_deref()), (objects, next), "{list:?}");
            assert_eq!(page.prefixes, prefixes, "{list:?}");
        };
        check(&list("", 100), &["a", "c", "e"], &["b/", "d/"], None);
        check(&list("", 2), &["a"], &["b/"], Some("b/"));
        check(&list("b/", 2), &["c"], &["d/"], Some("d/"));
        check(&list("d/", 2), &["e"], &[], None);
        check(&list("", 0), &[], &[], None);
        let below = List { prefix: "b/".into(), most: 100, ..List::default() };
        check(&below, &["b/1", "b/2"], &[], None);
    }

    #[test]
    fn versions_come_in_pages_that_go_on_behind_the_last_one() {
        let version = |key: &str, version: &str| ListedVersion {
            object: all(&[key]).next().unwrap(),
            version: version.into(),
            is_current: version == "3",
            is_marker: version == "2",
        };
        let three = [version("a", "3"), version("a", "2"), version("b", "3")];
        let list = List { most: 2, ..List::default() };
        let first = versions("goods", &list, ("", ""), &three);
        assert!(
            first.contains("<NextKeyMarker>a</NextKeyMarker><NextVersionIdMarker>2<"),
            "{first}"
        );
        assert!(first.contains("<DeleteMarker><Key>a</Key><VersionId>2</VersionId>"), "{first}");
        let second = versions("goods", &list, ("a", "2"), &three);
        assert!(
            second.contains("<IsTruncated>false<") && second.contains("<Key>b</Key>"),
            "{second}"
        );
        assert!(!second.contains("<Key>a</Key>"));
        assert_eq!(
            versions("goods", &list, ("a", ""), &three),
            second.replace("Marker>2<", "Marker><")
        );
    }

    #[test]
    fn hostile_keys_are_written_as_text() {
        let keys = ["<x>&\"'", "bell\u{7}"];
        let list = List { most: 10, version_two: true, ..List::default() };
        let text = listing("goods", &list, &page(&list, all(&keys)));
        assert!(text.contains("<Key>&lt;x&gt;&amp;&quot;&apos;</Key>"), "{text}");
        assert!(text.contains("<Key>bell</Key>"), "{text}");
        let list = List { encoded: true, ..list };
        let text = listing("goods", &list, &page(&list, all(&keys)));
        assert!(text.contains("<Key>bell%07</Key>"), "{text}");
    }

    #[test]
    fn what_clients_send_as_xml_is_read() {
        let body = br#"<?xml version="1.0"?><Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Object><Key>a &amp; b&#x21;</Key></Object><Object><Key><![CDATA[<c>]]></Key></Object><Quiet>true</Quiet></Delete>"#;
        let both = vec![("a & b!".into(), None), ("<c>".into(), None)];
        assert_eq!(read_deletion(body).unwrap(), (both, true));
        let body =
            b"<Delete><Object><VersionId>7</VersionId><Key>a</Key></Object><Object><Key>b</Key></Object></Delete>";
        let both = vec![("a".into(), Some("7".into())), ("b".into(), None)];
        assert_eq!(read_deletion(body).unwrap(), (both, false));
        let body = br#"<CompleteMultipartUpload><Part><ETag>"aa"</ETag><PartNumber>1</PartNumber></Part>
            <Part><PartNumber>2</PartNumber><ETag>&quot;bb&quot;</ETag></Part></CompleteMultipartUpload>"#;
        assert_eq!(read_completion(body).unwrap(), vec![(1, "aa".into()), (2, "bb".into())]);
        let swapped = String::from_utf8_lossy(body).replace("<PartNumber>1", "<PartNumber>9");
        assert_eq!(read_completion(swapped.as_bytes()).unwrap_err().code, "InvalidPartOrder");
    }

    #[test]
    fn bombs_and_broken_texts_are_refused() {
        let deep = format!("{}{}", "<a>".repeat(10_000), "</a>".repeat(10_000));
        let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><Delete><Object><Key>&b;</Key></Object></Delete>";
        for body in ["", "<Delete>", "<Delete></Delet>", "no xml", "<Delete/>", &deep, bomb] {
            assert!(read_deletion(body.as_bytes()).is_err(), "{}", &body[..body.len().min(60)]);
        }
        assert!(read_deletion(b"<Delete><Object><Key>\xff</Key></Object></Delete>").is_err());
    }
}
