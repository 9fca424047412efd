//! Form uploads of browsers, with a policy that the app signed.

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde_json::Value;

use super::{Asked, ObjectError};
use crate::multipart::{self, Part};

/// The maximum length of a key, in bytes.
const KEY_LIMIT: usize = 1024;

/// The content of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    pub key: String,
    pub content_type: Option<String>,
    /// Names without the prefix `x-amz-meta-`.
    pub metadata: Vec<(String, String)>,
    pub bytes: Vec<u8>,
    /// 200, 201 or 204.
    pub status: u16,
    pub redirect: Option<String>,
}

/// Parses a form for a bucket, and refuses what its policy does not allow.
pub fn read(
    asked: &Asked<'_>,
    bucket: &str,
    body: &[u8],
    now: Timestamp,
) -> Result<Upload, ObjectError> {
    let content_type = asked.header("content-type").unwrap_or_default();
    let parts = multipart::parse(content_type, body).ok_or_else(|| {
        let message = "the body of an upload is `multipart/form-data`";
        ObjectError::new(400, "MalformedPOSTRequest", message)
    })?;
    let file =
        parts.iter().find(|part| part.name.eq_ignore_ascii_case("file")).ok_or_else(|| {
            ObjectError::new(400, "InvalidArgument", "an upload has exactly one field `file`")
        })?;
    let field =
        |name: &str| parts.iter().find(|part| part.name.eq_ignore_ascii_case(name)).map(Part::text);
    let key = field("key")
        .filter(|key| !key.is_empty())
        .ok_or_else(|| ObjectError::new(400, "InvalidArgument", "an upload has a field `key`"))?;
    let key = key.replace("${filename}", file.file.as_deref().unwrap_or_default());
    if key.len() > KEY_LIMIT {
        return Err(ObjectError::new(400, "KeyTooLongError", "a key has at most 1024 bytes"));
    }
    match field("policy") {
        Some(policy) => {
            let policy = parsed(&policy, now)?;
            check(&policy, (bucket, &key), &field, file.bytes.len())?;
            covers(&policy, &parts)?;
        }
        None => return Err(ObjectError::new(403, "AccessDenied", "an upload has a signed policy")),
    }
    let status = field("success_action_status").and_then(|status| status.parse().ok());
    Ok(Upload {
        content_type: field("content-type")
            .or_else(|| Some(file.content_type.clone()).filter(|kind| !kind.is_empty())),
        metadata: parts.iter().filter_map(metadata).collect(),
        bytes: file.bytes.clone(),
        status: status.filter(|status| [200, 201].contains(status)).unwrap_or(204),
        redirect: field("success_action_redirect"),
        key,
    })
}

fn metadata(part: &Part) -> Option<(String, String)> {
    let name = part.name.to_ascii_lowercase();
    name.strip_prefix("x-amz-meta-").map(|name| (name.to_owned(), part.text()))
}

fn denied(message: impl Into<String>) -> ObjectError {
    ObjectError::new(403, "AccessDenied", message)
}

