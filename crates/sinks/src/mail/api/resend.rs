//! Resend.

use hothouse_model::record::bodies::MailTemplate;
use serde_json::{Value, json};

use super::{BATCH_LIMIT, FileKeys, headers, items, mailboxes, text, uuid};
use crate::{
    Call, Context, Recorded, Taken,
    mail::compose::{Mailbox, Outgoing},
};

const FILES: FileKeys = FileKeys {
    name: "filename",
    content_type: "content_type",
    content: "content",
    content_id: "content_id",
};

/// An error, with Resend's name for it.
struct Complaint(u16, &'static str, String);

pub(super) fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    let segments: Vec<&str> = call.segments.iter().map(AsRef::as_ref).collect();
    let taken = match (call.request.method, &segments[..]) {
        ("POST", ["emails"]) => one(call, context),
        ("POST", ["emails", "batch"]) => batch(call, context),
        ("GET", ["emails", id]) => sent(id, context),
        ("POST", ["emails", id, "cancel"]) => {
            Ok(Taken::json(200, &json!({ "object": "email", "id": id }), "resend", Vec::new()))
        }
        _ => {
            let why = "The requested endpoint does not exist".to_owned();
            return refused(Complaint(404, "not_found", why)).unknown();
        }
    };
    taken.unwrap_or_else(refused)
}

fn refused(Complaint(status, name, message): Complaint) -> Taken {
    let tree = json!({ "statusCode": status, "name": name, "message": message });
    Taken::json(status, &tree, "resend", Vec::new())
}

fn one(call: &Call<'_>, context: &mut Context<'_>) -> Result<Taken, Complaint> {
    let tree = body(call)?;
    let (id, record) = accept(tree, context)?;
    Ok(Taken::json(200, &json!({ "id": id }), "resend", vec![record]))
}

/// Accepts all mails or none, as Resend does.
fn batch(call: &Call<'_>, context: &mut Context<'_>) -> Result<Taken, Complaint> {
    let Some(list) = body(call)?.as_array() else {
        return Err(invalid("The batch must be an array of emails."));
    };
    if list.is_empty() || list.len() > BATCH_LIMIT {
        return Err(invalid("The batch must have at least one email, and not too many."));
    }
    let taken: Result<Vec<_>, Complaint> = list.iter().map(|tree| accept(tree, context)).collect();
    let (ids, records): (Vec<String>, Vec<Recorded>) = taken?.into_iter().unzip();
    let data: Vec<Value> = ids.into_iter().map(|id| json!({ "id": id })).collect();
    Ok(Taken::json(200, &json!({ "data": data }), "resend", records))
}

fn body<'c>(call: &'c Call<'_>) -> Result<&'c Value, Complaint> {
    super::json(call).map_err(|_| invalid("The request body is not valid JSON."))
}

fn invalid(message: &str) -> Complaint {
    Complaint(422, "validation_error", message.to_owned())
}

fn accept(tree: &Value, context: &mut Context<'_>) -> Result<(String, Recorded), Complaint> {
    let mail = read(tree)?;
    let mut record = mail.record("resend", context);
    let id = uuid((context.random)());
    record.body["vendor_id"] = id.as_str().into();
    Ok((id, record))
}

fn read(tree: &Value) -> Result<Outgoing, Complaint> {
    let missing =
        |field: &str| Complaint(422, "missing_required_field", format!("Missing `{field}` field."));
    let template = tree.get("template").map(|template| MailTemplate {
        name: text(template, "id").unwrap_or_default(),
        values: template.get("variables").cloned().unwrap_or_default(),
    });
    let from = mailboxes(tree, "from").into_iter().next();
    let from = match (from, &template) {
        (Some(from), _) if from.is_valid() => from,
        (None, Some(_)) => Mailbox::default(),
        (None, None) if tree.get("from").is_none() => return Err(missing("from")),
        _ => {
            return Err(invalid(
                "Invalid `from` field. The email address needs to follow the `email@example.com` or `Name <email@example.com>` format.",
            ));
        }
    };
    let to = mailboxes(tree, "to");
    if to.is_empty() {
        return Err(missing("to"));
    }
    if !to.iter().all(Mailbox::is_valid) {
        return Err(invalid(
            "Invalid `to` field. The email address needs to follow the `email@example.com` or `Name <email@example.com>` format.",
        ));
    }
    let (html, plain) = (text(tree, "html"), text(tree, "text"));
    if template.is_none() && text(tree, "subject").is_none() {
        return Err(missing("subject"));
    }
    if template.is_none() && html.is_none() && plain.is_none() {
        return Err(invalid("Missing `html` or `text` field."));
    }
    let reply_to = [mailboxes(tree, "reply_to"), mailboxes(tree, "replyTo")].concat();
    Ok(Outgoing {
        from,
        to,
        cc: mailboxes(tree, "cc"),
        bcc: mailboxes(tree, "bcc"),
        reply_to,
        subject: text(tree, "subject").unwrap_or_default(),
        text: plain,
        html,
        headers: headers(tree, "headers"),
        files: FILES.read(items(tree, "attachments")),
        template,
    })
}

/// Returns a sent mail, by its assigned id.
fn sent(id: &str, context: &Context<'_>) -> Result<Taken, Complaint> {
    let mail = (context.mails)(id).filter(|mail| mail.via == "resend");
    let mail = mail.ok_or_else(|| Complaint(404, "not_found", "Email not found".to_owned()))?;
    let header = |name: &str| {
        let found = mail.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone())
    };
    let tree = json!({
        "object": "email", "id": id, "last_event": "delivered",
        "from": header("from").unwrap_or_else(|| mail.from.clone()), "to": mail.to, "cc": mail.cc, "bcc": mail.bcc,
        "reply_to": header("reply-to").map(|one| vec![one]).unwrap_or_default(),
        "subject": mail.subject, "html": mail.html, "text": mail.text,
        "created_at": header("date"), "scheduled_at": null, "tags": [],
    });
    Ok(Taken::json(200, &tree, "resend", Vec::new()))
}
