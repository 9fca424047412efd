//! Mailgun, whose parameters come in either form encoding.

use hothouse_mock::form;
use hothouse_model::record::bodies::MailTemplate;
use serde_json::{Map, Value, json};

use super::{BATCH_LIMIT, hex};
use crate::{
    Call, Context, Recorded, Taken,
    mail::{
        Incoming,
        compose::{Mailbox, Outgoing, OutgoingFile},
        recorded,
    },
    multipart,
};

/// The parameters of a call.
struct Form {
    fields: Vec<(String, String)>,
    files: Vec<(String, OutgoingFile)>,
}

pub(super) fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    let segments: Vec<&str> = call.segments.iter().map(AsRef::as_ref).collect();
    let taken = match (call.request.method, &segments[..]) {
        ("POST", ["v3", _, "messages"]) => send(call, context),
        ("POST", ["v3", _, "messages.mime"]) => send_whole(call, context),
        _ => {
            let told = json!({ "message": "Not Found" });
            return Taken::json(404, &told, "mailgun", Vec::new()).unknown();
        }
    };
    match taken {
        Ok(records) => {
            let id = format!("<{}@{}>", hex((context.random)()), segments[1]);
            let answer = json!({ "id": id, "message": "Queued. Thank you." });
            Taken::json(200, &answer, "mailgun", records)
        }
        Err(message) => Taken::json(400, &json!({ "message": message }), "mailgun", Vec::new()),
    }
}

impl Form {
    fn read(call: &Call<'_>) -> Result<Self, String> {
        let kind = call.request.header("content-type").unwrap_or_default();
        if !kind.to_ascii_lowercase().starts_with("multipart/form-data") {
            let fields = form::pairs(&String::from_utf8_lossy(call.request.body));
            return Ok(Self { fields, files: Vec::new() });
        }
        let parts = multipart::parse(kind, call.request.body).ok_or("the form cannot be read")?;
        let (files, fields): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| part.file.is_some());
        let file = |part: multipart::Part| {
            let name = part.file.unwrap_or_default();
            let content_id = (part.name == "inline").then(|| name.clone());
            (
                part.name,
                OutgoingFile {
                    name,
                    content_type: part.content_type,
                    bytes: part.bytes,
                    content_id,
                },
            )
        };
        let fields = fields.into_iter().map(|part| (part.name.clone(), part.text())).collect();
        Ok(Self { fields, files: files.into_iter().map(file).collect() })
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.all(name).find(|value| !value.is_empty())
    }

    fn mailboxes(&self, name: &str) -> Vec<Mailbox> {
        self.all(name).flat_map(Mailbox::list).take(BATCH_LIMIT).collect()
    }

    fn prefixed(&self, prefix: &str) -> impl Iterator<Item = (String, String)> {
        self.fields.iter().filter_map(move |(name, value)| {
            Some((name.strip_prefix(prefix)?.to_owned(), value.clone()))
        })
    }
}

fn send(call: &Call<'_>, context: &mut Context<'_>) -> Result<Vec<Recorded>, String> {
    let form = Form::read(call)?;
    let mail = read(&form)?;
    if form.text("o:testmode").is_some_and(|mode| matches!(mode, "yes" | "true" | "True")) {
        // Test mode: accepted but not sent.
        return Ok(Vec::new());
    }
    let mails = match form.text("recipient-variables").map(serde_json::from_str::<Value>) {
        Some(Ok(Value::Object(variables))) if !variables.is_empty() => each(&mail, &variables),
        _ => vec![mail],
    };
    Ok(mails.iter().map(|mail| mail.record("mailgun", context)).collect())
}

fn read(form: &Form) -> Result<Outgoing, String> {
    let from = form.mailboxes("from").into_iter().next();
    let Some(from) = from else { return Err("from parameter is missing".to_owned()) };
    let to = form.mailboxes("to");
    if to.is_empty() {
        return Err("to parameter is missing".to_owned());
    }
    if !from.is_valid() {
        return Err("from parameter is not a valid address. please check documentation".to_owned());
    }
    if !to.iter().all(Mailbox::is_valid) {
        return Err("to parameter is not a valid address. please check documentation".to_owned());
    }
    let [text, html, template] =
        ["text", "html", "template"].map(|name| form.text(name).map(str::to_owned));
    if text.is_none() && html.is_none() && template.is_none() {
        return Err(
            "Need at least one of 'text', 'html', 'amp-html' or 'template' parameters specified"
                .to_owned(),
        );
    }
    Ok(Outgoing {
        from,
        to,
        cc: form.mailboxes("cc"),
        bcc: form.mailboxes("bcc"),
        reply_to: form.mailboxes("h:Reply-To"),
        subject: form.text("subject").unwrap_or_default().to_owned(),
        text,
        html,
        headers: form
            .prefixed("h:")
            .filter(|(name, _)| !name.eq_ignore_ascii_case("reply-to"))
            .collect(),
        files: form.files.iter().map(|(_, file)| file.clone()).collect(),
        template: template.map(|name| MailTemplate { name, values: variables(form) }),
    })
}

fn variables(form: &Form) -> Value {
    let all = form.text("t:variables").or_else(|| form.text("h:X-Mailgun-Variables"));
    let own = form.prefixed("v:").map(|(name, value)| (name, Value::String(value)));
    match all.and_then(|text| serde_json::from_str(text).ok()) {
        Some(Value::Object(all)) => Value::Object(all.into_iter().chain(own).collect()),
        _ => Value::Object(own.collect()),
    }
}

/// Builds one mail per recipient, with its own variables.
fn each(mail: &Outgoing, variables: &Map<String, Value>) -> Vec<Outgoing> {
    let personal = |to: &Mailbox| {
        let own = variables.get(&to.address);
        let fill = |text: &str| filled(text, &to.address, own);
        Outgoing {
            to: vec![to.clone()],
            subject: fill(&mail.subject),
            text: mail.text.as_deref().map(fill),
            html: mail.html.as_deref().map(fill),
            ..mail.clone()
        }
    };
    mail.to.iter().map(personal).collect()
}

fn filled(text: &str, address: &str, own: Option<&Value>) -> String {
    let whole = text.replace("%recipient%", address);
    let values = own.and_then(Value::as_object).into_iter().flatten().take(100);
    values.fold(whole, |text, (key, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if text.len() > 1 << 20 {
            text
        } else {
            text.replace(&format!("%recipient.{key}%"), &value)
        }
    })
}

fn send_whole(call: &Call<'_>, _: &mut Context<'_>) -> Result<Vec<Recorded>, String> {
    let form = Form::read(call)?;
    let to = form.mailboxes("to");
    if to.is_empty() {
        return Err("to parameter is missing".to_owned());
    }
    let file =
        form.files.iter().find(|(name, _)| name == "message").map(|(_, file)| file.bytes.clone());
    let message = file.or_else(|| form.text("message").map(|text| text.as_bytes().to_vec()));
    let Some(message) = message else { return Err("message parameter is missing".to_owned()) };
    let recipients: Vec<String> = to.into_iter().map(|one| one.address).collect();
    let record = recorded(Incoming {
        recipients: &recipients,
        message: &message,
        via: "mailgun",
        ..Incoming::default()
    });
    Ok(vec![record])
}
