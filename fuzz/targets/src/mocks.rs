//! Mocks: their fixtures, templates and descriptions, and requests to them.

use hothouse_mock::{FixtureFile, Integration, Mock, MockSpec, State, template::Template};

/// Creates a mock of one host, with a file of fixtures if one is given.
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

/// Checks a file of fixtures, in TOML and in JSON: it loads or has problems, and answers or does
/// not.
pub fn mock_fixtures(bytes: &[u8]) {
    for name in ["a.toml", "a.json"] {
        let mut mock = mock("api.vendor.example", Some((name, bytes)));
        call(&mut mock, "api.vendor.example", "POST /a/1?q=1", b"{\"a\":{\"b\":1}}");
    }
}

/// Checks a template: it is refused, or rendered.
pub fn mock_templates(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if Template::parse(&text, &["id"]).is_ok() {
        let quoted = format!("{text:?}").replace("\\'", "'").replace("\\0", " ");
        let file = format!("[request]\npath = \"/a/{{id}}\"\n[answer]\ntext = {quoted}\n");
        mock_fixtures(file.as_bytes());
    }
}

/// Checks a request to Stripe's mock: the first line is method and target, the rest is the body.
pub fn mock_requests(bytes: &[u8]) {
    thread_local! {
        static STRIPE: std::cell::RefCell<Mock> = std::cell::RefCell::new(mock("api.stripe.com", None));
    }
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, body) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let line = String::from_utf8_lossy(line);
    STRIPE.with_borrow_mut(|stripe| {
        // A finding must not depend on earlier inputs.
        *stripe.state_mut() = State::default();
        call(stripe, "api.stripe.com", &line, body);
    });
}

/// Checks an OpenAPI description, and a call that it may describe.
pub fn mock_descriptions(bytes: &[u8]) {
    let mut mock = mock("api.vendor.example", Some(("openapi.json", bytes)));
    for line in ["GET /a/1?q=1", "POST /a/1"] {
        call(&mut mock, "api.vendor.example", line, b"{\"a\":1}");
    }
}
