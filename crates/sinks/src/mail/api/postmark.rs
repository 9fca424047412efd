//! Postmark.

use hothouse_model::record::bodies::MailTemplate;
use serde_json::{Value, json};

use super::{FileKeys, items, mailboxes, text, uuid};
use crate::{
    Call, Context, Recorded, Taken,
    mail::compose::{Mailbox, Outgoing},
};

const FILES: FileKeys = FileKeys {
    name: "Name",
    content_type: "ContentType",
    content: "Content",
    content_id: "ContentID",
};

/// An error, with Postmark's number for it.
struct Complaint(u16, String);

fn unknown() -> Taken {
    let told = json!({ "ErrorCode": 404, "Message": "Not found" });
    Taken::json(404, &told, "postmark", Vec::new()).unknown()
}

pub(super) fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    let segments: Vec<&str> = call.segments.iter().map(AsRef::as_ref).collect();
    if call.request.method != "POST" || segments.first() != Some(&"email") {
        return unknown();
    }
    let Ok(tree) = super::json(call) else {
        return refused(Complaint(402, "Invalid JSON".to_owned()));
    };
    match &segments[1..] {
        [] | ["withTemplate"] => match accept(tree, context) {
            Ok((answer, record)) => Taken::json(200, &answer, "postmark", vec![record]),
            Err(complaint) => refused(complaint),
        },
        ["batch"] => batch(tree.as_array().map(Vec::as_slice), context),
        ["batchWithTemplates"] => batch(Some(items(tree, "Messages")), context),
        _ => unknown(),
    }
}

fn answer(Complaint(code, message): Complaint) -> Value {
    json!({ "ErrorCode": code, "Message": message })
}

fn refused(complaint: Complaint) -> Taken {
    Taken::json(422, &answer(complaint), "postmark", Vec::new())
}

/// Answers for each mail of a batch.
fn batch(list: Option<&[Value]>, context: &mut Context<'_>) -> Taken {
    let Some(list) = list.filter(|list| list.len() <= 500) else {
        let message = "A batch is a list of at most 500 messages.";
        return refused(Complaint(410, message.to_owned()));
    };
    let (mut answers, mut records) = (Vec::new(), Vec::new());
    for tree in list {
        match accept(tree, context) {
            Ok((answer, record)) => {
                answers.push(answer);
                records.push(record);
            }
            Err(complaint) => answers.push(answer(complaint)),
        }
    }
    Taken::json(200, &Value::Array(answers), "postmark", records)
}

fn accept(tree: &Value, context: &mut Context<'_>) -> Result<(Value, Recorded), Complaint> {
    let mail = read(tree)?;
    let record = mail.record("postmark", context);
    let answer = json!({
        "To": text(tree, "To").unwrap_or_default(),
        "SubmittedAt": context.now.to_string(),
        "MessageID": uuid((context.random)()),
        "ErrorCode": 0,
        "Message": "OK",
    });
    Ok((answer, record))
}

fn read(tree: &Value) -> Result<Outgoing, Complaint> {
    let invalid = |message: &str| Complaint(300, message.to_owned());
    let from = mailboxes(tree, "From").into_iter().next().unwrap_or_default();
    if !from.is_valid() {
        return Err(invalid("Invalid 'From' address."));
    }
    let [to, cc, bcc] = ["To", "Cc", "Bcc"].map(|key| mailboxes(tree, key));
    if to.is_empty() && cc.is_empty() && bcc.is_empty() {
        return Err(invalid("Zero recipients specified"));
    }
    if let Some(bad) = to.iter().chain(&cc).chain(&bcc).find(|one| !one.is_valid()) {
        return Err(invalid(&format!("Invalid 'To' address: '{}'.", bad.address)));
    }
    let alias = text(tree, "TemplateAlias").or_else(|| text(tree, "TemplateId"));
    let (html, plain) = (text(tree, "HtmlBody"), text(tree, "TextBody"));
    if alias.is_none() && html.is_none() && plain.is_none() {
        return Err(invalid("Provide either email TextBody or HtmlBody or both."));
    }
    let header = |one: &Value| Some((text(one, "Name")?, text(one, "Value")?));
    Ok(Outgoing {
        from,
        to,
        cc,
        bcc,
        reply_to: Mailbox::list(&text(tree, "ReplyTo").unwrap_or_default()),
        subject: text(tree, "Subject").unwrap_or_default(),
        text: plain,
        html,
        headers: items(tree, "Headers").iter().filter_map(header).collect(),
        files: FILES.read(items(tree, "Attachments")),
        template: alias.map(|name| MailTemplate {
            name,
            values: tree.get("TemplateModel").cloned().unwrap_or_default(),
        }),
    })
}
