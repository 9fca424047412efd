//! One function per decoder of bytes that a room, or a program in it, can choose.
//!
//! A target panics when a decoder breaks its word, and is otherwise silent. `cargo fuzz` drives them
//! (`fuzz/fuzz_targets`, nightly); `tests/replay.rs` replays the corpus and mutations of it on every
//! test run, on stable. *To add a decoder:* a function here, a line in [`TARGETS`], a seed in
//! `tests/replay.rs`, a wrapper in `fuzz/fuzz_targets`.

use std::fmt::Debug;

use hothouse_api::exec::{Ask, Hello, Say};
use hothouse_browser::{
    Arrival, accessibility,
    capture::{Capture, CaptureSpec},
    locate::Locator,
    page::{Kept, Look},
    report::{Found, report},
    script,
    shim::{ShimSet, shipped},
    source_map,
    state::StorageState,
    wire::{Frames, Message},
};
use hothouse_edge::wire::{
    Read,
    dns::{Code, Question, read_answer},
    echo, head, hello, packet, sniff, socks as socks_wire,
};
use hothouse_evidence::coverage::{
    ChangedText, Collector, Meter, reports,
    v8::{self, ScriptRun, ScriptText},
};
use hothouse_host::network::read_tracked;
use hothouse_mock::{FixtureFile, Integration, Mock, MockSpec, State, template::Template};
use hothouse_model::policy::{Claim, PlainPath};
use hothouse_model::{
    config::{LiveKeys, ShipShim},
    live_keys,
    query::{Query, Since, is_mark_name},
};
use hothouse_room_wire::frame::{BODY_LIMIT, DESCRIPTOR_LIMIT};
use hothouse_room_wire::{
    Boot, Elevate, Elevated, FrameBuffer, Reply, Request, decode, dns, encode,
};
use hothouse_sdks::{FileKind, ProjectFile, lockfile};
use hothouse_sinks::mail::{
    self,
    smtp::{Action, Delivery, Session, SessionSpec},
};
use hothouse_sinks::{Context, FlagSet, HostSink, Taken, analytics, flags, llm, traces};
use serde::{Serialize, de::DeserializeOwned};

/// Takes bytes; panics if a decoder misbehaves.
pub type Decoder = fn(&[u8]);

/// Every target, by the name of its corpus folder.
pub const TARGETS: &[(&str, Decoder)] = &[
    ("frames", frames),
    ("guard", guard),
    ("room_answers", room_answers),
    ("sudo", sudo),
    ("exec", exec),
    ("dns", name_questions),
    ("names", names),
    ("tls_hello", tls_hello),
    ("http_head", http_head),
    ("socks", socks),
    ("packets", packets),
    ("tracked_flows", tracked_flows),
    ("echoes", echoes),
    ("terminated_requests", terminated_requests),
    ("terminated_answers", terminated_answers),
    ("signed_pieces", signed_pieces),
    ("websocket_frames", websocket_frames),
    ("answer_parts", answer_parts),
    ("request_paths", request_paths),
    ("env_files", env_files),
    ("queries", queries),
    ("since", since),
    ("record_lines", record_lines),
    ("redacted_texts", redacted_texts),
    ("mock_fixtures", mock_fixtures),
    ("mock_templates", mock_templates),
    ("mock_requests", mock_requests),
    ("mock_descriptions", mock_descriptions),
    ("lockfiles", lockfiles),
    ("smtp_sessions", smtp_sessions),
    ("mails", mails),
    ("mail_requests", mail_requests),
    ("error_requests", error_requests),
    ("sunk_analytics", sunk_analytics),
    ("sunk_flags", sunk_flags),
    ("sunk_models", sunk_models),
    ("sunk_traces", sunk_traces),
    ("queued_messages", queued_messages),
    ("stored_objects", stored_objects),
    ("measured_images", measured_images),
    ("arrived_webhooks", arrived_webhooks),
    ("browser_messages", browser_messages),
    ("browser_scripts", browser_scripts),
    ("coverage_reports", coverage_reports),
];

