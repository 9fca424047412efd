//! Mailchimp Transactional, formerly Mandrill.

use base64::{Engine, prelude::BASE64_STANDARD};
use hothouse_model::record::bodies::MailTemplate;
use serde_json::{Value, json};

use super::{FileKeys, headers, hex, items, mailboxes, text};
use crate::{
    Call, Context, Recorded, Taken,
    mail::{
        Incoming,
        compose::{Mailbox, Outgoing},
        recorded,
    },
};

const FILES: FileKeys =
    FileKeys { name: "name", content_type: "type", content: "content", content_id: "-" };
const IMAGES: FileKeys = FileKeys { content_id: "name", ..FILES };

pub(super) fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    let segments: Vec<&str> = call.segments.iter().map(AsRef::as_ref).collect();
    let ["api", _, group, action] = segments[..] else {
        return failed(404, -1, "Unknown_Path", "there is no such method").unknown();
    };
    let Ok(tree) = super::json(call) else {
        return failed(500, -1, "ValidationError", "You must specify a key value");
    };
    let taken = match (group, action.strip_suffix(".json").unwrap_or(action)) {
        ("users", "ping") => return Taken::json(200, &json!("PONG!"), "mandrill", Vec::new()),
        ("users", "ping2") => {
            return Taken::json(200, &json!({ "PING": "PONG!" }), "mandrill", Vec::new());
        }
        ("messages", "send" | "send-template") => send(tree, context),
        ("messages", "send-raw") => send_raw(tree),
        _ => return failed(404, -1, "Unknown_Path", "there is no such method").unknown(),
    };
    match taken {
        Ok((recipients, record)) => {
            let answer: Vec<Value> = recipients.iter().map(|to| sent(to, context)).collect();
            Taken::json(200, &Value::Array(answer), "mandrill", vec![record])
        }
        Err(message) => failed(500, -2, "ValidationError", &message),
    }
}

fn failed(status: u16, code: i32, name: &str, message: &str) -> Taken {
    let tree = json!({ "status": "error", "code": code, "name": name, "message": message });
    Taken::json(status, &tree, "mandrill", Vec::new())
}

fn sent(to: &str, context: &mut Context<'_>) -> Value {
    let id = hex((context.random)());
    json!({ "email": to, "status": "sent", "_id": id, "reject_reason": null, "queued_reason": null })
}

fn send(tree: &Value, context: &mut Context<'_>) -> Result<(Vec<String>, Recorded), String> {
    let message = tree.get("message").filter(|message| message.is_object());
    let message = message.ok_or("You must specify a message value")?;
    let list = |kind: &str| {
        let is_kind = |one: &&Value| text(one, "type").as_deref().unwrap_or("to") == kind;
        let own = items(message, "to").iter().filter(is_kind);
        own.map(|one| {
            Mailbox::new(
                &text(one, "name").unwrap_or_default(),
                &text(one, "email").unwrap_or_default(),
            )
        })
        .collect::<Vec<_>>()
    };
    let [to, cc, mut bcc] = ["to", "cc", "bcc"].map(list);
    bcc.extend(mailboxes(message, "bcc_address"));
    if to.is_empty() && cc.is_empty() && bcc.is_empty() {
        return Err("Validation error: {\"message\":{\"to\":\"Please enter an array\"}}".to_owned());
    }
    let template = text(tree, "template_name").map(|name| MailTemplate {
        name,
        values: json!({
            "template_content": tree.get("template_content"),
            "global_merge_vars": message.get("global_merge_vars"),
            "merge_vars": message.get("merge_vars"),
        }),
    });
    let sender = text(message, "from_email").unwrap_or_default();
    let mail = Outgoing {
        from: Mailbox::new(&text(message, "from_name").unwrap_or_default(), &sender),
        to,
        cc,
        bcc,
        reply_to: Vec::new(),
        subject: text(message, "subject").unwrap_or_default(),
        text: text(message, "text"),
        html: text(message, "html"),
        headers: headers(message, "headers"),
        files: [FILES.read(items(message, "attachments")), IMAGES.read(items(message, "images"))]
            .concat(),
        template,
    };
    if mail.template.is_none() && !mail.from.is_valid() {
        return Err("A from_email value is required".to_owned());
    }
    Ok((mail.recipients(), mail.record("mandrill", context)))
}

fn send_raw(tree: &Value) -> Result<(Vec<String>, Recorded), String> {
    let message = text(tree, "raw_message").ok_or("You must specify a raw_message value")?;
    let message = match message.contains(':') {
        true => message.into_bytes(),
        false => BASE64_STANDARD.decode(&message).unwrap_or_else(|_| message.clone().into_bytes()),
    };
    let to: Vec<String> = mailboxes(tree, "to").into_iter().map(|one| one.address).collect();
    let from = text(tree, "from_email").unwrap_or_default();
    let incoming = Incoming {
        from: &from,
        recipients: &to,
        message: &message,
        via: "mandrill",
        ..Incoming::default()
    };
    Ok((to.clone(), recorded(incoming)))
}
