//! SendGrid: one mail for each personalization.

use hothouse_model::record::bodies::MailTemplate;
use serde_json::{Value, json};

use super::{FileKeys, headers, hex, items, text};
use crate::{
    Call, Context, Taken,
    mail::compose::{Mailbox, Outgoing},
};

const FILES: FileKeys = FileKeys {
    name: "filename",
    content_type: "type",
    content: "content",
    content_id: "content_id",
};

/// An error, and the field that it is about.
struct Complaint(&'static str, Option<String>);

pub(super) fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    let segments: Vec<&str> = call.segments.iter().map(AsRef::as_ref).collect();
    match (call.request.method, &segments[..]) {
        ("POST", ["v3", "mail", "send"]) => send(call, context)
            .unwrap_or_else(|Complaint(message, field)| errors(400, message, field.as_deref())),
        _ => errors(404, "not found", None).unknown(),
    }
}

fn errors(status: u16, message: &str, field: Option<&str>) -> Taken {
    let tree = json!({ "errors": [{ "message": message, "field": field, "help": null }] });
    Taken::json(status, &tree, "sendgrid", Vec::new())
}

fn send(call: &Call<'_>, context: &mut Context<'_>) -> Result<Taken, Complaint> {
    let tree = super::json(call).map_err(|_| Complaint("Bad Request", None))?;
    let mails = read(tree)?;
    let is_trial = tree.pointer("/mail_settings/sandbox_mode/enable") == Some(&Value::Bool(true));
    if is_trial {
        // Sandbox mode: checked, answered with 200 and not sent.
        return Ok(Taken::empty(200, "sendgrid", Vec::new()));
    }
    let records = mails.iter().map(|mail| mail.record("sendgrid", context)).collect();
    let mut taken = Taken::empty(202, "sendgrid", records);
    let id = hex((context.random)());
    taken.answer.headers.push(("x-message-id".to_owned(), id[..22].to_owned()));
    Ok(taken)
}

fn read(tree: &Value) -> Result<Vec<Outgoing>, Complaint> {
    let at = |message, field: &str| Complaint(message, Some(field.to_owned()));
    let from = tree.get("from").map(mailbox).unwrap_or_default();
    let all = items(tree, "personalizations");
    if all.is_empty() {
        return Err(at(
            "The personalizations field is required and must have at least one personalization.",
            "personalizations",
        ));
    }
    if !from.is_valid() {
        return Err(at(
            "The from object must be provided for every email send. It is an object that requires the email parameter, but may also contain a name parameter.  e.g. {\"email\" : \"example@example.com\"}  or {\"email\" : \"example@example.com\", \"name\" : \"Example Recipient\"}.",
            "from.email",
        ));
    }
    let template = text(tree, "template_id");
    let content = items(tree, "content");
    if content.is_empty() && template.is_none() {
        return Err(at(
            "Unless a valid template_id is provided, the content parameter is required. There must be at least one defined content block. We typically suggest both text/plain and text/html blocks are included, but only one block is required.",
            "content",
        ));
    }
    all.iter()
        .enumerate()
        .map(|(index, own)| personal(tree, own, index, &from, template.as_deref()))
        .collect()
}

fn personal(
    tree: &Value,
    own: &Value,
    index: usize,
    from: &Mailbox,
    template: Option<&str>,
) -> Result<Outgoing, Complaint> {
    let list = |key: &str| items(own, key).iter().map(mailbox).collect::<Vec<_>>();
    let to = list("to");
    if to.is_empty() {
        let field = format!("personalizations.{index}.to");
        return Err(Complaint(
            "The to array is required for all personalization objects, and must have at least one email object with a valid email address.",
            Some(field),
        ));
    }
    if let Some(bad) = to.iter().position(|one| !one.is_valid()) {
        let field = format!("personalizations.{index}.to.{bad}.email");
        return Err(Complaint("Does not contain a valid address.", Some(field)));
    }
    let subject = text(own, "subject").or_else(|| text(tree, "subject")).unwrap_or_default();
    if subject.is_empty() && template.is_none() {
        return Err(Complaint(
            "The subject is required. You can get around this requirement if you use a template with a subject defined or if every personalization has a subject defined.",
            Some("subject".to_owned()),
        ));
    }
    let part = |kind: &str| {
        let found = items(tree, "content")
            .iter()
            .find(|part| part.get("type").and_then(Value::as_str) == Some(kind));
        found.and_then(|part| text(part, "value")).map(|value| substituted(value, own))
    };
    let reply_to = tree.get("reply_to").into_iter().chain(items(tree, "reply_to_list"));
    Ok(Outgoing {
        from: own.get("from").map_or_else(|| from.clone(), mailbox),
        to,
        cc: list("cc"),
        bcc: list("bcc"),
        reply_to: reply_to.map(mailbox).collect(),
        subject: substituted(subject, own),
        text: part("text/plain"),
        html: part("text/html"),
        headers: [headers(tree, "headers"), headers(own, "headers")].concat(),
        files: FILES.read(items(tree, "attachments")),
        template: template.map(|name| MailTemplate {
            name: name.to_owned(),
            values: own
                .get("dynamic_template_data")
                .or_else(|| own.get("substitutions"))
                .cloned()
                .unwrap_or_default(),
        }),
    })
}

fn mailbox(tree: &Value) -> Mailbox {
    let name = text(tree, "name").unwrap_or_default();
    Mailbox::new(&name, &text(tree, "email").unwrap_or_default())
}

/// Inserts the values of legacy template substitutions.
fn substituted(text: String, own: &Value) -> String {
    super::headers(own, "substitutions").iter().fold(text, |text, (key, value)| {
        match key.as_str() {
            "" => text,
            // A short key with a long value could expand to any size.
            _ if text.len() > 1 << 20 => text,
            key => text.replace(key, value),
        }
    })
}