/// A stream of frames, cut where the first byte says. However it is cut, the same frames come out, and
/// never more bytes are kept than came in.
pub fn frames(bytes: &[u8]) {
    let Some((step, stream)) = bytes.split_first() else { return };
    let whole = collect(stream.chunks(stream.len().max(1)));
    let cut = collect(stream.chunks(usize::from(*step).max(1)));
    assert_eq!(whole, cut, "where a stream is cut makes no difference");
    assert!(whole.iter().map(Vec::len).sum::<usize>() <= stream.len());
}

/// Collects the bodies of all whole frames, until the stream is refused.
fn collect<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut buffer = FrameBuffer::default();
    let (mut bodies, mut came) = (Vec::new(), 0);
    for part in parts {
        came += part.len();
        buffer.extend(part);
        loop {
            match buffer.next_frame() {
                Ok(Some(frame)) => {
                    assert!(frame.body.len() <= BODY_LIMIT);
                    assert!(frame.descriptors <= DESCRIPTOR_LIMIT);
                    bodies.push(frame.body);
                }
                Ok(None) => break,
                Err(_) => return bodies,
            }
        }
        assert!(buffer.pending() <= came);
    }
    bodies
}

/// What room-init says to the daemon, and what the daemon could be made to say to it.
pub fn room_answers(bytes: &[u8]) {
    same_again::<Reply>(bytes);
    same_again::<Request>(bytes);
    same_again::<Boot>(bytes);
}

/// What the `sudo` of a room says to room-init, and back.
pub fn sudo(bytes: &[u8]) {
    same_again::<Elevate>(bytes);
    same_again::<Elevated>(bytes);
}

/// What client and daemon say to each other about a command.
pub fn exec(bytes: &[u8]) {
    same_again::<Hello>(bytes);
    same_again::<Ask>(bytes);
    same_again::<Say>(bytes);
}

/// A question about a name: the answer is never longer than the question, and never asked again.
pub fn name_questions(bytes: &[u8]) {
    if let Some(answer) = dns::servfail(bytes) {
        assert!(answer.len() <= bytes.len());
        assert_eq!(answer[..2], bytes[..2], "it carries the question's id");
        assert_eq!(dns::servfail(&answer), None, "an answer is no question: two of us cannot chat");
    }
}

/// A request to a terminated host: a value goes only where its form says.
pub fn terminated_requests(bytes: &[u8]) {
    hothouse_terminate::trial::request(bytes);
}

/// An answer of a terminated host: however it is cut, no value passes.
pub fn terminated_answers(bytes: &[u8]) {
    hothouse_terminate::trial::answer(bytes);
}

/// An env file of a worktree: every entry has a name, and is looked at for live keys.
pub fn env_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for (name, value) in live_keys::env_file_entries(&text) {
        assert!(!name.is_empty() && text.contains(&name));
        live_keys::find(&name, &value, &LiveKeys::default());
    }
}

/// What was understood can be said again and is understood the same.
fn same_again<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(value) = decode::<T>(bytes) else { return };
    let frame = encode(&value, 0).expect("what fitted in a frame fits again");
    let body = &frame[hothouse_room_wire::frame::HEAD..];
    assert_eq!(decode::<T>(body).as_ref(), Ok(&value));
}

/// A question of a room, or an answer to one of ours. What we answer is an answer to that very question.
pub fn names(bytes: &[u8]) {
    match Question::read(bytes) {
        Ok(question) => {
            let asked = question.asked(7);
            let addresses = ["1.2.3.4".parse(), "::1".parse()].map(|at| at.expect("an address"));
            for answer in [question.empty(Code::NoName), question.addresses(&addresses, 1)] {
                assert!(read_answer(&renamed(&asked, bytes), &answer).is_some());
                assert!(Question::read(&answer).is_err(), "an answer is no question");
                assert!(question.cut(answer).len() <= 4096);
            }
            read_answer(&asked, bytes);
            if let Claim::Name(name) = &question.claim {
                assert!(name.as_str().is_ascii() && !name.as_str().contains('\0'));
            }
        }
        Err(told) => {
            if let Some(answer) = told.0 {
                assert_eq!(answer[..2], bytes[..2], "it carries the question's id");
                assert!(Question::read(&answer).is_err());
            }
        }
    }
}

/// Gives a question the id of another.
fn renamed(question: &[u8], like: &[u8]) -> Vec<u8> {
    [&like[..2], &question[2..]].concat()
}

