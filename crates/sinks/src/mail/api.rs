//! Vendor APIs for mail and text messages.
//!
//! Keys are not checked: those of a room are placeholders. Invalid input gets the vendor's own
//! error, so that its SDK raises the same error as in production.

mod aws;
pub mod faults;
mod mailgun;
mod mandrill;
mod postmark;
mod resend;
mod sendgrid;
mod sms;

use base64::{Engine, prelude::BASE64_STANDARD};
use hothouse_mock::request::Content;
use serde_json::Value;

use super::compose::{Mailbox, OutgoingFile};
use crate::{Call, HostSink};

/// The maximum number of mails per call.
const BATCH_LIMIT: usize = 1000;

/// The maximum number of files per mail.
const FILE_LIMIT: usize = 100;

/// Finds the sink for mails of a host.
pub fn find(host: &str) -> Option<HostSink> {
    let host = host.to_ascii_lowercase();
    let (vendor, take): (_, crate::Take) = match host.as_str() {
        "api.resend.com" => ("resend", resend::take),
        "api.sendgrid.com" | "api.eu.sendgrid.com" => ("sendgrid", sendgrid::take),
        "api.postmarkapp.com" => ("postmark", postmark::take),
        "api.mailgun.net" | "api.eu.mailgun.net" => ("mailgun", mailgun::take),
        "mandrillapp.com" => ("mandrill", mandrill::take),
        "rest.nexmo.com" | "api.nexmo.com" => ("vonage", sms::take_vonage),
        "api.twilio.com" => ("twilio", sms::take_twilio),
        host if host.starts_with("api.") && host.ends_with(".twilio.com") => {
            ("twilio", sms::take_twilio)
        }
        host if is_aws(host, "email") => ("ses", aws::take_ses),
        host if is_aws(host, "sns") => ("sns", aws::take_sns),
        _ => return None,
    };
    Some(HostSink { vendor, take })
}

/// Returns whether a host belongs to an AWS service, in any region, with or without IPv6 and FIPS.
fn is_aws(host: &str, service: &str) -> bool {
    let Some((first, rest)) = host.split_once('.') else { return false };
    let is_service = first == service || first.strip_suffix("-fips") == Some(service);
    let ends = ["amazonaws.com", "api.aws", "amazonaws.com.cn"];
    is_service && ends.iter().any(|end| rest == *end || rest.ends_with(&format!(".{end}")))
}

/// Formats random bytes as hexadecimal digits.
pub(crate) fn hex(random: [u8; 16]) -> String {
    hothouse_model::id::hex(&random)
}

/// Formats random bytes as a UUID.
fn uuid(mut random: [u8; 16]) -> String {
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let text = hex(random);
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

/// Parses the body as JSON, or returns why it is invalid.
fn json<'c>(call: &'c Call<'_>) -> Result<&'c Value, String> {
    match &call.content {
        Content::Json(tree) => Ok(tree),
        Content::Broken(why) => Err(why.clone()),
        _ => Err("the body is not JSON".to_owned()),
    }
}

/// Returns the text at a key; numbers count as text.
fn text(tree: &Value, key: &str) -> Option<String> {
    match tree.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the items of a list; empty if there is none.
fn items<'v>(tree: &'v Value, key: &str) -> &'v [Value] {
    tree.get(key).and_then(Value::as_array).map_or(&[], |list| &list[..list.len().min(BATCH_LIMIT)])
}

/// Parses mailboxes from a text or a list of texts.
fn mailboxes(tree: &Value, key: &str) -> Vec<Mailbox> {
    match tree.get(key) {
        Some(Value::String(text)) => Mailbox::list(text),
        Some(Value::Array(list)) => {
            let texts = list.iter().filter_map(Value::as_str).take(BATCH_LIMIT);
            texts.flat_map(Mailbox::list).take(BATCH_LIMIT).collect()
        }
        _ => Vec::new(),
    }
}

/// Parses headers from an object of texts.
fn headers(tree: &Value, key: &str) -> Vec<(String, String)> {
    let entries = tree.get(key).and_then(Value::as_object).into_iter().flatten().take(FILE_LIMIT);
    entries.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// A vendor's names for the parts of a file.
struct FileKeys {
    name: &'static str,
    content_type: &'static str,
    content: &'static str,
    content_id: &'static str,
}

impl FileKeys {
    /// Parses files whose content is base64, or a serialized JavaScript buffer.
    fn read(&self, list: &[Value]) -> Vec<OutgoingFile> {
        let file = |tree: &Value| OutgoingFile {
            name: text(tree, self.name).unwrap_or_else(|| "attachment".to_owned()),
            content_type: text(tree, self.content_type).unwrap_or_default(),
            bytes: bytes(tree.get(self.content)),
            content_id: text(tree, self.content_id).filter(|id| !id.is_empty()),
        };
        list.iter().take(FILE_LIMIT).map(file).collect()
    }
}

fn bytes(content: Option<&Value>) -> Vec<u8> {
    match content {
        Some(Value::String(text)) => {
            let plain: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            BASE64_STANDARD.decode(&plain).unwrap_or_else(|_| text.clone().into_bytes())
        }
        Some(Value::Array(list)) => {
            list.iter().filter_map(|one| u8::try_from(one.as_u64()?).ok()).collect()
        }
        Some(Value::Object(buffer)) => bytes(buffer.get("data").filter(|data| !data.is_object())),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
