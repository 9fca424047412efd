//! Requests to vendors, and the resulting records.

use hothouse_mock::Request;
use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::{Context, FlagSet, Taken};

/// Makes a call and passes it to its sink.
pub(super) fn taken(host: &str, method: &str, path: &str, kind: &str, body: &[u8]) -> Taken {
    let headers = [("content-type".to_owned(), kind.as_bytes().to_vec())];
    let request = Request { method, host, path, query: "", headers: &headers, body };
    let mut next = 0;
    let mut random = || {
        next += 1;
        [next; 16]
    };
    let flags = FlagSet::new();
    let mut context = Context {
        now: Timestamp::UNIX_EPOCH,
        random: &mut random,
        flags: &flags,
        mails: &crate::no_mails,
    };
    let sink = find(host).expect("the host is known");
    (sink.take)(&Call::read(request), &mut context)
}

fn posted(host: &str, path: &str, body: &Value) -> Taken {
    taken(host, "POST", path, "application/json", body.to_string().as_bytes())
}

fn form(host: &str, path: &str, body: &str) -> Taken {
    taken(host, "POST", path, "application/x-www-form-urlencoded", body.as_bytes())
}

fn tree(taken: &Taken) -> Value {
    serde_json::from_slice(&taken.answer.body.bytes()).unwrap_or_default()
}

/// Returns the main fields of the records.
fn mails(taken: &Taken) -> Vec<Value> {
    let keys = ["from", "to", "cc", "bcc", "subject", "via", "text", "html"];
    let short = |body: &Value| -> serde_json::Map<String, Value> {
        keys.iter().map(|key| ((*key).to_owned(), body[key].clone())).collect()
    };
    taken.records.iter().map(|record| Value::Object(short(&record.body))).collect()
}

fn expected(via: &str) -> Value {
    json!({ "from": "shop@acme.example", "to": ["ann@x.example"], "cc": [], "bcc": ["audit@acme.example"],
            "subject": "Hi", "via": via, "text": "hello", "html": "<p>hello</p>" })
}

#[test]
fn hosts_are_known_by_their_names() {
    for (host, vendor) in [
        ("api.resend.com", Some("resend")),
        ("API.SendGrid.com", Some("sendgrid")),
        ("api.eu.mailgun.net", Some("mailgun")),
        ("email.eu-west-1.amazonaws.com", Some("ses")),
        ("email-fips.us-east-1.amazonaws.com", Some("ses")),
        ("sns.us-east-1.amazonaws.com", Some("sns")),
        ("api.dublin.ie1.twilio.com", Some("twilio")),
        ("s3.amazonaws.com", None),
        ("email.evil-amazonaws.com", None),
        ("api.resend.com.evil.example", None),
    ] {
        assert_eq!(find(host).map(|sink| sink.vendor), vendor, "{host}");
    }
}