/// A greeting of TLS: more bytes never change what was read.
pub fn tls_hello(bytes: &[u8]) {
    if let Read::Done(read) = hello::read(bytes) {
        let longer = [bytes, b"more"].concat();
        assert_eq!(hello::read(&longer), Read::Done(read));
        assert!(bytes.len() <= hello::HELLO_LIMIT + (1 << 14) + 5);
    }
    sniffed(bytes);
}

/// The head of a request: a name that is read is one that can be compared.
pub fn http_head(bytes: &[u8]) {
    if let Read::Done(read) = head::read(bytes)
        && let Claim::Name(name) = &read.claim
    {
        assert_eq!(Claim::of(name.as_str().as_bytes()), read.claim);
    }
    sniffed(bytes);
}

/// What a connection is does not change when more of it comes.
fn sniffed(bytes: &[u8]) {
    let Read::Done(first) = sniff::read(bytes) else { return };
    if !matches!(first, sniff::Sniffed::Broken(_)) {
        let longer = [bytes, b" \r\n\r\n"].concat();
        assert_eq!(sniff::read(&longer), Read::Done(first));
    }
}

/// What the kernel says of a flow of datagrams: whatever is read has two ends of one kind.
pub fn tracked_flows(bytes: &[u8]) {
    if let Some(found) = read_tracked(bytes) {
        assert!(bytes.len() > 40, "two ends need some bytes");
        assert_eq!(read_tracked(bytes), Some(found));
    }
}

/// Echo requests as the kernel tells them, and answers as a host sends them.
pub fn echoes(bytes: &[u8]) {
    for request in echo::read_all(bytes) {
        assert!(request.echo.data.len() < bytes.len());
        let answer = echo::answer(request.client, request.target, &request.echo);
        let answer = answer.expect("both ends are of one kind");
        let (head, is_v4) = if request.client.is_ipv4() { (0, true) } else { (40, false) };
        assert_eq!(echo::read_answer(&answer[head..], is_v4, true), Some(request.echo));
    }
    for (is_v4, has_head) in [(true, true), (true, false), (false, false)] {
        if let Some(echo) = echo::read_answer(bytes, is_v4, has_head) {
            assert!(echo.data.len() + 8 <= bytes.len());
        }
    }
}

/// What the kernel tells of packets that a room made: never more packets than there is room for.
pub fn packets(bytes: &[u8]) {
    assert!(packet::read_all(bytes).len() <= bytes.len() / 20);
}

/// The frames of a WebSocket as a host could send them to a room.
pub fn websocket_frames(bytes: &[u8]) {
    hothouse_terminate::trial::frames(bytes);
}

/// A part that a room asks for, the one that a host sends, and a body made of messages.
pub fn answer_parts(bytes: &[u8]) {
    hothouse_terminate::trial::parts(bytes);
}

/// The path of a request. One that is plain stays so, and has no other spelling that a rule would miss.
pub fn request_paths(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(path) = PlainPath::of(text) else { return };
    let below = path.is_below("/admin");
    assert!(!below || path.is_below_in_any_case("/ADMIN"));
    if !text.contains('%') {
        let encoded = text.replace('a', "%61");
        assert_eq!(PlainPath::of(&encoded), Ok(path));
    }
    for odd in ["/../", "//", "\\", ";", "%5C", "%25"] {
        assert!(PlainPath::of(&format!("{text}{odd}x")).is_err());
    }
    // An encoded slash hides nothing from a rule that denies.
    let hidden = PlainPath::of(&format!("{text}%2fx"));
    if let (Ok(hidden), Ok(shown)) = (hidden, PlainPath::of(&format!("{text}/x"))) {
        assert_eq!(hidden.is_below_in_any_case("/admin"), shown.is_below_in_any_case("/admin"));
    }
}

/// A body that a client of AWS signed piece by piece.
pub fn signed_pieces(bytes: &[u8]) {
    hothouse_terminate::trial::pieces(bytes);
}

/// SOCKS: never more is taken than came.
pub fn socks(bytes: &[u8]) {
    if let Read::Done((_, length)) = socks_wire::read_greeting(bytes) {
        assert!(length <= bytes.len());
    }
    if let Read::Done((_, length)) = socks_wire::read_request(bytes) {
        assert!(length <= bytes.len());
    }
}

