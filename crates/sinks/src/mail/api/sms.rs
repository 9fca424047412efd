//! Text messages of Twilio and Vonage.

use serde_json::{Value, json};

use super::{hex, text, uuid};
use crate::{Call, Context, Taken, mail::text_message};

pub(super) fn take_twilio(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    let segments: Vec<&str> = call.segments.iter().map(AsRef::as_ref).collect();
    match (call.request.method, &segments[..]) {
        ("POST", ["2010-04-01", "Accounts", account, "Messages.json"]) => {
            let empty = json!({});
            send(account, call.tree().unwrap_or(&empty), context)
                .unwrap_or_else(|(code, message)| twilio_error(400, code, message))
        }
        _ => twilio_error(404, 20404, "The requested resource was not found").unknown(),
    }
}

fn twilio_error(status: u16, code: u32, message: &str) -> Taken {
    let more = format!("https://www.twilio.com/docs/errors/{code}");
    let tree = json!({ "code": code, "message": message, "more_info": more, "status": status });
    Taken::json(status, &tree, "twilio", Vec::new())
}

fn send(
    account: &str,
    form: &Value,
    context: &mut Context<'_>,
) -> Result<Taken, (u32, &'static str)> {
    let field = |name: &str| text(form, name).filter(|text| !text.is_empty());
    let to = field("To").ok_or((21604, "A 'To' phone number is required."))?;
    let service = field("MessagingServiceSid");
    let from = field("From").or_else(|| service.clone());
    let from = from.ok_or((21603, "A 'From' phone number is required."))?;
    let has_other = form.get("MediaUrl").is_some() || form.get("ContentSid").is_some();
    let body = field("Body").or_else(|| has_other.then(String::new));
    let body = body.ok_or((21602, "Message body is required."))?;
    let record = text_message("twilio", &from, &to, &body);
    let sid = format!("SM{}", hex((context.random)()));
    let uri = format!("/2010-04-01/Accounts/{account}/Messages/{sid}.json");
    // RFC 2822, which the SDKs parse.
    let now = context.now.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string();
    let answer = json!({
        "sid": sid, "account_sid": account, "api_version": "2010-04-01", "body": body, "to": to, "from": from,
        "messaging_service_sid": service, "status": "queued", "direction": "outbound-api", "num_segments": "1",
        "num_media": "0", "price": null, "price_unit": "USD", "error_code": null, "error_message": null,
        "date_created": now, "date_updated": now, "date_sent": null, "uri": uri,
        "subresource_uris": { "media": uri.replace(".json", "/Media.json") },
    });
    Ok(Taken::json(201, &answer, "twilio", vec![record]))
}

pub(super) fn take_vonage(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    let segments: Vec<&str> = call.segments.iter().map(AsRef::as_ref).collect();
    let empty = json!({});
    let tree = call.tree().unwrap_or(&empty);
    match (call.request.method, &segments[..]) {
        ("POST", ["sms", "json"]) => sms(tree, context),
        ("POST", ["v1", "messages"]) => message(tree, context),
        _ => Taken::json(
            404,
            &json!({ "title": "Not Found", "detail": "There is no such path." }),
            "vonage",
            Vec::new(),
        )
        .unknown(),
    }
}

/// Handles the older API, whose errors come with status 200.
fn sms(tree: &Value, context: &mut Context<'_>) -> Taken {
    let field = |name: &str| text(tree, name).filter(|text| !text.is_empty());
    let failed = |why: &str| {
        let tree =
            json!({ "message-count": "1", "messages": [{ "status": "2", "error-text": why }] });
        Taken::json(200, &tree, "vonage", Vec::new())
    };
    let Some(to) = field("to") else { return failed("Missing to param") };
    let Some(from) = field("from") else { return failed("Missing from param") };
    let Some(body) = field("text") else { return failed("Missing text param") };
    let id = hex((context.random)());
    let answer = json!({ "message-count": "1", "messages": [{
        "to": to, "message-id": id[..16].to_uppercase(), "status": "0", "remaining-balance": "10.00000000",
        "message-price": "0.00000000", "network": "00000",
    }] });
    Taken::json(200, &answer, "vonage", vec![text_message("vonage", &from, &to, &body)])
}

fn message(tree: &Value, context: &mut Context<'_>) -> Taken {
    let field = |name: &str| text(tree, name).filter(|text| !text.is_empty());
    let (Some(to), Some(from), Some(body)) = (field("to"), field("from"), field("text")) else {
        let tree = json!({ "type": "https://developer.vonage.com/api-errors#invalid-params",
            "title": "Your request parameters didn't validate.", "detail": "to, from and text are required",
            "instance": uuid((context.random)()) });
        return Taken::json(422, &tree, "vonage", Vec::new());
    };
    let answer = json!({ "message_uuid": uuid((context.random)()) });
    Taken::json(202, &answer, "vonage", vec![text_message("vonage", &from, &to, &body)])
}
