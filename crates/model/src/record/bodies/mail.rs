//! Mails and text messages that an app sent.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A mail or a text message that the app sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailBody {
    /// The address in the header, or else in the envelope.
    pub from: String,
    pub to: Vec<String>,
    pub cc: Vec<String>,
    /// Recipients of the envelope that no header names.
    pub bcc: Vec<String>,
    pub subject: String,
    /// How it came, such as `smtp` or `resend`.
    pub via: String,
    /// In bytes, as it was sent.
    pub size: u64,
    pub attachments: Vec<Attachment>,
    pub files: MailFiles,
    /// The text part, where there is one.
    pub text: Option<String>,
    /// The html part as it was sent, where there is one.
    pub html: Option<String>,
    /// In the order in which they came.
    pub headers: Vec<(String, String)>,
    pub links: Vec<String>,
    /// Codes that the reader is asked to enter, such as `314159`.
    pub codes: Vec<String>,
    pub checks: Vec<MailCheck>,
    /// The vendor's template, where one was named: the vendor would have filled it in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<MailTemplate>,
    pub envelope: MailEnvelope,
    /// The id that the vendor's API gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_id: Option<String>,
}

/// A file in a mail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attachment {
    pub name: String,
    #[serde(rename = "type")]
    pub content_type: String,
    pub size: u64,
}

/// Where the parts of a mail are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailFiles {
    /// The message as it was sent.
    pub eml: Option<String>,
    /// A page that is safe to open.
    pub html: Option<String>,
    pub text: Option<String>,
    pub json: Option<String>,
}

/// Something about a mail that its readers or their mail servers may not like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailCheck {
    /// Such as `no-text-part`.
    pub check: String,
    pub text: String,
}

/// A template of a vendor, and what it was to be filled in with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailTemplate {
    pub name: String,
    pub values: Value,
}

/// Who a mail server was told to deliver to, whatever the headers say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailEnvelope {
    pub from: String,
    pub to: Vec<String>,
    /// What was asked for besides, such as `BODY=8BITMIME`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
}