/// A query as an agent writes it: what a term is shown as is the same term.
pub fn queries(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(query) = Query::parse(&text, None) else { return };
    for term in query.terms() {
        let shown = term.to_string();
        let again = Query::parse(&shown, None).expect("what is shown can be read");
        assert_eq!(again.terms()[0].to_string(), shown);
        assert_eq!(again.terms()[0].fits("A b"), term.fits("A b"));
    }
}

/// Where a reader begins: shown and read again it is the same place.
pub fn since(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(since) = text.parse::<Since>() else { return };
    assert_eq!(matches!(since, Since::Mark(_)), is_mark_name(&text));
    if !matches!(since, Since::Span(_)) {
        assert_eq!(since.to_string().parse(), Ok(since));
    }
}

/// A line of a timeline that somebody may have changed.
pub fn record_lines(bytes: &[u8]) {
    hothouse_timeline::trial::line(bytes);
}

/// A text that a room sends: redacted twice it is the same, and no key is left.
pub fn redacted_texts(bytes: &[u8]) {
    hothouse_timeline::trial::text(bytes);
}

/// A mock of one host, with a file of fixtures if one is given.
fn mock(host: &str, file: Option<(&str, &[u8])>) -> Mock {
    let integration = Integration { name: "i".into(), hosts: vec![host.to_owned()], vendor: None };
    let file = file.map(|(name, bytes)| FixtureFile {
        integration: "i".into(),
        name: name.to_owned(),
        bytes: bytes.to_vec(),
    });
    let spec = MockSpec {
        integrations: vec![integration],
        files: file.into_iter().collect(),
        ..MockSpec::default()
    };
    let (mock, problems) = Mock::load(spec);
    assert!(problems.iter().all(|problem| !problem.message.is_empty()));
    mock
}

fn call(mock: &mut Mock, host: &str, line: &str, body: &[u8]) {
    let (method, target) = line.split_once(' ').unwrap_or(("GET", line));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let kind = if body.first() == Some(&b'{') {
        "application/json"
    } else {
        "application/x-www-form-urlencoded"
    };
    let headers = [
        ("authorization".to_owned(), b"Bearer sk_test_1".to_vec()),
        ("content-type".to_owned(), kind.as_bytes().to_vec()),
    ];
    let request = hothouse_mock::Request { method, host, path, query, headers: &headers, body };
    let before = mock.state().revision();
    let answer = mock.answer(&request, jiff::Timestamp::UNIX_EPOCH);
    assert!((200..600).contains(&answer.status));
    let is_line = |text: &str| !text.chars().any(char::is_control);
    assert!(answer.headers.iter().all(|(name, value)| is_line(name) && is_line(value)));
    if answer.status == 501 {
        assert_eq!(mock.state().revision(), before, "an unmatched call leaves nothing behind");
    }
}

/// A file of fixtures, in TOML and in JSON: it loads or has problems, and answers or does not.
pub fn mock_fixtures(bytes: &[u8]) {
    for name in ["a.toml", "a.json"] {
        let mut mock = mock("api.vendor.example", Some((name, bytes)));
        call(&mut mock, "api.vendor.example", "POST /a/1?q=1", b"{\"a\":{\"b\":1}}");
    }
}

/// A template: it is refused, or filled.
pub fn mock_templates(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if Template::parse(&text, &["id"]).is_ok() {
        let quoted = format!("{text:?}").replace("\\'", "'").replace("\\0", " ");
        let file = format!("[request]\npath = \"/a/{{id}}\"\n[answer]\ntext = {quoted}\n");
        mock_fixtures(file.as_bytes());
    }
}

/// A request to Stripe's mock: the first line is method and target, the rest is the body.
pub fn mock_requests(bytes: &[u8]) {
    thread_local! {
        static STRIPE: std::cell::RefCell<Mock> = std::cell::RefCell::new(mock("api.stripe.com", None));
    }
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, body) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let line = String::from_utf8_lossy(line);
    STRIPE.with_borrow_mut(|stripe| {
        // A finding must not depend on what came before it.
        *stripe.state_mut() = State::default();
        call(stripe, "api.stripe.com", &line, body);
    });
}

