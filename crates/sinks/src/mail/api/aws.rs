//! Both versions of the SES API, and text messages of SNS.

use base64::{Engine, prelude::BASE64_STANDARD};
use hothouse_mock::{Answer, Body, Match};
use hothouse_model::record::bodies::MailTemplate;
use serde_json::{Value, json};

use super::{BATCH_LIMIT, FileKeys, items, mailboxes, text, uuid};
use crate::{
    Call, Context, Recorded, Taken,
    mail::{
        Incoming,
        compose::{Mailbox, Outgoing},
        html::escaped,
        recorded, text_message,
    },
};

const FILES: FileKeys = FileKeys {
    name: "FileName",
    content_type: "ContentType",
    content: "RawContent",
    content_id: "ContentId",
};

/// An error of a call, with AWS's name for it.
struct Complaint(&'static str, String);

pub(super) fn take_ses(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    match call.segments.first().map(AsRef::as_ref) {
        Some("v2") => take_json(call, context),
        _ => take_query(call, context, "ses", "http://ses.amazonaws.com/doc/2010-12-01/"),
    }
}

pub(super) fn take_sns(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    take_query(call, context, "sns", "http://sns.amazonaws.com/doc/2010-03-31/")
}

fn take_json(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    let segments: Vec<&str> = call.segments.iter().map(AsRef::as_ref).collect();
    let taken = match (call.request.method, &segments[..]) {
        ("POST", ["v2", "email", "outbound-emails"]) => super::json(call)
            .map_err(|why| Complaint("SerializationException", why))
            .and_then(|tree| of_json(tree, context)),
        _ => Err(Complaint("NotFoundException", "There is no such operation.".to_owned())),
    };
    match taken {
        Ok(record) => {
            let id = message_id(context);
            Taken::json(200, &json!({ "MessageId": id }), "ses", vec![record])
        }
        Err(Complaint(name, message)) => {
            let status = if name == "NotFoundException" { 404 } else { 400 };
            let mut taken = Taken::json(status, &json!({ "message": message }), "ses", Vec::new());
            taken.answer.headers.push(("x-amzn-errortype".to_owned(), name.to_owned()));
            if status == 404 { taken.unknown() } else { taken }
        }
    }
}

fn bad(message: &str) -> Complaint {
    Complaint("BadRequestException", message.to_owned())
}

fn of_json(tree: &Value, context: &mut Context<'_>) -> Result<Recorded, Complaint> {
    let from = text(tree, "FromEmailAddress").unwrap_or_default();
    let null = Value::Null;
    let destination = tree.get("Destination").unwrap_or(&null);
    let [to, cc, bcc] =
        ["ToAddresses", "CcAddresses", "BccAddresses"].map(|key| mailboxes(destination, key));
    let content = tree.get("Content").unwrap_or(&null);
    if let Some(raw) = content.pointer("/Raw/Data").and_then(Value::as_str) {
        let recipients = [to, cc, bcc].concat();
        return whole(raw, &from, recipients, "ses");
    }
    let simple = content.get("Simple");
    let template = content.get("Template").map(|template| MailTemplate {
        name: text(template, "TemplateName")
            .or_else(|| text(template, "TemplateArn"))
            .unwrap_or_default(),
        values: values(text(template, "TemplateData").as_deref()),
    });
    if simple.is_none() && template.is_none() {
        return Err(bad("Content must be specified."));
    }
    let part = |pointer: &str| {
        let found = simple?.pointer(pointer)?.as_str()?;
        Some(found.to_owned())
    };
    let simple_tree = simple.unwrap_or(&null);
    let header = |one: &Value| Some((text(one, "Name")?, text(one, "Value")?));
    let mail = Outgoing {
        from: Mailbox::list(&from).into_iter().next().unwrap_or_default(),
        to,
        cc,
        bcc,
        reply_to: mailboxes(tree, "ReplyToAddresses"),
        subject: part("/Subject/Data").unwrap_or_default(),
        text: part("/Body/Text/Data"),
        html: part("/Body/Html/Data"),
        headers: items(simple_tree, "Headers").iter().filter_map(header).collect(),
        files: FILES.read(items(simple_tree, "Attachments")),
        template,
    };
    checked(&mail)?;
    Ok(mail.record("ses", context))
}

fn checked(mail: &Outgoing) -> Result<(), Complaint> {
    if mail.recipients().is_empty() {
        return Err(Complaint("BadRequestException", "Missing final '@domain'".to_owned()));
    }
    let all = [&mail.to[..], &mail.cc, &mail.bcc, std::slice::from_ref(&mail.from)].concat();
    match all.iter().find(|one| !one.is_valid()) {
        Some(_) => Err(bad("Missing final '@domain'")),
        None => Ok(()),
    }
}

fn values(text: Option<&str>) -> Value {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Accepts a raw message. Without recipients in the call, its headers are used.
fn whole(
    raw: &str,
    from: &str,
    recipients: Vec<Mailbox>,
    via: &str,
) -> Result<Recorded, Complaint> {
    let plain: String = raw.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let Ok(message) = BASE64_STANDARD.decode(plain) else {
        return Err(Complaint("SerializationException", "Data is not valid base64.".to_owned()));
    };
    let from = Mailbox::list(from).into_iter().next().unwrap_or_default();
    let recipients: Vec<String> = recipients.into_iter().map(|one| one.address).collect();
    let incoming = Incoming {
        from: &from.address,
        recipients: &recipients,
        message: &message,
        via,
        ..Incoming::default()
    };
    Ok(recorded(incoming))
}

/// The parameters of the query API.
struct Query<'c>(&'c Value);

impl Query<'_> {
    fn text(&self, key: &str) -> Option<String> {
        text(self.0, key).filter(|text| !text.is_empty())
    }

    fn mailboxes(&self, key: &str) -> Vec<Mailbox> {
        let all = (1..=BATCH_LIMIT).map_while(|n| self.text(&format!("{key}.member.{n}")));
        all.flat_map(|text| Mailbox::list(&text)).collect()
    }
}