#[test]
fn each_vendor_makes_the_same_mail() {
    let resend = posted(
        "api.resend.com",
        "/emails",
        &json!({
        "from": "Acme <shop@acme.example>", "to": ["ann@x.example"], "bcc": "audit@acme.example", "subject": "Hi",
        "text": "hello", "html": "<p>hello</p>", "attachments": [{ "filename": "a.txt", "content": "QUJD" }] }),
    );
    assert_eq!((resend.answer.status, mails(&resend)), (200, vec![expected("resend")]));
    assert_eq!(tree(&resend)["id"].as_str().map(str::len), Some(36));
    assert_eq!(
        resend.records[0].body["attachments"],
        json!([{ "name": "a.txt", "type": "application/octet-stream", "size": 3 }])
    );

    let sendgrid = posted(
        "api.sendgrid.com",
        "/v3/mail/send",
        &json!({
        "from": { "email": "shop@acme.example" }, "subject": "Hi", "content": [
            { "type": "text/plain", "value": "hello" }, { "type": "text/html", "value": "<p>hello</p>" }],
        "personalizations": [{ "to": [{ "email": "ann@x.example" }], "bcc": [{ "email": "audit@acme.example" }] }] }),
    );
    assert_eq!((sendgrid.answer.status, mails(&sendgrid)), (202, vec![expected("sendgrid")]));
    assert_eq!(sendgrid.answer.headers[0].0, "x-message-id");

    let postmark = posted(
        "api.postmarkapp.com",
        "/email",
        &json!({
        "From": "shop@acme.example", "To": "Ann <ann@x.example>", "Bcc": "audit@acme.example", "Subject": "Hi",
        "TextBody": "hello", "HtmlBody": "<p>hello</p>" }),
    );
    assert_eq!((postmark.answer.status, mails(&postmark)), (200, vec![expected("postmark")]));
    assert_eq!(tree(&postmark)["ErrorCode"], 0);

    let mailgun = form(
        "api.mailgun.net",
        "/v3/acme.example/messages",
        "from=shop%40acme.example&to=ann%40x.example&bcc=audit%40acme.example&subject=Hi&text=hello&html=%3Cp%3Ehello%3C%2Fp%3E",
    );
    assert_eq!((mailgun.answer.status, mails(&mailgun)), (200, vec![expected("mailgun")]));

    let ses = form(
        "email.us-east-1.amazonaws.com",
        "/",
        "Action=SendEmail&Source=shop%40acme.example&Destination.ToAddresses.member.1=ann%40x.example&\
         Destination.BccAddresses.member.1=audit%40acme.example&Message.Subject.Data=Hi&Message.Body.Text.Data=hello&\
         Message.Body.Html.Data=%3Cp%3Ehello%3C%2Fp%3E",
    );
    assert_eq!((ses.answer.status, mails(&ses)), (200, vec![expected("ses")]));
    assert!(
        String::from_utf8(ses.answer.body.bytes())
            .unwrap()
            .contains("<SendEmailResult><MessageId>")
    );

    let ses = posted(
        "email.us-east-1.amazonaws.com",
        "/v2/email/outbound-emails",
        &json!({
        "FromEmailAddress": "shop@acme.example",
        "Destination": { "ToAddresses": ["ann@x.example"], "BccAddresses": ["audit@acme.example"] },
        "Content": { "Simple": { "Subject": { "Data": "Hi" },
            "Body": { "Text": { "Data": "hello" }, "Html": { "Data": "<p>hello</p>" } } } } }),
    );
    assert_eq!((ses.answer.status, mails(&ses)), (200, vec![expected("ses")]));

    let mandrill = posted(
        "mandrillapp.com",
        "/api/1.0/messages/send.json",
        &json!({ "key": "k", "message": {
        "from_email": "shop@acme.example", "subject": "Hi", "text": "hello", "html": "<p>hello</p>",
        "to": [{ "email": "ann@x.example" }, { "email": "audit@acme.example", "type": "bcc" }] } }),
    );
    assert_eq!((mandrill.answer.status, mails(&mandrill)), (200, vec![expected("mandrill")]));
    assert_eq!(tree(&mandrill).as_array().map(Vec::len), Some(2));
}

#[test]
fn whole_messages_are_taken_as_they_are() {
    let message = "From: shop@acme.example\r\nTo: ann@x.example\r\nSubject: Hi\r\n\r\nhello";
    let encoded = BASE64_STANDARD.encode(message);
    let v2 = posted(
        "email.eu-west-1.amazonaws.com",
        "/v2/email/outbound-emails",
        &json!({
        "Content": { "Raw": { "Data": encoded } }, "Destination": { "ToAddresses": ["ann@x.example", "b@x.example"] } }),
    );
    let v1 = form(
        "email.eu-west-1.amazonaws.com",
        "/",
        &format!(
            "Action=SendRawEmail&RawMessage.Data={}&Destinations.member.1=b%40x.example",
            encoded.replace('=', "%3D")
        ),
    );
    let body = format!(
        "--x\r\nContent-Disposition: form-data; name=\"to\"\r\n\r\nb@x.example\r\n--x\r\n\
        Content-Disposition: form-data; name=\"message\"; filename=\"m.mime\"\r\n\r\n{message}\r\n--x--\r\n"
    );
    let mailgun = taken(
        "api.mailgun.net",
        "POST",
        "/v3/acme.example/messages.mime",
        "multipart/form-data; boundary=x",
        body.as_bytes(),
    );
    let mandrill = posted(
        "mandrillapp.com",
        "/api/1.0/messages/send-raw",
        &json!({ "raw_message": message, "to": ["b@x.example"] }),
    );
    for taken in [v2, v1, mailgun, mandrill] {
        assert_eq!(taken.answer.status, 200);
        assert_eq!(taken.records[0].files[0].bytes, message.as_bytes());
        assert_eq!(taken.records[0].body["bcc"], json!(["b@x.example"]));
    }
}