/// Reads bytes as every kind of lockfile and manifest: whatever they hold, names are short of the file's length.
pub fn lockfiles(bytes: &[u8]) {
    for path in LOCKFILES {
        let kind = FileKind::of(path).expect("each of them is known");
        lockfile::read(kind, bytes, &mut |name, version| {
            // Bytes that are no text become three each.
            let most = bytes.len() * 3;
            assert!(name.len() <= most && version.is_none_or(|version| version.len() <= most));
        });
    }
    let files = LOCKFILES.map(|path| ProjectFile { path, bytes });
    hothouse_sdks::find(&files);
}

const LOCKFILES: [&str; 17] = [
    "package-lock.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "bun.lock",
    "package.json",
    "requirements.txt",
    "uv.lock",
    "Pipfile.lock",
    "pyproject.toml",
    "Cargo.lock",
    "Cargo.toml",
    "go.sum",
    "go.mod",
    "Gemfile.lock",
    "Gemfile",
    "composer.lock",
    "composer.json",
];

/// A description in OpenAPI, and a call to what it may describe.
pub fn mock_descriptions(bytes: &[u8]) {
    let mut mock = mock("api.vendor.example", Some(("openapi.json", bytes)));
    for line in ["GET /a/1?q=1", "POST /a/1"] {
        call(&mut mock, "api.vendor.example", line, b"{\"a\":1}");
    }
}

/// What a mail client says, cut where the first byte says. However it is cut, the same is answered and delivered.
pub fn smtp_sessions(bytes: &[u8]) {
    let Some((step, stream)) = bytes.split_first() else { return };
    let whole = converse(stream.chunks(stream.len().max(1)));
    let cut = converse(stream.chunks(usize::from(*step).max(1)));
    assert_eq!(whole, cut, "where a stream is cut makes no difference");
}

/// Lets a mail server answer; every delivery succeeds and every handshake too. What is pipelined after STARTTLS
/// depends on where the stream is cut, so the comparison ends there.
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

/// A message: its record is bounded, its page safe, and nothing in it names a file.
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

/// A call of a vendor of mail or text messages; the first byte chooses which.
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

/// What an SDK reports about errors; the first byte chooses to whom.
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

/// What a record may be: bounded, with files whose names the room does not choose, and pages that do nothing.
fn kept(recorded: &hothouse_sinks::Recorded) {
    let size = recorded.body.to_string().len();
    assert!(size < 1 << 20, "a record has {size} bytes");
    assert!(hothouse_model::record::is_shallow(&recorded.body));
    for file in &recorded.files {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-./{}".contains(c);
        assert!(file.path.chars().all(plain) && !file.path.contains(".."), "{}", file.path);
        let page = String::from_utf8_lossy(&file.bytes).to_ascii_lowercase();
        assert!(!file.path.ends_with(".html") || !page.contains("<script"), "a page has a script");
    }
}

/// Requests to vendors of analytics: the first line names host and path. What is recorded fits in a timeline.
pub fn sunk_analytics(bytes: &[u8]) {
    sunk(bytes, &|host| analytics::find(host).unwrap_or(analytics::GENERIC));
}

/// Requests to vendors of feature flags.
pub fn sunk_flags(bytes: &[u8]) {
    sunk(bytes, &|host| flags::find(host).unwrap_or(flags::GENERIC));
}

/// Requests to language models.
pub fn sunk_models(bytes: &[u8]) {
    let take = |call: &hothouse_sinks::Call<'_>, context: &mut Context<'_>| {
        llm::echo(call, context).unwrap_or_else(|| Taken::empty(404, "none", Vec::new()))
    };
    sunk(bytes, &|_| HostSink { vendor: "models", take });
}

/// Exports of traces, whose body is protobuf unless it begins with a brace.
pub fn sunk_traces(bytes: &[u8]) {
    sunk(bytes, &|_| traces::OTLP);
}

