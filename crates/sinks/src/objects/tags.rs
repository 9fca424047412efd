//! Tags of objects, as headers and as XML.

use std::collections::BTreeMap;

use super::{ObjectError, parameters, xml};

/// How many tags an object may have, and how long their parts are, as in S3.
const MOST: usize = 10;
const KEY: usize = 128;
const VALUE: usize = 256;

/// The tags of an object.
pub type Tags = BTreeMap<String, String>;

/// Parses the header `x-amz-tagging`, which has the form of a query.
pub fn of_header(header: &str) -> Result<Tags, ObjectError> {
    checked(parameters(header))
}

/// Parses the body of a request that sets tags.
pub fn of_xml(body: &[u8]) -> Result<Tags, ObjectError> {
    let (mut tags, mut key, mut value) = (Vec::new(), None, None);
    xml::each_text(body, |path, text| match path {
        ["Tagging", "TagSet", "Tag", "Key"] => key = Some(text),
        ["Tagging", "TagSet", "Tag", "Value"] => value = Some(text),
        ["Tagging", "TagSet", "Tag"] => {
            tags.push((key.take().unwrap_or_default(), value.take().unwrap_or_default()));
        }
        _ => {}
    })?;
    checked(tags)
}

fn checked(all: impl IntoIterator<Item = (String, String)>) -> Result<Tags, ObjectError> {
    let invalid = |message| ObjectError::new(400, "InvalidTag", message);
    let mut tags = Tags::new();
    for (key, value) in all {
        if key.is_empty() || key.chars().count() > KEY || value.chars().count() > VALUE {
            return Err(invalid(
                "a tag has a key of 1 to 128 characters, and a value of at most 256",
            ));
        }
        if tags.insert(key, value).is_some() {
            return Err(invalid("two tags have the same key"));
        }
        if tags.len() > MOST {
            return Err(ObjectError::new(400, "BadRequest", "an object has at most 10 tags"));
        }
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_as_header_and_as_xml() {
        let tags = of_header("stage=draft&who=a%20b&empty").unwrap();
        let of = |key: &str| tags.get(key).map(String::as_str);
        assert_eq!((of("stage"), of("who"), of("empty")), (Some("draft"), Some("a b"), Some("")));
        assert_eq!(of_xml(xml::tagging(&tags).as_bytes()).unwrap(), tags);
        assert_eq!(of_header("").unwrap(), Tags::new());
        let many: String = (0..11).map(|n| format!("k{n}=v&")).collect();
        let long = format!("{}=v", "k".repeat(129));
        for refused in [many.as_str(), &long, "=v", "a=1&a=2"] {
            assert_eq!(of_header(refused).unwrap_err().status, 400, "{refused}");
        }
        assert!(of_xml(b"<Tagging><TagSet><Tag>").is_err());
    }
}