/// Parses a policy that has not expired.
fn parsed(policy: &str, now: Timestamp) -> Result<Value, ObjectError> {
    let policy = BASE64_STANDARD.decode(policy.trim()).ok();
    let policy: Option<Value> = policy.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let policy = policy.ok_or_else(|| {
        ObjectError::new(400, "InvalidPolicyDocument", "the policy is not JSON in Base64")
    })?;
    let until = policy["expiration"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    if until.is_none_or(|until| until < now) {
        return Err(denied("Invalid according to Policy: Policy expired."));
    }
    Ok(policy)
}

/// Checks that the policy has a condition for every field, as S3 requires: a form that works here must work there.
fn covers(policy: &Value, parts: &[Part]) -> Result<(), ObjectError> {
    const FREE: [&str; 5] = ["policy", "signature", "x-amz-signature", "awsaccesskeyid", "file"];
    let conditions = policy["conditions"].as_array().into_iter().flatten();
    let named: Vec<String> = conditions
        .flat_map(|condition| match condition {
            Value::Object(exact) => exact.keys().cloned().collect(),
            Value::Array(list) => {
                list.get(1).and_then(Value::as_str).map(str::to_owned).into_iter().collect()
            }
            _ => Vec::new(),
        })
        .map(|name| name.trim_start_matches('$').to_ascii_lowercase())
        .collect();
    // What follows the file is ignored.
    let fields = parts.iter().map(|part| part.name.to_ascii_lowercase());
    let mut fields = fields.take_while(|name| name != "file");
    let extra = fields.find(|name| {
        !FREE.contains(&name.as_str()) && !name.starts_with("x-ignore-") && !named.contains(name)
    });
    match extra {
        Some(name) => {
            Err(denied(format!("Invalid according to Policy: Extra input fields: {name}")))
        }
        None => Ok(()),
    }
}

/// Checks the policy's conditions on length and fields.
fn check(
    policy: &Value,
    (bucket, key): (&str, &str),
    field: &dyn Fn(&str) -> Option<String>,
    length: usize,
) -> Result<(), ObjectError> {
    let value = |name: &str| match name.to_ascii_lowercase().as_str() {
        "key" => Some(key.to_owned()),
        "bucket" => Some(bucket.to_owned()),
        other => Some(field(other).unwrap_or_default()),
    };
    for condition in policy["conditions"].as_array().into_iter().flatten() {
        let holds = match condition {
            Value::Object(exact) => exact.iter().all(|(name, wanted)| {
                value(name).is_none_or(|found| Some(found.as_str()) == wanted.as_str())
            }),
            Value::Array(list) => array(list, &value, length)?,
            _ => true,
        };
        if !holds {
            let message =
                format!("Invalid according to Policy: Policy Condition failed: {condition}");
            return Err(denied(message));
        }
    }
    Ok(())
}

fn array(
    list: &[Value],
    value: &dyn Fn(&str) -> Option<String>,
    length: usize,
) -> Result<bool, ObjectError> {
    let text = |at: usize| list.get(at).and_then(Value::as_str).unwrap_or_default();
    let name = text(1).trim_start_matches('$');
    match text(0) {
        "eq" => Ok(value(name).is_none_or(|found| found == text(2))),
        "starts-with" => Ok(value(name).is_none_or(|found| found.starts_with(text(2)))),
        "content-length-range" => {
            let bound = |at: usize| list.get(at).and_then(Value::as_u64);
            let length = length as u64;
            if bound(2).is_some_and(|most| length > most) {
                let message = "Your proposed upload exceeds the maximum allowed size";
                return Err(ObjectError::new(400, "EntityTooLarge", message));
            }
            Ok(bound(1).is_none_or(|least| length >= least))
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(policy: &str, fields: &[(&str, &str)]) -> Result<Upload, ObjectError> {
        let policy = BASE64_STANDARD.encode(policy);
        let mut body = String::new();
        for (name, value) in fields.iter().chain(&[("policy", policy.as_str())]) {
            body += &format!(
                "--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            );
        }
        body += "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"cat.png\"\r\nContent-Type: image/png\r\n\r\nmeow\r\n--b--\r\n";
        let headers = [("content-type".to_owned(), b"multipart/form-data; boundary=b".to_vec())];
        let asked = Asked {
            host: "localhost",
            method: "POST",
            path: "/goods",
            query: "",
            headers: &headers,
        };
        read(&asked, "goods", body.as_bytes(), "2026-03-04T05:06:07Z".parse().unwrap())
    }

    #[test]
    fn a_form_is_taken_as_its_policy_says() {
        let policy = r#"{"expiration": "2026-03-04T06:00:00Z", "conditions": [
            {"bucket": "goods"}, ["starts-with", "$key", "uploads/"], ["starts-with", "$x-amz-meta-by", ""],
            ["content-length-range", 1, 10]]}"#;
        let found =
            upload(policy, &[("key", "uploads/${filename}"), ("x-amz-meta-by", "ann")]).unwrap();
        assert_eq!((found.key.as_str(), found.bytes.as_slice()), ("uploads/cat.png", &b"meow"[..]));
        assert_eq!(found.content_type.as_deref(), Some("image/png"));
        assert_eq!((found.status, found.metadata), (204, vec![("by".into(), "ann".into())]));
        let elsewhere = upload(policy, &[("key", "secret/x")]).unwrap_err();
        assert_eq!(elsewhere.code, "AccessDenied");
        let other = policy.replace("goods", "others");
        assert_eq!(upload(&other, &[("key", "uploads/x")]).unwrap_err().code, "AccessDenied");
        let extra = upload(policy, &[("key", "uploads/x"), ("acl", "public-read")]).unwrap_err();
        assert!(extra.message.ends_with("Extra input fields: acl"), "{extra:?}");
        upload(policy, &[("key", "uploads/x"), ("x-ignore-me", "1")]).unwrap();
        let long = upload(policy, &[("key", &format!("uploads/{}", "x".repeat(1020)))]);
        assert_eq!(long.unwrap_err().code, "KeyTooLongError");
        let late = policy.replace("06:00", "05:00");
        assert_eq!(upload(&late, &[("key", "uploads/x")]).unwrap_err().code, "AccessDenied");
        let small = policy.replace("1, 10", "1, 3");
        assert_eq!(upload(&small, &[("key", "uploads/x")]).unwrap_err().code, "EntityTooLarge");
        assert_eq!(upload("no json", &[("key", "x")]).unwrap_err().code, "InvalidPolicyDocument");
    }
}