/// Requests to SQS, one per line: an action and its JSON, or the parameters of older clients. What is kept is what is there.
pub fn queued_messages(bytes: &[u8]) {
    use hothouse_sinks::queue::{broker::Broker, sqs};
    let (mut broker, mut count) = (Broker::default(), 0_u8);
    let flags = hothouse_sinks::FlagSet::default();
    let mut kept = std::collections::BTreeMap::new();
    for line in bytes.split(|byte| *byte == b'\n').take(50) {
        let at = line.iter().position(|byte| *byte == b' ').unwrap_or(0);
        let (action, body) = line.split_at(at);
        let headers = [match at {
            0 => ("content-type".to_owned(), b"application/x-www-form-urlencoded".to_vec()),
            _ => ("x-amz-target".to_owned(), [b"AmazonSQS.", action].concat()),
        }];
        let call = hothouse_sinks::Call::read(hothouse_mock::Request {
            method: "POST",
            host: "sqs.us-east-1.amazonaws.com",
            path: "/",
            query: "",
            headers: &headers,
            body: body.trim_ascii(),
        });
        count += 1;
        let now = jiff::Timestamp::from_second(i64::from(count) * 10).expect("a moment");
        let mut random = || [count; 16];
        let mails = &hothouse_sinks::no_mails;
        let mut context = Context { now, random: &mut random, flags: &flags, mails };
        let (answer, _) = sqs::read(&call, &mut context).done(&mut broker, &mut context);
        assert!(matches!(answer.status, 200 | 400));
        let (changes, records) = broker.take_changes();
        records.iter().for_each(self::kept);
        for (key, value) in changes {
            match value {
                Some(value) => kept.insert(key, value),
                None => kept.remove(&key),
            };
        }
        let now = now.as_millisecond();
        assert_eq!(Broker::load(kept.clone()).jobs(now), broker.jobs(now));
        broker.take_changes().0.into_iter().for_each(|(key, value)| match value {
            Some(value) => drop(kept.insert(key, value)),
            None => drop(kept.remove(&key)),
        });
    }
}

/// Requests to an object store: a line with method, host, path and query, then the body.
pub fn stored_objects(bytes: &[u8]) {
    use hothouse_sinks::objects::{
        Asked, Operation, azure, chunked::Chunked, form, gcs, notify, place, signed, xml,
    };
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let body = bytes.get(end + 1..).unwrap_or_default();
    let mut words = line.splitn(3, ' ');
    let (method, host) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = words.next().unwrap_or_default().split_once('?').unwrap_or_default();
    let headers = [
        ("content-type".to_owned(), b"multipart/form-data; boundary=b".to_vec()),
        ("x-amz-copy-source".to_owned(), path.as_bytes().to_vec()),
    ];
    let asked = Asked { host, method, path, query, headers: &headers };
    if let Ok(place) = place(host, path) {
        // Names of buckets become names of folders.
        let bucket = place.bucket.as_deref().unwrap_or("none");
        assert!(!bucket.contains('/') && !bucket.starts_with('.') && !bucket.is_empty());
        if let Ok(Operation::ListObjects(list)) = Operation::read(&asked, &place) {
            let shown = xml::listing(bucket, &list, &xml::page(&list, std::iter::empty()));
            assert!(shown.ends_with("</ListBucketResult>"));
        }
    }
    let now = jiff::Timestamp::UNIX_EPOCH;
    signed::is_signed(&asked, now).ok();
    form::read(&asked, body, now).ok();
    xml::read_deletion(body).ok();
    xml::read_completion(body).ok();
    azure::read_block_list(body).ok();
    notify::is_told(std::str::from_utf8(body).ok(), "ObjectCreated:Put", path);
    if let Ok(gcs::GcsCall::Media(at) | gcs::GcsCall::Metadata(at)) = gcs::read(&asked) {
        assert!(!at.bucket.contains('/') && !at.bucket.starts_with('.') && !at.key.is_empty());
    }
    if let Ok((_, _, content)) = gcs::multipart("multipart/related; boundary=b", body) {
        assert!(content.len() < body.len());
    }
    gcs::chunk(Some(path)).ok();
    if let Ok(azure::AzureCall::Get { container, blob }) = azure::read(&asked) {
        assert!(!container.contains('/') && !container.starts_with('.') && !blob.is_empty());
    }
    let (mut chunked, mut came) = (Chunked::default(), 0);
    if chunked.push(body, &mut |part| came += part.len()).is_ok() {
        chunked.finish().ok();
    }
    assert!(came <= body.len(), "no more comes out than came in");
}

