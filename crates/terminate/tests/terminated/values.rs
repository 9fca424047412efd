//! Where a value is sent, and where it is not.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use hothouse_model::config::SecretForm;
use hyper::{StatusCode, Version};

use crate::ground::{
    Ground, OTHER, PLACEHOLDER, Plan, SECOND, SECOND_PLACEHOLDER, VALUE, body_of, text_of,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_host_gets_the_value_and_the_room_only_ever_sees_the_placeholder() {
    let ground = Ground::lay(Plan::default()).await;
    for http2 in [false, true] {
        let bearer = format!("Bearer {PLACEHOLDER}");
        let builder = ground.request("POST", "/echo").header("authorization", &bearer);
        let builder = match http2 {
            // In HTTP/2 the host is part of the URL.
            true => hyper::Request::builder()
                .method("POST")
                .uri(format!("https://{}/echo", ground.named(crate::ground::HOST)))
                .header("authorization", &bearer),
            false => builder,
        };
        let request = builder.body(body_of(format!("about {PLACEHOLDER}"))).unwrap();
        let response = match http2 {
            true => ground.send_http2(request).await,
            false => ground.send(request).await,
        };
        assert_eq!(response.headers()["x-echo"], bearer.as_str());
        let text = text_of(response).await;
        assert!(text.contains(PLACEHOLDER) && !text.contains(VALUE), "{text}");
        let seen = ground.seen().pop().unwrap();
        assert_eq!(seen.headers["authorization"], format!("Bearer {VALUE}").as_str());
        // The form of this secret is a header: a body that the host may store keeps the
        // placeholder.
        assert_eq!(seen.body, format!("about {PLACEHOLDER}").into_bytes());
        assert_eq!(seen.version, if http2 { Version::HTTP_2 } else { Version::HTTP_11 });
    }
    let records = ground.records(2).await;
    let text = format!("{records:?}");
    assert!(!text.contains(VALUE) && text.contains("Bearer [redacted]"), "{text}");
    assert_eq!(
        (records[0].status, records[0].secrets.as_slice()),
        (Some(200), &["TOKEN".to_owned()][..])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placeholder_sent_to_another_host_stays_one() {
    let ground = Ground::lay(Plan::default()).await;
    let stream = ground.greet(OTHER, b"http/1.1").await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = hyper::Request::builder()
        .uri("/echo")
        .header("host", ground.named(OTHER))
        .header("authorization", format!("Bearer {PLACEHOLDER}"))
        .body(body_of(""))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(ground.seen()[0].headers["authorization"], format!("Bearer {PLACEHOLDER}").as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_verified_tls_nothing_is_sent() {
    let ground = Ground::lay(Plan { trusts_host: false, ..Plan::default() }).await;
    let request = ground.request("GET", "/echo").header("authorization", PLACEHOLDER);
    let response = ground.send(request.body(body_of("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    let text = text_of(response).await;
    assert!(text.contains("certificate") && !text.contains(VALUE), "{text}");
    assert!(ground.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_plain_connection_a_placeholder_stays_one() {
    let ground = Ground::lay(Plan { tls: false, ..Plan::default() }).await;
    let stream = tokio::net::TcpStream::connect(ground.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = ground.request("GET", "/echo").header("authorization", PLACEHOLDER);
    let response = sender.send_request(request.body(body_of("")).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(ground.seen()[0].headers["authorization"], PLACEHOLDER);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_comes_over_a_plain_connection_is_caught_too() {
    let ground = Ground::lay(Plan { tls: false, ..Plan::default() }).await;
    let stream = tokio::net::TcpStream::connect(ground.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    // The host echoes its input; the value in it represents one that it was sent over TLS.
    let request = ground.request("POST", "/echo").body(body_of(VALUE)).unwrap();
    let text = text_of(sender.send_request(request).await.unwrap()).await;
    assert!(text.contains(PLACEHOLDER) && !text.contains(VALUE), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_the_room_sends_is_not_written_down() {
    let ground = Ground::lay(Plan::default()).await;
    let hex: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
    for path in ["/echo", "/forbidden/x"] {
        let request = ground
            .request("POST", &format!("{path}/{VALUE}?guess={hex}"))
            .header("x-guess", format!("it is {VALUE}"))
            .body(body_of(format!("{VALUE} {hex}")));
        text_of(ground.send(request.unwrap()).await).await;
    }
    let records = ground.records(2).await;
    let text = serde_json::to_string(&records).unwrap();
    let bodies: Vec<u8> =
        records.iter().flat_map(|record| record.request_body.kept.clone()).collect();
    let bodies = String::from_utf8(bodies).unwrap();
    for all in [text, bodies] {
        assert!(all.contains(PLACEHOLDER), "{all}");
        assert!(!all.contains(VALUE) && !all.contains(&hex), "{all}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn echoes_are_caught_in_headers_trailers_and_single_bytes() {
    let ground = Ground::lay(Plan::default()).await;
    let ask = |path: &str| {
        ground.request("GET", path).header("authorization", PLACEHOLDER).body(body_of("")).unwrap()
    };
    assert_eq!(text_of(ground.send(ask("/bytes")).await).await, PLACEHOLDER);
    assert!(ground.seen()[0].headers["authorization"] == VALUE, "the host had the value to echo");
    let echo = ground.send(ask("/echo")).await;
    assert_eq!(echo.headers()["x-echo"], PLACEHOLDER);
    let reason = echo.extensions().get::<hyper::ext::ReasonPhrase>();
    assert_eq!(reason, None, "nobody looks through the words beside a status");
    let request = hyper::Request::builder()
        .uri(format!("https://{}/trailers", ground.named(crate::ground::HOST)))
        .header("authorization", PLACEHOLDER)
        .header("te", "trailers")
        .body(body_of(""))
        .unwrap();
    let response = ground.send_http2(request).await;
    let collected = http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
    let trailers = collected.trailers().cloned().unwrap();
    assert_eq!(
        (&trailers["x-token"], &trailers["grpc-status"]),
        (&PLACEHOLDER.parse().unwrap(), &"0".parse().unwrap())
    );
    assert_eq!(collected.to_bytes().as_ref(), b"payload");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_echo_is_unpacked_looked_through_and_passed_on_as_it_is() {
    let ground = Ground::lay(Plan::default()).await;
    let ask = |coding: &str| {
        let request = ground.request("GET", &format!("/packed?{coding}"));
        let request = request.header("accept-encoding", "gzip, br");
        request.header("authorization", PLACEHOLDER).body(body_of("")).unwrap()
    };
    for coding in ["gzip", "deflate", "br", "zstd"] {
        let response = ground.send(ask(coding)).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert!(!response.headers().contains_key("content-encoding"), "{coding}");
        assert_eq!(text_of(response).await, PLACEHOLDER.repeat(1000), "{coding}");
    }
    assert!(ground.seen().iter().all(|seen| seen.headers["authorization"] == VALUE));
    assert!(ground.seen().iter().all(|seen| seen.headers["accept-encoding"] == "identity"));
    // What cannot be decompressed cannot be scanned.
    let response = ground.send(ask("compress")).await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert!(text_of(response).await.contains("answer_compressed"));
}

/// Returns whether a text holds a value, also in lower case or as base64.
fn gives_away(text: &str, value: &str) -> bool {
    let base64 = |before: &str| {
        let encoded = STANDARD_NO_PAD.encode(format!("{before}{value}"));
        encoded[4..encoded.len() - 2].to_owned()
    };
    let lower = text.to_ascii_lowercase().contains(&value.to_ascii_lowercase());
    lower || ["", "x", "xx"].into_iter().any(|before| text.contains(&base64(before)))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_echo_of_a_combined_authorization_gives_no_value_away() {
    let ground = Ground::lay(Plan { second: true, ..Plan::default() }).await;
    let pair = |user: &str, password: &str| STANDARD.encode(format!("{user}:{password}"));
    for rest in [
        pair(PLACEHOLDER, SECOND_PLACEHOLDER),
        pair(SECOND_PLACEHOLDER, PLACEHOLDER),
        // Both alone and in a pair, so that it can be read either way.
        format!("{SECOND_PLACEHOLDER}{}", pair("x", SECOND_PLACEHOLDER)),
        format!("{SECOND_PLACEHOLDER}{}", pair(PLACEHOLDER, SECOND_PLACEHOLDER)),
    ] {
        let asked = format!("Basic {rest}");
        let request = ground.request("GET", "/echo").header("authorization", &asked);
        let response = ground.send(request.body(body_of("")).unwrap()).await;
        assert_eq!(response.headers()["x-echo"], asked.as_str());
        let text = text_of(response).await;
        for value in [VALUE, SECOND] {
            assert!(!gives_away(&text, value), "{rest}: {text}");
        }
        let sent = ground.seen().pop().unwrap().headers["authorization"].clone();
        assert_ne!(sent, asked.as_str(), "the host got values");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_a_coding_is_not_repeated() {
    let ground = Ground::lay(Plan { form: SecretForm::Query, ..Plan::default() }).await;
    for path in ["/packed", "/transfer"] {
        // The host takes the name of the coding from the query.
        let request = ground.request("GET", &format!("{path}?{PLACEHOLDER}"));
        let response = ground.send(request.body(body_of("")).unwrap()).await;
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
        let text = text_of(response).await;
        assert!(text.contains("answer_compressed") && !gives_away(&text, VALUE), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_host_says_when_it_goes_away_is_not_passed_on() {
    // A library would show it escaped, so that no value with quotes or other letters could be found in it.
    let ground = Ground::lay(Plan { goes_away: true, ..Plan::default() }).await;
    let request = hyper::Request::builder()
        .uri(format!("https://{}/", ground.named(crate::ground::HOST)))
        .header("authorization", PLACEHOLDER)
        .body(body_of(""));
    let response = ground.send_http2(request.unwrap()).await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    let text = text_of(response).await;
    assert!(text.contains("detected excessive load"), "{text}");
    assert!(!text.contains("no such user") && !gives_away(&text, VALUE), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_without_a_value_is_reported_and_other_requests_pass() {
    let ground = Ground::lay(Plan { value: Err("it was never set"), ..Plan::default() }).await;
    let request = ground.request("GET", "/echo").header("authorization", PLACEHOLDER);
    let response = ground.send(request.body(body_of("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    let text = text_of(response).await;
    assert!(text.contains("secret set TOKEN") && text.contains("never set"), "{text}");
    let response = ground.send(ground.request("GET", "/echo").body(body_of("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(ground.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_gets_the_value_where_the_form_says_so_and_not_beyond_its_cap() {
    let ground = Ground::lay(Plan { form: SecretForm::Body, ..Plan::default() }).await;
    let send = |text: String| {
        let request = ground.request("POST", "/echo").header("content-type", "application/json");
        ground.send(request.body(body_of(text)).unwrap())
    };
    let response = send(format!("{{\"token\":\"{PLACEHOLDER}\"}}")).await;
    assert!(!text_of(response).await.contains(VALUE));
    assert_eq!(ground.seen()[0].body, format!("{{\"token\":\"{VALUE}\"}}").into_bytes());
    let response = send(format!("{{\"x\":\"{}\"}}", "x".repeat(9 << 20))).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(ground.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_decides_before_anything_is_sent() {
    let ground = Ground::lay(Plan::default()).await;
    let response =
        ground.send(ground.request("GET", "/forbidden/x").body(body_of("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert!(text_of(response).await.contains("test rule"));
    assert!(ground.seen().is_empty());
    assert_eq!(ground.records(1).await[0].refused.as_deref(), Some("it is forbidden"));
}

#[test]
fn ports_of_other_protocols_are_not_ours() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let ground = Ground::lay(Plan::default()).await;
        for (name, port, covered) in [
            (crate::ground::HOST, 443, true),
            ("API.test.example.", 443, true),
            (OTHER, 8443, true),
            (crate::ground::HOST, 22, false),
            ("x.api.test.example", 443, false),
            ("1.2.3.4", 443, false),
            ("", 443, false),
        ] {
            assert_eq!(ground.terminator.covers(name, port), covered, "{name}:{port}");
        }
    });
}
