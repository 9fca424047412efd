//! Bucket notifications: which changes are reported, and the event in S3's format.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ObjectError, xml};

/// A change of an object.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub bucket: &'a str,
    pub key: &'a str,
    pub size: u64,
    /// Without quotes.
    pub etag: &'a str,
    pub version: Option<&'a str>,
    /// Such as `ObjectCreated:Put`.
    pub event: &'a str,
    pub time: Timestamp,
}

/// A notification rule of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rule {
    /// Such as `s3:ObjectCreated:*`.
    events: Vec<String>,
    prefix: String,
    suffix: String,
}

impl Rule {
    fn fits(&self, event: &str, key: &str) -> bool {
        let is_meant = |wanted: &String| {
            let wanted = wanted.strip_prefix("s3:").unwrap_or(wanted);
            match wanted.strip_suffix('*') {
                Some(begin) => event.starts_with(begin),
                None => event == wanted,
            }
        };
        self.events.iter().any(is_meant)
            && key.starts_with(&self.prefix)
            && key.ends_with(&self.suffix)
    }
}

/// Returns whether a change is reported. A bucket without a configuration reports everything.
pub fn is_told(setting: Option<&str>, event: &str, key: &str) -> bool {
    let Some(setting) = setting else { return true };
    rules(setting).is_ok_and(|rules| rules.iter().any(|rule| rule.fits(event, key)))
}

fn rules(setting: &str) -> Result<Vec<Rule>, ObjectError> {
    const KINDS: [&str; 5] = [
        "TopicConfiguration",
        "QueueConfiguration",
        "CloudFunctionConfiguration",
        "LambdaFunctionConfiguration",
        "EventBridgeConfiguration",
    ];
    let (mut rules, mut rule, mut name) = (Vec::new(), Rule::default(), String::new());
    xml::each_text(setting.as_bytes(), |path, text| match path {
        [_, kind] if KINDS.contains(kind) => {
            // EventBridge gets everything.
            if *kind == "EventBridgeConfiguration" {
                rule.events = vec!["s3:*".to_owned()];
            }
            rules.push(std::mem::take(&mut rule));
        }
        [_, _, "Event"] => rule.events.push(text),
        [_, _, "Filter", "S3Key", "FilterRule", "Name"] => name = text.to_ascii_lowercase(),
        [_, _, "Filter", "S3Key", "FilterRule", "Value"] => match name.as_str() {
            "prefix" => rule.prefix = text,
            "suffix" => rule.suffix = text,
            _ => {}
        },
        _ => {}
    })?;
    Ok(rules)
}

/// Formats an event like S3.
pub fn event(change: &Change<'_>) -> Value {
    // Keys are form-encoded.
    let key: String = percent_encoding::utf8_percent_encode(change.key, KEPT).collect();
    let key = key.replace("%20", "+");
    let mut object =
        json!({ "key": key, "sequencer": format!("{:016X}", change.time.as_microsecond()) });
    if change.event.starts_with("ObjectCreated") {
        object["size"] = change.size.into();
        object["eTag"] = change.etag.into();
    }
    if let Some(version) = change.version {
        object["versionId"] = version.into();
    }
    json!({ "Records": [{
        "eventVersion": "2.1", "eventSource": "aws:s3", "awsRegion": "us-east-1",
        "eventTime": change.time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
        "eventName": change.event,
        "userIdentity": { "principalId": "hothouse" },
        "requestParameters": { "sourceIPAddress": "127.0.0.1" },
        "responseElements": { "x-amz-request-id": "hothouse", "x-amz-id-2": "hothouse" },
        "s3": {
            "s3SchemaVersion": "1.0", "configurationId": "hothouse",
            "bucket": { "name": change.bucket, "ownerIdentity": { "principalId": "hothouse" },
                        "arn": format!("arn:aws:s3:::{}", change.bucket) },
            "object": object,
        },
    }] })
}

const KEPT: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'/')
    .remove(b'*');

#[cfg(test)]
mod tests {
    use super::*;

    const SETTING: &str = "<NotificationConfiguration><QueueConfiguration><Id>1</Id><Queue>arn</Queue>\
        <Event>s3:ObjectCreated:*</Event><Filter><S3Key><FilterRule><Name>prefix</Name><Value>in/</Value></FilterRule>\
        <FilterRule><Name>Suffix</Name><Value>.png</Value></FilterRule></S3Key></Filter></QueueConfiguration>\
        <TopicConfiguration><Topic>arn</Topic><Event>s3:ObjectRemoved:Delete</Event></TopicConfiguration>\
        </NotificationConfiguration>";

    #[test]
    fn a_bucket_tells_what_its_setting_says() {
        for (event, key, expected) in [
            ("ObjectCreated:Put", "in/a.png", true),
            ("ObjectCreated:CompleteMultipartUpload", "in/a.png", true),
            ("ObjectCreated:Put", "in/a.jpg", false),
            ("ObjectCreated:Put", "out/a.png", false),
            ("ObjectRemoved:Delete", "anything", true),
            ("ObjectRemoved:DeleteMarkerCreated", "anything", false),
        ] {
            assert_eq!(is_told(Some(SETTING), event, key), expected, "{event} {key}");
        }
        assert!(is_told(None, "ObjectCreated:Put", "a"), "without a setting all is told");
        assert!(!is_told(Some("<NotificationConfiguration/>"), "ObjectCreated:Put", "a"));
        assert!(!is_told(Some("no xml"), "ObjectCreated:Put", "a"));
        let all = "<N><EventBridgeConfiguration></EventBridgeConfiguration></N>";
        assert!(is_told(Some(all), "ObjectCreated:Put", "a"));
    }

    #[test]
    fn an_event_is_written_as_s3_writes_it() {
        let change = Change {
            bucket: "goods",
            key: "a b/ü.png",
            size: 3,
            etag: "e",
            version: None,
            event: "ObjectCreated:Put",
            time: Timestamp::UNIX_EPOCH,
        };
        let record = &event(&change)["Records"][0];
        assert_eq!(record["s3"]["object"]["key"], "a+b/%C3%BC.png");
        assert_eq!(record["s3"]["bucket"]["arn"], "arn:aws:s3:::goods");
        assert_eq!(record["eventTime"], "1970-01-01T00:00:00.000Z");
        let removed = event(&Change { event: "ObjectRemoved:Delete", ..change });
        assert!(removed["Records"][0]["s3"]["object"].get("size").is_none());
    }
}