/// Beginnings of images.
pub fn measured_images(bytes: &[u8]) {
    if let Some(found) = hothouse_sinks::objects::media::measure(bytes) {
        assert!(!found.format.is_empty());
    }
}

/// Deliveries of webhooks by whoever found a listener: lines of headers, an empty line, a body. The first byte chooses
/// the vendor. Nobody here has the secret, so none goes on.
pub fn arrived_webhooks(bytes: &[u8]) {
    use hothouse_sinks::webhook::{
        fixture,
        verify::{self, Arrived},
    };
    let Some((choice, rest)) = bytes.split_first() else { return };
    let vendors = fixture::vendors();
    let vendor = vendors[usize::from(*choice) % vendors.len()];
    let Some(scheme) = fixture::scheme(vendor) else { return };
    let at = rest.windows(2).position(|pair| pair == b"\n\n").unwrap_or(rest.len());
    let body = rest.get(at + 2..).unwrap_or_default();
    let head = String::from_utf8_lossy(&rest[..at]).into_owned();
    let headers: Vec<(String, String)> = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let arrived = Arrived { headers: &headers, body, url: "https://x/", now };
    assert!(verify::check(&scheme, "a secret that nobody was told", &arrived).is_err());
    assert!(verify::kind(&scheme, &arrived).len() <= 120);
    assert!(verify::message(&arrived).is_none_or(|id| id.len() <= 120));
    assert!(verify::passed_on(&scheme, &headers).len() <= headers.len());
}

fn sunk(bytes: &[u8], choose: &dyn Fn(&str) -> HostSink) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let body = bytes.get(end + 1..).unwrap_or_default();
    let (host, path) = line.split_once('/').unwrap_or((&line, ""));
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let path = format!("/{path}");
    let kind: &[u8] = match body.first() {
        Some(b'{' | b'[') => b"application/json",
        _ => b"application/x-protobuf",
    };
    let headers = [
        ("content-type".to_owned(), kind.to_vec()),
        ("authorization".to_owned(), b"Bearer x".to_vec()),
    ];
    let method = if body.is_empty() { "GET" } else { "POST" };
    let request =
        hothouse_mock::Request { method, host, path: &path, query, headers: &headers, body };
    let call = hothouse_sinks::Call::read(request);
    let (set, mut random) = (FlagSet::new(), || [7; 16]);
    let now = jiff::Timestamp::UNIX_EPOCH;
    let taken = (choose(host).take)(
        &call,
        &mut Context { now, random: &mut random, flags: &set, mails: &hothouse_sinks::no_mails },
    );
    assert!((200..600).contains(&taken.answer.status));
    for record in &taken.records {
        assert!(hothouse_model::record::is_shallow(&record.body), "it nests too deeply");
        assert!(record.body.to_string().len() < hothouse_timeline::LINE_LIMIT, "it is too long");
    }
}

/// What a browser in a room sends: messages in pieces, noted by a page, then told. However much comes, what is kept is
/// bounded, and a report can be made of it.
pub fn browser_messages(bytes: &[u8]) {
    let (cut, rest) =
        bytes.split_first().map_or((0, bytes), |(cut, rest)| (usize::from(*cut), rest));
    let spec = CaptureSpec {
        session: "S".into(),
        context: "C".into(),
        traced: vec!["https://web.a.shop.localhost".into()],
        shims: ShimSet(shipped("pay", ShipShim::Stripe)),
        video: true,
        ..CaptureSpec::default()
    };
    let (mut frames, mut capture) = (Frames::default(), Capture::new(spec));
    let mut look = Look::default();
    for piece in [&rest[..cut.min(rest.len())], &rest[cut.min(rest.len())..]] {
        let taken = frames.take(piece, &mut |message| match message {
            Message::Event(event) => {
                for command in capture.on_event(&event) {
                    assert!(command.encode(1).ends_with(&[0]));
                }
            }
            Message::Answer { outcome: Ok(value), .. } => {
                look.nodes = accessibility::read(&value);
                look.page = serde_json::from_value(value).unwrap_or_default();
            }
            Message::Answer { .. } => {}
        });
        if taken.is_err() {
            return;
        }
    }
    let before = Kept::default();
    let (capture, look) = (&capture, &look);
    let arrival = Arrival::Loaded;
    let found =
        Found { app: "web", url: "u", arrival, capture, look, before: &before, steps: Vec::new() };
    let told = report(found);
    assert!(told.console.len() <= 500 && told.failed_requests.len() <= 500);
    let record = serde_json::to_string(&told.for_record()).expect("a report is JSON");
    assert!(record.len() < 1 << 20 || rest.len() > 1 << 16, "a record has its limit");
    hothouse_browser::video::avi(&capture.video_frames);
    hothouse_browser::har::har(&capture.requests.all, "t", "u");
}

