//! Mails and text messages that an app sent.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A mail or text message sent by the app.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailBody {
    /// The address in the header, or otherwise in the envelope.
    pub from: String,
    pub to: Vec<String>,
    pub cc: Vec<String>,
    /// Envelope recipients that no header names.
    pub bcc: Vec<String>,
    pub subject: String,
    /// How it was sent, such as `smtp` or `resend`.
    pub via: String,
    /// In bytes, as sent.
    pub size: u64,
    pub attachments: Vec<Attachment>,
    pub files: MailFiles,
    /// The text part, if there is one.
    pub text: Option<String>,
    /// The HTML part as sent, if there is one.
    pub html: Option<String>,
    /// In their original order.
    pub headers: Vec<(String, String)>,
    pub links: Vec<String>,
    /// Codes that the reader is asked to enter, such as `314159`.
    pub codes: Vec<String>,
    pub checks: Vec<MailCheck>,
    /// The vendor's template, if one was named; the vendor would have rendered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<MailTemplate>,
    pub envelope: MailEnvelope,
    /// The id that the emulated vendor's API returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_id: Option<String>,
}

/// An attachment of a mail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attachment {
    pub name: String,
    #[serde(rename = "type")]
    pub content_type: String,
    pub size: u64,
}

/// The files with the parts of a mail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailFiles {
    /// The message as sent.
    pub eml: Option<String>,
    /// A sanitized page that is safe to open.
    pub html: Option<String>,
    pub text: Option<String>,
    pub json: Option<String>,
}

/// Something in a mail that readers or mail servers may reject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailCheck {
    /// Such as `no-text-part`.
    pub check: String,
    pub text: String,
}

/// A vendor's template and its variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailTemplate {
    pub name: String,
    pub values: Value,
}

/// The recipients given to the mail server, whatever the headers say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailEnvelope {
    pub from: String,
    pub to: Vec<String>,
    /// Further parameters, such as `BODY=8BITMIME`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
}
