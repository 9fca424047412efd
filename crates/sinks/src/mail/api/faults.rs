//! Fault injection for mail APIs: a vendor's response for a recipient that it refuses.

use hothouse_mock::{Answer, Match, answer::Body};
use serde_json::{Value, json};

use crate::Taken;

/// The retry delay given to a client, in seconds.
const LATER: &str = "1";

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailRefusal {
    /// Permanently: the recipient is refused.
    Reject,
    /// Temporarily: the sender may retry.
    Defer,
}

/// Returns a vendor's response that refuses a mail, in place of the one that accepts it.
pub fn refused(vendor: &str, accepted: &Taken, refusal: MailRefusal, recipient: &str) -> Answer {
    let is_xml =
        accepted.answer.headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("content-type") && value.contains("xml")
        });
    let (status, body) = match (vendor, is_xml) {
        ("ses" | "sns", true) => {
            let (status, code, text) = aws(refusal, recipient);
            (status, Answered::Xml(xml_error(code, &text)))
        }
        ("ses" | "sns", false) => {
            let (status, code, text) = aws(refusal, recipient);
            (status, Answered::Json(json!({ "__type": code, "message": text })))
        }
        _ => {
            let (status, tree) = plain(vendor, refusal, recipient);
            (status, Answered::Json(tree))
        }
    };
    let word = match refusal {
        MailRefusal::Reject => "reject",
        MailRefusal::Defer => "defer",
    };
    let matched = Match::Vendor(format!("{vendor}, fault: {word}"));
    let mut answer = match body {
        Answered::Json(tree) => Answer::json(status, &tree, matched),
        Answered::Xml(text) => Answer {
            headers: vec![("content-type".to_owned(), "text/xml".to_owned())],
            body: Body::Whole(text.into_bytes()),
            ..Answer::empty(status, matched)
        },
    };
    if refusal == MailRefusal::Defer {
        answer.headers.push(("retry-after".to_owned(), LATER.to_owned()));
    }
    answer
}

enum Answered {
    Json(Value),
    Xml(String),
}

fn aws(refusal: MailRefusal, recipient: &str) -> (u16, &'static str, String) {
    match refusal {
        MailRefusal::Reject => {
            (400, "MessageRejected", format!("Address {recipient} is not taken (fault: reject)."))
        }
        MailRefusal::Defer => {
            (429, "TooManyRequestsException", "Rate exceeded (fault: defer).".to_owned())
        }
    }
}

fn xml_error(code: &str, text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    [
        "<ErrorResponse><Error><Type>Sender</Type><Code>",
        code,
        "</Code><Message>",
        &escaped,
        "</Message></Error><RequestId>fault</RequestId></ErrorResponse>",
    ]
    .concat()
}

/// Builds a refusal in the vendor's own JSON format.
fn plain(vendor: &str, refusal: MailRefusal, recipient: &str) -> (u16, Value) {
    let not_taken = format!("{recipient} is not taken (fault: reject)");
    let later = "Too many requests; try again later (fault: defer)";
    match (vendor, refusal) {
        ("resend", MailRefusal::Reject) => {
            (422, json!({ "statusCode": 422, "name": "validation_error", "message": not_taken }))
        }
        ("resend", MailRefusal::Defer) => {
            (429, json!({ "statusCode": 429, "name": "rate_limit_exceeded", "message": later }))
        }
        ("sendgrid", MailRefusal::Reject) => (
            400,
            json!({ "errors": [{ "message": not_taken, "field": "personalizations.0.to", "help": null }] }),
        ),
        ("sendgrid", MailRefusal::Defer) => {
            (429, json!({ "errors": [{ "message": later, "field": null, "help": null }] }))
        }
        // 406: the recipient is inactive, because it bounced or complained.
        ("postmark", MailRefusal::Reject) => {
            (422, json!({ "ErrorCode": 406, "Message": not_taken }))
        }
        ("postmark", MailRefusal::Defer) => (429, json!({ "ErrorCode": 429, "Message": later })),
        ("mandrill", MailRefusal::Reject) => (
            200,
            json!([{ "email": recipient, "status": "rejected", "reject_reason": "hard-bounce", "_id": "fault" }]),
        ),
        ("mandrill", MailRefusal::Defer) => (
            500,
            json!({ "status": "error", "code": -99, "name": "GeneralError", "message": later }),
        ),
        ("twilio", MailRefusal::Reject) => (
            400,
            json!({ "code": 21211, "message": not_taken, "status": 400, "more_info": "https://www.twilio.com/docs/errors/21211" }),
        ),
        ("twilio", MailRefusal::Defer) => (
            429,
            json!({ "code": 20429, "message": later, "status": 429, "more_info": "https://www.twilio.com/docs/errors/20429" }),
        ),
        ("vonage", _) => {
            // Vonage answers 200 with a status per message.
            let (status, text) = match refusal {
                MailRefusal::Reject => ("6", not_taken),
                MailRefusal::Defer => ("1", later.to_owned()),
            };
            (
                200,
                json!({ "message-count": "1", "messages": [{ "to": recipient, "status": status, "error-text": text }] }),
            )
        }
        (_, MailRefusal::Reject) => (400, json!({ "message": not_taken })),
        (_, MailRefusal::Defer) => (429, json!({ "message": later })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Sent, pinned};

    #[test]
    fn each_vendor_refuses_in_its_own_words() {
        let mail =
            json!({ "from": "a@x.example", "to": "b@y.example", "subject": "s", "text": "t" });
        let accepted = Sent::json("/emails", &mail).to("api.resend.com", &pinned([]));
        assert_eq!(accepted.records.len(), 1);
        let body = |answer: &Answer| String::from_utf8(answer.body.bytes()).unwrap();
        for (vendor, reject, defer) in [
            ("resend", 422, 429),
            ("sendgrid", 400, 429),
            ("postmark", 422, 429),
            ("mailgun", 400, 429),
            ("mandrill", 200, 500),
            ("twilio", 400, 429),
            ("vonage", 200, 200),
            ("ses", 400, 429),
        ] {
            let no = refused(vendor, &accepted, MailRefusal::Reject, "b@y.example");
            assert_eq!(no.status, reject, "{vendor}");
            assert!(body(&no).contains("b@y.example"), "{vendor}: {}", body(&no));
            let later = refused(vendor, &accepted, MailRefusal::Defer, "b@y.example");
            assert_eq!(later.status, defer, "{vendor}");
            assert!(later.headers.iter().any(|(name, _)| name == "retry-after"), "{vendor}");
        }
    }

    #[test]
    fn an_api_that_answers_in_xml_refuses_in_xml() {
        let mut accepted = Taken::empty(200, "ses", Vec::new());
        accepted.answer.headers.push(("content-type".into(), "text/xml".into()));
        let no = refused("ses", &accepted, MailRefusal::Reject, "<b>@y.example");
        let text = String::from_utf8(no.body.bytes()).unwrap();
        assert!(
            text.starts_with("<ErrorResponse>") && text.contains("&lt;b&gt;@y.example"),
            "{text}"
        );
    }
}