/// Scripts, locators, keys and storage states of a worktree. What is read is written as it was.
pub fn browser_scripts(bytes: &[u8]) {
    StorageState::parse(bytes).ok().map(|state| state.adapted("https://a.localhost").script());
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(locator) = text.parse::<Locator>() {
        let again = locator.to_string().parse::<Locator>();
        assert!(again.is_ok(), "{locator}");
    }
    hothouse_browser::keys::find(text);
    let places = source_map::places(text);
    source_map::told(text, &source_map::find(bytes, &places));
    source_map::address(text).and_then(source_map::inline);
    if let Ok(steps) = script::parse(text) {
        let written: String = steps.iter().map(script::Step::to_toml).collect();
        let again = script::parse(&written).expect("what was written is a script");
        assert_eq!(again.len(), steps.len());
    }
}

/// What services write of their own coverage, and a source map: whatever they say, lines are those of the change.
pub fn coverage_reports(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let files = [ChangedText {
        path: "src/a.ts".into(),
        text: Some(text.clone()),
        lines: vec![(2, 4), (9, 9)].into(),
    }];
    let roots = ["/workspace".to_owned()];
    let mut collector = Collector::new(&files, &roots);
    for script in reports::node(bytes) {
        collector.script(Meter::Node, &script);
    }
    collector.lines(Meter::Python, reports::python(bytes));
    collector.lines(Meter::Lcov, reports::lcov(&text));
    let whole = ScriptRun {
        url: "https://web.a.localhost/src/a.js".into(),
        ranges: v8::ranges(&serde_json::from_slice(bytes).unwrap_or_default()),
        text: ScriptText::Whole(text.clone()),
        map: None,
    };
    collector.script(Meter::Browser, &whole);
    collector.script(Meter::Browser, &ScriptRun { map: Some(bytes.to_vec()), ..whole });
    for file in collector.done().files {
        let told = file.ran.with(&file.idle);
        assert_eq!(told.within(&files[0].lines), told, "no line that was not changed");
        assert!(file.ran.within(&file.idle).is_empty(), "a line ran, or it did not");
    }
}

/// Hook input of coding agents: it is read or refused, and whatever it holds, a decision follows and can be answered.
pub fn guard(bytes: &[u8]) {
    struct Nothing;
    impl hothouse_guard::Files for Nothing {
        fn look(&self, path: &std::path::Path) -> hothouse_guard::Link {
            match path.ends_with("link") {
                true => hothouse_guard::Link::To("../..".into()),
                false => hothouse_guard::Link::Missing,
            }
        }
    }
    let unset = |_: &str| None;
    let scene = hothouse_guard::Scene {
        root: "/w/a".into(),
        also: vec!["/tmp".into()],
        home: "/home/u".into(),
        folder: "/w/a".into(),
        mode: hothouse_guard::Mode::Ask,
        in_room: true,
        variable: &unset,
        files: &Nothing,
    };
    let text = String::from_utf8_lossy(bytes).into_owned();
    let shell = serde_json::json!({ "tool": "bash", "args": { "command": text } }).to_string();
    for input in [bytes, shell.as_bytes()] {
        for vendor in hothouse_guard::Vendor::ALL.map(Some).into_iter().chain([None]) {
            let Ok(call) = hothouse_guard::Call::read(input, vendor) else { continue };
            let decision = hothouse_guard::decide(&call, &scene);
            let answer = call.vendor.answer(&decision);
            serde_json::from_str::<serde_json::Value>(&answer.stdout).expect("an answer is JSON");
            let hidden = hothouse_guard::redacted(&call.target);
            assert_eq!(hothouse_guard::redacted(&hidden), hidden, "what is redacted stays so");
        }
    }
}
