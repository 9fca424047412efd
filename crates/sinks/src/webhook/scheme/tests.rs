use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey};

use super::*;
use crate::webhook::keys::public_key;

const BODY: &[u8] = br#"{"test": 2432232314}"#;

fn signed(scheme: &Scheme, secrets: &[&str], body: &[u8]) -> Vec<(String, String)> {
    let at = Timestamp::from_second(1_614_265_330).unwrap();
    let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    sign(
        scheme,
        secrets,
        &ToSign { url: "https://mycompany.com/myapp.php?foo=1&bar=2", body, at, id },
    )
}

fn value(headers: &[(String, String)], name: &str) -> String {
    headers.iter().find(|(other, _)| other == name).expect(name).1.clone()
}

/// Values from the vendors' own documentation.
#[test]
fn signatures_are_those_that_vendors_document() {
    let svix = signed(&Scheme::Svix, &["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], BODY);
    assert_eq!(value(&svix, "svix-signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    let github = signed(&Scheme::GitHub, &["It's a Secret to Everybody"], b"Hello, World!");
    assert_eq!(
        value(&github, "x-hub-signature-256"),
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    );
    let form = b"CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212";
    let twilio = signed(&Scheme::Twilio, &["12345"], form);
    assert_eq!(value(&twilio, "x-twilio-signature"), "RSOYDt4T1cUTdK1PDd93/VVr8B8=");
}

#[test]
fn slack_signs_what_its_documentation_signs() {
    let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let at = Timestamp::from_second(1_531_420_618).unwrap();
    let what = ToSign { url: "", body, at, id: "" };
    let found = sign(&Scheme::Slack, &["8f742231b10e8888abcd99yyyzzz85a5"], &what);
    assert_eq!(
        value(&found, "x-slack-signature"),
        "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    );
}

#[test]
fn signatures_of_keys_verify_with_the_public_key() {
    let discord = signed(&Scheme::Discord, &["secret"], BODY);
    let key = unhex(&public_key(&Scheme::Discord, "secret").unwrap());
    let message = [value(&discord, "x-signature-timestamp").as_bytes(), BODY].concat();
    let signature = unhex(&value(&discord, "x-signature-ed25519"));
    UnparsedPublicKey::new(&ED25519, key).verify(&message, &signature).unwrap();

    let sendgrid = signed(&Scheme::SendGrid, &["secret"], BODY);
    let name = |end: &str| value(&sendgrid, &format!("x-twilio-email-event-webhook-{end}"));
    let key = STANDARD.decode(public_key(&Scheme::SendGrid, "secret").unwrap()).unwrap();
    let message = [name("timestamp").as_bytes(), BODY].concat();
    let signature = STANDARD.decode(name("signature")).unwrap();
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key).verify(&message, &signature).unwrap();
}

fn unhex(text: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(pair).collect()
}

#[test]
fn several_secrets_sign_where_the_scheme_has_room_for_it() {
    for (scheme, name, separator, count) in [
        (Scheme::Stripe, "stripe-signature", ",v1=", 3),
        (Scheme::Standard, "webhook-signature", "v1,", 3),
        (Scheme::Shopify, "x-shopify-hmac-sha256", "=", 2),
    ] {
        let found = value(&signed(&scheme, &["whsec_bmV3", "whsec_b2xk"], BODY), name);
        assert_eq!(found.split(separator).count(), count, "{found}");
    }
}

#[test]
fn a_generic_one_is_written_as_asked() {
    let form =
        HmacForm { header: "X-Sign".into(), prefix: String::new(), encoding: Encoding::Base64 };
    let base64 = signed(&Scheme::Hmac(form), &["k"], BODY);
    let hex = signed(&Scheme::find("hmac").unwrap(), &["k"], BODY);
    assert_eq!(base64[0].0, "x-sign");
    assert!(hex[0].1.starts_with("sha256=") && hex[0].1.len() == 7 + 64);
}

#[test]
fn a_word_leads_to_its_scheme_and_back() {
    for (word, scheme) in WORDS {
        assert_eq!(Scheme::find(word).as_ref(), Some(&scheme));
        assert_eq!(scheme.as_str(), word);
    }
    assert_eq!(Scheme::find("hmac").unwrap().as_str(), "hmac");
    assert_eq!(Scheme::find("none"), None);
}