#[test]
fn one_call_may_make_several_mails() {
    let mail = json!({ "from": "a@x.example", "to": "b@x.example", "subject": "s", "text": "t" });
    let batch = posted("api.resend.com", "/emails/batch", &json!([mail, mail]));
    assert_eq!((batch.records.len(), tree(&batch)["data"].as_array().map(Vec::len)), (2, Some(2)));
    let bad = posted("api.resend.com", "/emails/batch", &json!([mail, {}]));
    assert_eq!((bad.records.len(), bad.answer.status), (0, 422));

    let personal = posted(
        "api.sendgrid.com",
        "/v3/mail/send",
        &json!({
        "from": { "email": "a@x.example" }, "content": [{ "type": "text/plain", "value": "hi -name-" }], "subject": "s",
        "personalizations": [
            { "to": [{ "email": "b@x.example" }], "substitutions": { "-name-": "B" } },
            { "to": [{ "email": "c@x.example" }], "subject": "own" }] }),
    );
    let texts: Vec<_> =
        personal.records.iter().map(|r| (&r.body["text"], &r.body["subject"])).collect();
    assert_eq!(texts, [(&json!("hi B"), &json!("s")), (&json!("hi -name-"), &json!("own"))]);

    let mail = json!({ "From": "a@x.example", "To": "b@x.example", "TextBody": "t" });
    let batch =
        posted("api.postmarkapp.com", "/email/batch", &json!([mail, { "From": "a@x.example" }]));
    let codes: Vec<_> =
        tree(&batch).as_array().unwrap().iter().map(|one| one["ErrorCode"].clone()).collect();
    assert_eq!((batch.records.len(), codes), (1, vec![json!(0), json!(300)]));

    let each = form(
        "api.mailgun.net",
        "/v3/acme.example/messages",
        "from=a%40x.example&to=b%40x.example&to=c%40x.example&text=hi+%25recipient.n%25&recipient-variables=%7B%22b%40x.example%22%3A%7B%22n%22%3A1%7D%7D",
    );
    let texts: Vec<_> =
        each.records.iter().map(|r| (r.body["to"][0].clone(), r.body["text"].clone())).collect();
    assert_eq!(
        texts,
        [(json!("b@x.example"), json!("hi 1")), (json!("c@x.example"), json!("hi %recipient.n%"))]
    );
}

#[test]
fn templates_are_noted() {
    let postmark = posted(
        "api.postmarkapp.com",
        "/email/withTemplate",
        &json!({
        "From": "a@x.example", "To": "b@x.example", "TemplateAlias": "welcome", "TemplateModel": { "name": "B" } }),
    );
    let sendgrid = posted(
        "api.sendgrid.com",
        "/v3/mail/send",
        &json!({ "from": { "email": "a@x.example" }, "template_id": "welcome",
        "personalizations": [{ "to": [{ "email": "b@x.example" }], "dynamic_template_data": { "name": "B" } }] }),
    );
    let mailgun = form(
        "api.mailgun.net",
        "/v3/x.example/messages",
        "from=a%40x.example&to=b%40x.example&template=welcome&t%3Avariables=%7B%22name%22%3A%22B%22%7D",
    );
    let ses = posted(
        "email.us-east-1.amazonaws.com",
        "/v2/email/outbound-emails",
        &json!({ "FromEmailAddress": "a@x.example",
        "Destination": { "ToAddresses": ["b@x.example"] },
        "Content": { "Template": { "TemplateName": "welcome", "TemplateData": "{\"name\":\"B\"}" } } }),
    );
    for taken in [postmark, sendgrid, mailgun, ses] {
        assert_eq!(
            taken.records[0].body["template"],
            json!({ "name": "welcome", "values": { "name": "B" } })
        );
    }
}

