//! Mails, and requests to vendors of mail and of error reports.

use hothouse_sinks::mail::{
    self,
    smtp::{Action, Delivery, Session, SessionSpec},
};

use crate::kept;

/// Checks the input of a mail client, split where the first byte says. However it is split, the same is answered and
/// delivered.
pub fn smtp_sessions(bytes: &[u8]) {
    let Some((step, stream)) = bytes.split_first() else { return };
    let whole = converse(stream.chunks(stream.len().max(1)));
    let cut = converse(stream.chunks(usize::from(*step).max(1)));
    assert_eq!(whole, cut, "where a stream is cut makes no difference");
}

/// Runs a mail session; every delivery and every handshake succeeds. What is pipelined after STARTTLS depends on where
/// the stream is split, so the comparison ends there.
fn converse<'a>(parts: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<Delivery>) {
    let spec = SessionSpec { hostname: "mx".into(), can_start_tls: true, ..SessionSpec::default() };
    let (mut session, mut open) = Session::new(spec);
    let (mut said, mut delivered) = (Vec::new(), Vec::new());
    let mut parts = parts;
    loop {
        let mut next = Vec::new();
        for action in open {
            match action {
                Action::Send(bytes) => {
                    assert!(bytes.is_ascii() && bytes.ends_with(b"\r\n"), "answers are lines");
                    said.extend(bytes);
                }
                Action::Deliver(delivery) => {
                    assert!(!delivery.to.is_empty(), "a delivery has a recipient");
                    delivered.push(*delivery);
                    next.extend(session.on_delivered(Ok("id".into())));
                }
                Action::StartTls | Action::Close => return (said, delivered),
                Action::Wait(_) => {}
            }
        }
        if next.is_empty() {
            let Some(part) = parts.next() else { return (said, delivered) };
            next = session.on_bytes(part);
        }
        open = next;
    }
}

/// Checks a message: its record is bounded, its page safe, and nothing in it names a file.
pub fn mails(bytes: &[u8]) {
    let recipients = ["a@example.com".to_owned()];
    let recorded = mail::recorded(mail::Incoming {
        from: "b@example.com",
        recipients: &recipients,
        message: bytes,
        via: "smtp",
        ..mail::Incoming::default()
    });
    kept(&recorded);
    assert_eq!(recorded.files[0].bytes, bytes, "the message is kept as it was sent");
}

/// Checks a call to a vendor of mail or text messages; the first byte chooses the vendor.
pub fn mail_requests(bytes: &[u8]) {
    const JSON: &str = "application/json";
    const FORM: &str = "application/x-www-form-urlencoded";
    const PLACES: [(&str, &str, &str); 14] = [
        ("api.resend.com", "/emails", JSON),
        ("api.resend.com", "/emails/batch", JSON),
        ("api.sendgrid.com", "/v3/mail/send", JSON),
        ("api.postmarkapp.com", "/email", JSON),
        ("api.postmarkapp.com", "/email/batch", JSON),
        ("api.mailgun.net", "/v3/x.example/messages", FORM),
        ("api.mailgun.net", "/v3/x.example/messages", "multipart/form-data; boundary=x"),
        ("api.mailgun.net", "/v3/x.example/messages.mime", "multipart/form-data; boundary=x"),
        ("email.us-east-1.amazonaws.com", "/", FORM),
        ("email.us-east-1.amazonaws.com", "/v2/email/outbound-emails", JSON),
        ("mandrillapp.com", "/api/1.0/messages/send", JSON),
        ("api.twilio.com", "/2010-04-01/Accounts/AC1/Messages.json", FORM),
        ("rest.nexmo.com", "/sms/json", FORM),
        ("sns.us-east-1.amazonaws.com", "/", FORM),
    ];
    take(&PLACES, bytes);
}

/// Checks an SDK's error report; the first byte chooses the vendor.
pub fn error_requests(bytes: &[u8]) {
    const JSON: &str = "application/json";
    const PLACES: [(&str, &str, &str); 7] = [
        ("o1.ingest.sentry.io", "/api/1/envelope/", "application/x-sentry-envelope"),
        ("o1.ingest.sentry.io", "/api/1/store/", JSON),
        ("o1.ingest.sentry.io", "/api/1/security/", JSON),
        ("o1.ingest.sentry.io", "/api/1/minidump/", "multipart/form-data; boundary=x"),
        ("notify.bugsnag.com", "/", JSON),
        ("api.rollbar.com", "/api/1/item/", JSON),
        ("api.honeybadger.io", "/v1/notices", JSON),
    ];
    take(&PLACES, bytes);
}

fn take(places: &[(&str, &str, &str)], bytes: &[u8]) {
    let Some((choice, body)) = bytes.split_first() else { return };
    let (host, path, kind) = places[usize::from(*choice) % places.len()];
    let headers = [("content-type".to_owned(), kind.as_bytes().to_vec())];
    let request = hothouse_mock::Request {
        method: "POST",
        host,
        path,
        query: "sentry_key=a",
        headers: &headers,
        body,
    };
    let (mut random, flags) = (|| [7; 16], hothouse_sinks::FlagSet::default());
    let now = jiff::Timestamp::UNIX_EPOCH;
    let mut context = hothouse_sinks::Context {
        now,
        random: &mut random,
        flags: &flags,
        mails: &hothouse_sinks::no_mails,
    };
    let sink = hothouse_sinks::find(host).expect("the host is known");
    let taken = (sink.take)(&hothouse_sinks::Call::read(request), &mut context);
    assert!((200..600).contains(&taken.answer.status));
    assert!(taken.records.is_empty() || taken.answer.status < 300, "what is refused is not kept");
    taken.records.iter().for_each(kept);
}
