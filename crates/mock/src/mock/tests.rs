use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{
    answer::{Body, Effect, Fault},
    record::{Recorder, Response},
    stub,
};

fn load(files: &[(&str, &str)]) -> (Mock, Vec<String>) {
    let files = files.iter().map(|(name, text)| FixtureFile {
        integration: "vendor".into(),
        name: (*name).into(),
        bytes: text.as_bytes().to_vec(),
    });
    let integration = Integration {
        name: "vendor".into(),
        hosts: vec![
            "api.vendor.example".into(),
            "api.taxjar.com".into(),
            "api.goshippo.com".into(),
            "challenges.cloudflare.com".into(),
            "www.google.com".into(),
            "api.hcaptcha.com".into(),
            "cdn.contentful.com".into(),
            "p1.apicdn.sanity.io".into(),
            "api.storyblok.com".into(),
            "shop.cdn.prismic.io".into(),
        ],
        vendor: None,
    };
    let seed = json!({ "customer": { "id": "c1" } });
    let (mock, problems) = Mock::load(MockSpec {
        integrations: vec![integration],
        files: files.collect(),
        seed,
        id_seed: 7,
    });
    (mock, problems.iter().map(ToString::to_string).collect())
}

fn mock(fixture: &str) -> Mock {
    let (mock, problems) = load(&[("a.toml", fixture)]);
    assert_eq!(problems, [""; 0]);
    mock
}

fn send(mock: &mut Mock, host: &str, line: &str, body: &str) -> Answer {
    let (method, target) = line.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = [
        ("Content-Type".to_owned(), b"application/json".to_vec()),
        ("Authorization".to_owned(), b"ShippoToken shippo_test_acme".to_vec()),
    ];
    let request = Request { method, host, path, query, headers: &headers, body: body.as_bytes() };
    mock.answer(&request, Timestamp::UNIX_EPOCH)
}

fn ask(mock: &mut Mock, line: &str, body: &str) -> Answer {
    send(mock, "api.vendor.example", line, body)
}

fn tree(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body.bytes()).unwrap_or_default()
}