#[test]
fn bad_input_gets_the_error_of_the_vendor() {
    let json_kind = "application/json";
    for (host, path, body, status, part) in [
        ("api.resend.com", "/emails", "{}", 422, "missing_required_field"),
        ("api.resend.com", "/emails", "{\"from\":\"x\"}", 422, "validation_error"),
        ("api.resend.com", "/emails", "{", 422, "validation_error"),
        ("api.resend.com", "/nothing", "{}", 404, "not_found"),
        ("api.sendgrid.com", "/v3/mail/send", "{}", 400, "personalizations"),
        ("api.sendgrid.com", "/v3/mail/send", "nonsense", 400, "Bad Request"),
        ("api.postmarkapp.com", "/email", "{\"From\":\"a@b\"}", 422, "Zero recipients"),
        ("api.postmarkapp.com", "/email", "[", 422, "402"),
        (
            "email.us-east-1.amazonaws.com",
            "/v2/email/outbound-emails",
            "{}",
            400,
            "Content must be specified",
        ),
        ("mandrillapp.com", "/api/1.0/messages/send", "{}", 500, "ValidationError"),
        ("api.nexmo.com", "/v1/messages", "{}", 422, "didn't validate"),
    ] {
        let taken = taken(host, "POST", path, json_kind, body.as_bytes());
        let text = String::from_utf8(taken.answer.body.bytes()).unwrap();
        assert_eq!((taken.answer.status, taken.records.len()), (status, 0), "{host} {body}");
        assert!(text.contains(part), "{host} {body}: {text}");
    }
    for (host, path, body, status, part) in [
        ("api.mailgun.net", "/v3/x/messages", "from=a%40b", 400, "to parameter is missing"),
        ("email.us-east-1.amazonaws.com", "/", "Action=SendEmail", 400, "MissingParameter"),
        ("email.us-east-1.amazonaws.com", "/", "Action=<x>", 400, "&lt;x&gt;"),
        ("sns.us-east-1.amazonaws.com", "/", "Action=Publish", 400, "InvalidParameter"),
        ("api.twilio.com", "/2010-04-01/Accounts/AC1/Messages.json", "From=1&Body=x", 400, "21604"),
        ("rest.nexmo.com", "/sms/json", "from=1&text=x", 200, "Missing to param"),
    ] {
        let taken = form(host, path, body);
        let text = String::from_utf8(taken.answer.body.bytes()).unwrap();
        assert_eq!((taken.answer.status, taken.records.len()), (status, 0), "{host} {body}");
        assert!(text.contains(part), "{host} {body}: {text}");
    }
}

#[test]
fn text_messages_are_in_the_same_outbox() {
    let twilio = form(
        "api.twilio.com",
        "/2010-04-01/Accounts/AC1/Messages.json",
        "To=%2B15550001&From=%2B15550002&Body=code+482913",
    );
    assert_eq!(twilio.answer.status, 201);
    assert!(tree(&twilio)["sid"].as_str().unwrap().starts_with("SM"));
    let sns = form(
        "sns.us-east-1.amazonaws.com",
        "/",
        "Action=Publish&PhoneNumber=%2B15550001&Message=code+482913",
    );
    let old = form("rest.nexmo.com", "/sms/json", "to=%2B15550001&from=Acme&text=code+482913");
    let new = posted(
        "api.nexmo.com",
        "/v1/messages",
        &json!({ "to": "+15550001", "from": "Acme", "text": "code 482913" }),
    );
    for (taken, via) in [(twilio, "twilio"), (sns, "sns"), (old, "vonage"), (new, "vonage")] {
        let body = &taken.records[0].body;
        assert_eq!(
            (&body["to"], &body["via"], &body["codes"]),
            (&json!(["+15550001"]), &json!(via), &json!(["482913"]))
        );
    }
}