fn take_query(call: &Call<'_>, context: &mut Context<'_>, vendor: &str, namespace: &str) -> Taken {
    let empty = json!({});
    let query = Query(call.tree().unwrap_or(&empty));
    let action = query
        .text("Action")
        .or_else(|| call.query("Action").map(str::to_owned))
        .unwrap_or_default();
    let taken = match (vendor, action.as_str()) {
        ("ses", "SendEmail" | "SendTemplatedEmail") => of_query(&query, context),
        ("ses", "SendRawEmail") => {
            let raw = query.text("RawMessage.Data").ok_or_else(|| missing("RawMessage.Data"));
            let from = query.text("Source").unwrap_or_default();
            raw.and_then(|raw| whole(&raw, &from, query.mailboxes("Destinations"), "ses"))
        }
        ("sns", "Publish") => publish(&query),
        _ => Err(Complaint("InvalidAction", format!("Could not find operation {action}"))),
    };
    let request = uuid((context.random)());
    match taken {
        Ok(record) => {
            let id = message_id(context);
            let xml = format!(
                "<{action}Response xmlns=\"{namespace}\"><{action}Result><MessageId>{id}</MessageId></{action}Result>\
                 <ResponseMetadata><RequestId>{request}</RequestId></ResponseMetadata></{action}Response>"
            );
            answer(200, xml, vendor, vec![record])
        }
        Err(Complaint(code, message)) => {
            let xml = format!(
                "<ErrorResponse xmlns=\"{namespace}\"><Error><Type>Sender</Type><Code>{code}</Code><Message>{}</Message></Error>\
                 <RequestId>{request}</RequestId></ErrorResponse>",
                escaped(&message)
            );
            let taken = answer(400, xml, vendor, Vec::new());
            if code == "InvalidAction" { taken.unknown() } else { taken }
        }
    }
}

fn answer(status: u16, xml: String, vendor: &str, records: Vec<Recorded>) -> Taken {
    let answer = Answer {
        headers: vec![("content-type".to_owned(), "text/xml".to_owned())],
        body: Body::Whole(xml.into_bytes()),
        ..Answer::empty(status, Match::Vendor(vendor.to_owned()))
    };
    Taken { answer, records }
}

fn missing(name: &str) -> Complaint {
    Complaint("MissingParameter", format!("The request must contain the parameter {name}."))
}

fn of_query(query: &Query<'_>, context: &mut Context<'_>) -> Result<Recorded, Complaint> {
    let source = query.text("Source").ok_or_else(|| missing("Source"))?;
    let template = query
        .text("Template")
        .map(|name| MailTemplate { name, values: values(query.text("TemplateData").as_deref()) });
    let mail = Outgoing {
        from: Mailbox::list(&source).into_iter().next().unwrap_or_default(),
        to: query.mailboxes("Destination.ToAddresses"),
        cc: query.mailboxes("Destination.CcAddresses"),
        bcc: query.mailboxes("Destination.BccAddresses"),
        reply_to: query.mailboxes("ReplyToAddresses"),
        subject: query.text("Message.Subject.Data").unwrap_or_default(),
        text: query.text("Message.Body.Text.Data"),
        html: query.text("Message.Body.Html.Data"),
        template,
        ..Outgoing::default()
    };
    if mail.recipients().is_empty() {
        return Err(missing("Destination"));
    }
    let fault = |Complaint(_, message)| Complaint("InvalidParameterValue", message);
    checked(&mail).map_err(fault)?;
    Ok(mail.record("ses", context))
}

/// Handles a message to a phone, or to the subscribers of a topic.
fn publish(query: &Query<'_>) -> Result<Recorded, Complaint> {
    let invalid =
        |message: &str| Complaint("InvalidParameter", format!("Invalid parameter: {message}"));
    let to = ["PhoneNumber", "TopicArn", "TargetArn"].iter().find_map(|key| query.text(key));
    let to =
        to.ok_or_else(|| invalid("TopicArn or TargetArn Reason: no value for required parameter"))?;
    let message = query.text("Message").ok_or_else(|| invalid("Empty message"))?;
    Ok(text_message("sns", &query.text("Subject").unwrap_or_default(), &to, &message))
}

fn message_id(context: &mut Context<'_>) -> String {
    format!("0100{}-000000", uuid((context.random)()))
}