#[test]
fn a_fixture_answers_what_it_matches_and_nothing_else() {
    let mut mock = mock(
        r#"
        [request]
        method = "POST"
        path = "/things/{id}"
        query = { page = "1" }
        json = { "$.kind" = "lamp", "$.watts" = { present = true } }
        [answer]
        status = 201
        headers = { x-id = "{{path.id}}" }
        json = { id = "{{path.id}}", kind = "{{request.json.kind}}", owner = "{{seed.customer.id}}", n = "{{counter}}" }
        "#,
    );
    let good = ask(&mut mock, "POST /things/7?page=1", r#"{"kind":"lamp","watts":40}"#);
    assert_eq!((good.status, &good.matched), (201, &Match::Fixture("a.toml".into())));
    assert_eq!(tree(&good), json!({ "id": "7", "kind": "lamp", "owner": "c1", "n": 1 }));
    assert!(good.headers.contains(&("x-id".into(), "7".into())));
    for (line, body, why) in [
        ("GET /things/7?page=1", r#"{"kind":"lamp","watts":40}"#, "method is GET, not POST"),
        ("POST /things/7?page=2", r#"{"kind":"lamp","watts":40}"#, "query `page` is `2`, not `1`"),
        (
            "POST /things/7?page=1",
            r#"{"kind":"desk","watts":40}"#,
            "`$.kind` in the body is `desk`, not `lamp`",
        ),
        ("POST /things/7?page=1", r#"{"kind":"lamp"}"#, "`$.watts` in the body is missing"),
        (
            "POST /thing/7?page=1",
            r#"{"kind":"lamp","watts":4}"#,
            "path is `/thing/7`, not `/things/{id}`",
        ),
        ("POST /things/7?page=1", r#"{"kind":"#, "the body is not valid JSON"),
    ] {
        let answer = ask(&mut mock, line, body);
        assert_eq!(answer.status, 501, "{line}");
        let Match::Unmatched { nearest, .. } = &answer.matched else { panic!("{line}") };
        assert!(nearest[0].why.iter().any(|found| found.starts_with(why)), "{line}: {nearest:?}");
        assert!(
            !String::from_utf8(answer.body.bytes()).unwrap().contains("shippo_test"),
            "credentials stay out"
        );
    }
}

#[test]
fn a_stub_makes_the_call_match() {
    let mut empty = mock("[request]\npath = \"/other\"\n[answer]\n");
    let line = "GET /v1/things/7?page=2&odd=%22%7B%7B%0A&token=secretsecret";
    let answer = ask(&mut empty, line, "");
    let Match::Unmatched { stub, .. } = answer.matched else { panic!() };
    assert!(!stub.contains("secretsecret"), "{stub}");
    let mut filled = mock(&stub);
    let answer = ask(&mut filled, line, "");
    assert_eq!((answer.status, tree(&answer)), (200, json!({ "id": "7" })), "{stub}");
    let request = Request {
        method: "GET",
        host: "h",
        path: "/v1/things/7",
        query: "",
        headers: &[],
        body: b"",
    };
    assert_eq!(stub::file_name(&request), "get-v1-things-id.toml");
    // Redaction finds a secret value in a name only if it is unchanged.
    let long = "long-".repeat(14);
    for (path, name) in [
        ("/v1/Secret_in-the.path/x", "get-v1-secret_in-the.path-x.toml"),
        ("/v1/secret+with%20others/x", "get-v1-x.toml"),
        (&*format!("/v1/{long}/Secret_in-the.path/x"), &*format!("get-v1-{long}.toml")),
    ] {
        assert_eq!(stub::file_name(&Request { path, ..request }), name);
    }
}

#[test]
fn answers_come_in_turn_and_state_leads() {
    let mut mock = mock(
        r#"
        [[fixture]]
        request = { path = "/job" }
        answer = { json = { state = "queued" } }
        then = [{ status = 500 }, { json = { state = "done" } }]
        [[fixture]]
        request = { method = "PUT", path = "/door/{id}" }
        answer = { set = { "door.{{path.id}}" = "open" } }
        [[fixture]]
        request = { method = "GET", path = "/door/{id}", state = { "door.{{path.id}}" = "open" } }
        answer = { json = { door = "{{state.door.(path.id)}}" } }
        [[fixture]]
        request = { method = "GET", path = "/door/{id}" }
        answer = { json = { door = "closed" } }
        "#,
    );
    let states: Vec<u16> = (0..4).map(|_| ask(&mut mock, "GET /job", "").status).collect();
    assert_eq!(states, [200, 500, 200, 200]);
    assert_eq!(tree(&ask(&mut mock, "GET /door/3", "")), json!({ "door": "closed" }));
    let before = mock.state().revision();
    ask(&mut mock, "PUT /door/3", "");
    assert!(mock.state().revision() > before);
    assert_eq!(tree(&ask(&mut mock, "GET /door/3", "")), json!({ "door": "open" }));
    assert_eq!(tree(&ask(&mut mock, "GET /door/4", "")), json!({ "door": "closed" }));
}

#[test]
fn faults_waits_streams_and_webhooks() {
    let mut mock = mock(
        r#"
        [[fixture]]
        request = { path = "/reset" }
        answer = { fault = "reset", latency = "250ms" }
        [[fixture]]
        request = { path = "/slow" }
        answer = { text = "abcdef", slow = { bytes = 4, every = "1s" } }
        [[fixture]]
        request = { path = "/stream" }
        answer = { events = [{ event = "delta", data = { n = 1 } }, { after = "10ms", data = "line\nline" }, { data = "[DONE]" }] }
        [[fixture]]
        request = { path = "/hook" }
        answer = { status = 202, webhooks = [{ type = "thing.made", payload = { id = "{{uid}}" } }] }
        "#,
    );
    let reset = ask(&mut mock, "GET /reset", "");
    assert_eq!((reset.fault, reset.latency), (Some(Fault::Reset), Duration::from_millis(250)));
    let Body::Pieces(pieces) = ask(&mut mock, "GET /slow", "").body else { panic!() };
    assert_eq!(pieces.iter().map(|piece| piece.bytes.len()).collect::<Vec<_>>(), [4, 2]);
    let stream = ask(&mut mock, "GET /stream", "");
    let text = String::from_utf8(stream.body.bytes()).unwrap();
    assert_eq!(text, "event: delta\ndata: {\"n\":1}\n\ndata: line\ndata: line\n\ndata: [DONE]\n\n");
    assert!(stream.headers.contains(&("content-type".into(), "text/event-stream".into())));
    let hook = ask(&mut mock, "GET /hook", "");
    assert!(matches!(&hook.effects[..], [Effect::Webhook { kind, .. }] if kind == "thing.made"));
}

#[test]
fn a_broken_fixture_is_named_with_its_line_and_the_others_work() {
    let good = "[request]\npath = \"/good\"\n[answer]\n";
    let (mut mock, problems) = load(&[
        ("good.toml", good),
        ("syntax.toml", "[request]\npath = \n"),
        ("keys.toml", "[request]\nmethd = \"GET\"\npath = \"/a\"\n[answer]\nstatus = 20\n"),
        ("template.toml", "[request]\npath = \"/a/{id}\"\n[answer]\ntext = \"{{path.idd}}\"\n"),
        ("body.toml", "[request]\npath = \"/b\"\n[answer]\nfile = \"gone.json\"\n"),
        ("fault.toml", "[request]\npath = \"/b\"\n[answer]\nfault = \"rest\"\n"),
        ("regex.toml", "[request]\npath = \"/b\"\nbody = { matches = \"(\" }\n[answer]\n"),
        ("deep.json", &"[".repeat(10_000)),
        ("stray.json", "{\"a\": 1}"),
        ("key.json", "{\n \"request\": {\"path\": \"/c\"},\n \"anwser\": {}\n}"),
    ]);
    let all = problems.join("\n");
    for expected in [
        "hothouse/fixtures/vendor/syntax.toml:2:1: not TOML",
        "keys.toml:2:1: `request.methd` is not a key of fixtures\n  did you mean `method`?",
        "keys.toml:5:1: `answer.status` must be",
        "template.toml:4:1: `answer.text` has a template that cannot work",
        "did you mean `id`?",
        "body.toml:4:1: `answer.file` names `gone.json`",
        "did you mean `reset`?",
        "regex.toml:3:1: `request.body` is not a valid regular expression",
        "deep.json:1:1: not JSON",
        "stray.json:1:1: this is neither a fixture nor",
        "key.json:3:1: `anwser` is not a key of fixtures\n  did you mean `answer`?",
    ] {
        assert!(all.contains(expected), "{expected}\n---\n{all}");
    }
    assert_eq!(ask(&mut mock, "GET /good", "").status, 200);
}

#[test]
fn a_reference_to_nothing_is_a_501_that_names_it_and_changes_nothing() {
    let mut mock = mock(
        "[request]\npath = \"/a\"\n[answer]\njson = { a = \"{{counter.x}}\", b = \"{{seed.nobody.id}}\" }\n",
    );
    let answer = ask(&mut mock, "GET /a", "");
    assert_eq!(answer.status, 501);
    assert!(tree(&answer)["error"]["message"].as_str().unwrap().contains("`seed.nobody.id`"));
    assert_eq!(mock.state().revision(), 0);
    mock.set_seed(json!({ "nobody": { "id": "x" } }));
    assert_eq!(tree(&ask(&mut mock, "GET /a", "")), json!({ "a": 1, "b": "x" }));
}

#[test]
fn markup_in_a_request_stays_text_in_an_html_answer() {
    let mut mock = mock(
        "[request]\npath = \"/a\"\n[answer]\nheaders = { content-type = \"text/html\", x-q = \"{{request.query.q}}\" }\ntext = \"<p>{{request.query.q}}</p>\"\n",
    );
    let answer = ask(&mut mock, "GET /a?q=%3Cb%3E%0d%0aset-cookie:x", "");
    assert_eq!(answer.body.bytes(), b"<p>&lt;b&gt;\r\nset-cookie:x</p>");
    assert!(answer.headers.contains(&("x-q".into(), "<b>set-cookie:x".into())));
}

#[test]
fn a_recording_replays_and_has_no_secret() {
    let headers = [
        ("content-type".to_owned(), b"application/json".to_vec()),
        ("set-cookie".to_owned(), b"s=topsecret".to_vec()),
    ];
    let body = br#"{"user":"ann@corp.example","api_key":"topsecret","n":1}"#;
    let request = Request {
        method: "POST",
        host: "h",
        path: "/v1/login",
        query: "tenant=corp&key=topsecret",
        headers: &headers,
        body,
    };
    let answer = br#"{"token":"topsecret","user":"ann@corp.example","note":"{{now}}"}"#;
    let response = Response { status: 201, headers: &headers, body: answer };
    let redact = |text: &str| text.replace("ann@corp.example", "someone@example.com");
    let mut recorder = Recorder::default();
    recorder.add(&request, &response, &redact).unwrap();
    let files = recorder.files(&|_| false).remove(0);
    let (name, body_file) = files.bodies[0].clone();
    let body_text = String::from_utf8(body_file).unwrap();
    for secret in ["topsecret", "ann@corp"] {
        assert!(
            !files.text.contains(secret) && !body_text.contains(secret),
            "{}\n{body_text}",
            files.text
        );
    }
    let (mut mock, problems) =
        load(&[(files.name.as_str(), files.text.as_str()), (name.as_str(), body_text.as_str())]);
    assert_eq!(problems, [""; 0]);
    let request = Request { host: "api.vendor.example", ..request };
    let replayed = mock.answer(&request, Timestamp::UNIX_EPOCH);
    assert_eq!(replayed.status, 201, "{}", files.text);
    assert_eq!(
        tree(&replayed),
        json!({ "token": "REDACTED", "user": "someone@example.com", "note": "{{now}}" })
    );
}

#[test]
fn the_calls_of_a_shop_to_its_carrier_and_tax_service() {
    let mut mock = mock("[request]\npath = \"/other\"\n[answer]\n");
    let shipment = r#"{"address_from":{"zip":"97209"},"address_to":{"zip":"98101"},"parcels":[{"weight":"900"}],"async":false}"#;
    let rates = tree(&send(&mut mock, "api.goshippo.com", "POST /shipments/", shipment));
    assert_eq!(rates["rates"][0]["amount"], "7.25");
    let rate = rates["rates"][0]["object_id"].as_str().unwrap();
    let label = json!({ "rate": rate, "label_file_type": "PDF" }).to_string();
    let label = send(&mut mock, "api.goshippo.com", "POST /transactions/", &label);
    assert_eq!(label.matched, Match::Vendor("shippo/transactions.toml#buy-label".into()));
    assert_eq!(tree(&label)["status"], "SUCCESS");
    let id = rates["object_id"].as_str().unwrap();
    let again = send(&mut mock, "api.goshippo.com", &format!("GET /shipments/{id}"), "");
    assert_eq!(tree(&again)["object_id"], id);
    for (state, country, tax) in
        [("WA", "US", json!(8)), ("OR", "US", json!(0)), ("BC", "CA", json!(0))]
    {
        let body =
            json!({ "to_country": country, "to_state": state, "amount": 100, "shipping": 5.9 })
                .to_string();
        let answer = tree(&send(&mut mock, "api.taxjar.com", "POST /v2/taxes", &body));
        assert_eq!(answer["tax"]["amount_to_collect"], tax, "{state}");
    }
}

#[test]
fn captchas_pass_with_test_keys_and_fail_closed_with_any_other() {
    let (mut mock, _) = load(&[]);
    for (host, path, secret, token) in [
        (
            "challenges.cloudflare.com",
            "/turnstile/v0/siteverify",
            "1x0000000000000000000000000000000AA",
            "XXXX.DUMMY.TOKEN.XXXX",
        ),
        (
            "www.google.com",
            "/recaptcha/api/siteverify",
            "6LeIxAcTAAAAAGG-vFI1TnRWxMZNFuojJ4WifJWe",
            "03AFcWeA-hothouse",
        ),
        (
            "api.hcaptcha.com",
            "/siteverify",
            "0x0000000000000000000000000000000000000000",
            "10000000-aaaa-bbbb-cccc-000000000001",
        ),
    ] {
        let mut passes = |secret: &str, token: &str| {
            let body = json!({ "secret": secret, "response": token }).to_string();
            tree(&send(&mut mock, host, &format!("POST {path}"), &body))["success"].clone()
        };
        assert_eq!(passes(secret, token), true, "{host}");
        for (secret, token) in [(secret, "forged"), ("a-secret-of-production", token), ("", "")] {
            assert_eq!(passes(secret, token), false, "{host} {secret} {token}");
        }
    }
}

#[test]
fn mocked_content_is_empty() {
    let (mut mock, _) = load(&[]);
    for (host, line, pointer, expected) in [
        (
            "cdn.contentful.com",
            "GET /spaces/s/environments/master/entries?limit=1",
            "/items",
            json!([]),
        ),
        ("cdn.contentful.com", "GET /spaces/s/entries", "/total", json!(0)),
        (
            "cdn.contentful.com",
            "GET /spaces/s/environments/m/entries/1",
            "/sys/id",
            json!("NotFound"),
        ),
        (
            "p1.apicdn.sanity.io",
            "GET /v2024-01-01/data/query/production?query=*",
            "/result",
            json!([]),
        ),
        ("p1.apicdn.sanity.io", "GET /v1/data/query/d?query=*%5B0%5D", "/result", Value::Null),
        ("api.storyblok.com", "GET /v2/cdn/stories?token=t", "/stories", json!([])),
        ("shop.cdn.prismic.io", "GET /api/v2", "/refs/0/isMasterRef", json!(true)),
        ("shop.cdn.prismic.io", "GET /api/v2/documents/search?ref=master", "/results", json!([])),
    ] {
        let answer = send(&mut mock, host, line, "");
        assert!(answer.status == 200 || answer.status == 404, "{line}: {}", answer.status);
        assert_eq!(tree(&answer).pointer(pointer), Some(&expected), "{line}");
    }
}

#[test]
fn a_fixture_of_the_worktree_goes_before_the_package() {
    let mut mock = mock("[request]\npath = \"/v2/taxes\"\n[answer]\nstatus = 503\n");
    assert_eq!(send(&mut mock, "api.taxjar.com", "POST /v2/taxes", "{}").status, 503);
}

#[test]
fn a_description_validates_and_gives_examples() {
    let description = json!({
        "openapi": "3.1.0", "info": { "title": "t", "version": "1" }, "servers": [{ "url": "https://api.vendor.example/v1" }],
        "paths": { "/pets/{id}": {
            "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "integer" } }],
            "get": { "operationId": "getPet", "responses": { "200": { "description": "", "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Pet" } } } } } },
            "post": { "operationId": "setPet",
                "parameters": [{ "name": "mode", "in": "query", "required": true, "schema": { "enum": ["a", "b"] } }],
                "requestBody": { "required": true, "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Pet" } } } },
                "responses": { "204": { "description": "" } } } } },
        "components": { "schemas": { "Pet": { "type": "object", "required": ["name", "born"], "properties": {
            "name": { "type": "string", "minLength": 2 }, "born": { "type": "string", "format": "date" },
            "friends": { "type": "array", "items": { "$ref": "#/components/schemas/Pet" } },
            "age": { "type": ["integer", "null"], "minimum": 3 } } } } },
    });
    let (mut mock, problems) = load(&[("openapi.json", &description.to_string())]);
    assert_eq!(problems, [""; 0]);
    let got = ask(&mut mock, "GET /v1/pets/7", "");
    assert_eq!(got.matched, Match::Fixture("openapi.json#getPet".into()));
    let pet = tree(&got);
    assert_eq!((&pet["born"], &pet["age"]), (&json!("2026-01-02"), &json!(3)));
    let set = ask(&mut mock, "POST /v1/pets/7?mode=a", &pet.to_string());
    assert_eq!(set.status, 204, "an example fits its own schema: {}", tree(&set));
    let wrong = ask(&mut mock, "POST /v1/pets/x?mode=c", r#"{"name":"A","age":1}"#);
    assert_eq!(wrong.status, 400);
    let told = tree(&wrong)["error"]["problems"].to_string();
    for expected in [
        "path parameter `id`",
        "query parameter `mode`",
        "body.born is missing",
        "body.name is too short",
        "body.age is out of bounds",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert_eq!(ask(&mut mock, "DELETE /v1/pets/7", "").status, 501);
    let (_, problems) = load(&[("old.json", r#"{"swagger":"2.0","paths":{}}"#)]);
    assert!(problems[0].contains("not OpenAPI 3"));
}

#[test]
fn a_description_cannot_make_a_status_that_http_does_not_have() {
    for (key, status) in [("201", 201), ("2XX", 200), ("2", 200), ("20000", 200), ("default", 200)]
    {
        let description = json!({ "openapi": "3.0.0", "paths": { "/a": { "get": { "responses": { key: {} } } } } });
        let (mut mock, problems) = load(&[("openapi.json", &description.to_string())]);
        assert_eq!(problems, [""; 0]);
        assert_eq!(ask(&mut mock, "GET /a", "").status, status, "{key}");
    }
}

#[test]
fn a_package_can_be_asked_for_by_name_and_a_wrong_name_has_a_near_miss() {
    let integration = |vendor: &str| Integration {
        name: "x".into(),
        hosts: vec!["pay.corp.example".into()],
        vendor: Some(vendor.into()),
    };
    let spec = |vendor| MockSpec { integrations: vec![integration(vendor)], ..MockSpec::default() };
    let (mut mock, problems) = Mock::load(spec("taxjar"));
    assert_eq!(problems, []);
    assert_eq!(send(&mut mock, "pay.corp.example", "GET /v2/categories", "").status, 200);
    let (_, problems) = Mock::load(spec("strpe"));
    assert_eq!(problems[0].suggestion.as_deref(), Some("stripe"));
    assert_eq!(send(&mut mock, "elsewhere.example", "GET /", "").status, 501);
}
