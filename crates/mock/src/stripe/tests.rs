use serde_json::{Value, json};

use crate::{Answer, Effect, Integration, Match, Mock, MockSpec, Request, state::State};

pub(super) struct Shop {
    mock: Mock,
    last: Option<Answer>,
}

impl Shop {
    fn new() -> Self {
        let stripe = Integration {
            name: "payments".into(),
            hosts: vec!["api.stripe.com".into(), "checkout.stripe.com".into()],
            vendor: None,
        };
        let (mock, problems) =
            Mock::load(MockSpec { integrations: vec![stripe], ..MockSpec::default() });
        assert_eq!(problems, []);
        Self { mock, last: None }
    }

    fn send(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> (u16, Value) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let headers: Vec<(String, Vec<u8>)> = headers
            .iter()
            .chain(&[("content-type", "application/x-www-form-urlencoded")])
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect();
        let host = if path.starts_with("/c/") { "checkout.stripe.com" } else { "api.stripe.com" };
        let request =
            Request { method, host, path, query, headers: &headers, body: body.as_bytes() };
        let now = jiff::Timestamp::from_second(1_800_000_000).unwrap();
        let answer = self.mock.answer(&request, now);
        let tree = serde_json::from_slice(&answer.body.bytes()).unwrap_or_default();
        let status = answer.status;
        self.last = Some(answer);
        (status, tree)
    }

    fn call(&mut self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.send(method, path, body, &[("Authorization", "Bearer sk_test_1")])
    }

    fn post(&mut self, path: &str, body: &str) -> Value {
        let (status, tree) = self.call("POST", path, body);
        assert_eq!(status, 200, "{path}: {tree}");
        tree
    }

    fn get(&mut self, path: &str) -> Value {
        let (status, tree) = self.call("GET", path, "");
        assert_eq!(status, 200, "{path}: {tree}");
        tree
    }

    fn page(&self) -> String {
        String::from_utf8(self.last.as_ref().unwrap().body.bytes()).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let found = self.last.as_ref().unwrap().headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    fn events(&self) -> Vec<&str> {
        self.last
            .as_ref()
            .unwrap()
            .effects
            .iter()
            .map(|Effect::Webhook { kind, .. }| kind.as_str())
            .collect()
    }
}

#[test]
fn a_customer_is_remembered() {
    let mut shop = Shop::new();
    let made = shop.post("/v1/customers", "email=buyer%40example.com&metadata[a]=1&metadata[b]=2");
    let id = made["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("cus_"));
    assert_eq!(shop.events(), ["customer.created"]);
    assert_eq!(shop.get(&format!("/v1/customers/{id}"))["email"], "buyer@example.com");
    let changed = shop.post(&format!("/v1/customers/{id}"), "name=Ann&metadata[a]=&metadata[c]=3");
    assert_eq!(changed["metadata"], json!({ "b": "2", "c": "3" }));
    assert_eq!(shop.get("/v1/customers/search?query=name%3A%27ann%27")["data"][0]["id"], *id);
    let (_, gone) = shop.call("DELETE", &format!("/v1/customers/{id}"), "");
    assert_eq!(gone["deleted"], true);
    let (status, error) = shop.call("GET", &format!("/v1/customers/{id}"), "");
    assert_eq!((status, &error["error"]["code"]), (404, &json!("resource_missing")));
}

#[test]
fn keys_of_live_mode_are_refused_and_never_repeated() {
    let mut shop = Shop::new();
    // "sk_test_1:" in base64.
    for good in ["Bearer sk_test_1", "Basic c2tfdGVzdF8xOg=="] {
        assert_eq!(
            shop.send("GET", "/v1/balance", "", &[("Authorization", good)]).0,
            200,
            "{good}"
        );
    }
    for bad in ["Bearer sk_live_secretsecret", "Bearer nonsense-key", "Basic !!!", "Digest a"] {
        let (status, tree) = shop.send("GET", "/v1/balance", "", &[("Authorization", bad)]);
        assert_eq!(status, 401, "{bad}");
        assert!(
            !tree.to_string().contains("secretsecret")
                && !tree.to_string().contains("nonsense-key")
        );
    }
    assert_eq!(shop.send("GET", "/v1/balance", "", &[]).0, 401);
}

#[test]
fn cards_pay_decline_or_ask() {
    let mut shop = Shop::new();
    let create =
        |card: &str| format!("amount=1690&currency=usd&confirm=true&payment_method={card}");
    let paid = shop.post("/v1/payment_intents", &create("pm_card_visa"));
    assert_eq!(paid["status"], "succeeded");
    assert_eq!(
        shop.events(),
        ["payment_intent.created", "charge.succeeded", "payment_intent.succeeded"]
    );
    let path = format!(
        "/v1/payment_intents/{}?expand[]=latest_charge.balance_transaction&expand[]=payment_method",
        paid["id"].as_str().unwrap()
    );
    let expanded = shop.get(&path);
    assert_eq!(expanded["latest_charge"]["balance_transaction"]["amount"], 1690);
    assert_eq!(expanded["payment_method"]["card"]["last4"], "4242");

    let (status, error) = shop.call(
        "POST",
        "/v1/payment_intents",
        &create("pm_card_chargeDeclinedInsufficientFunds"),
    );
    let error = &error["error"];
    assert_eq!(
        (status, &error["code"], &error["decline_code"]),
        (402, &json!("card_declined"), &json!("insufficient_funds"))
    );
    assert_eq!(error["payment_intent"]["status"], "requires_payment_method");
    let id = error["payment_intent"]["id"].as_str().unwrap().to_owned();
    assert_eq!(shop.events().last(), Some(&"payment_intent.payment_failed"));
    let again =
        shop.post(&format!("/v1/payment_intents/{id}/confirm"), "payment_method=pm_card_visa");
    assert_eq!(again["status"], "succeeded");

    let asks = shop.post(
        "/v1/payment_intents",
        &(create("pm_card_authenticationRequired") + "&return_url=https://shop.example/done?a=1"),
    );
    assert_eq!(asks["status"], "requires_action");
    let url = asks["next_action"]["redirect_to_url"]["url"].as_str().unwrap().to_owned();
    let path = url.strip_prefix("https://checkout.stripe.com").unwrap().to_owned();
    assert_eq!(shop.send("GET", &path, "", &[]).0, 200);
    assert_eq!(shop.send("POST", &path, "action=authenticate", &[]).0, 303);
    assert!(
        shop.header("location")
            .unwrap()
            .starts_with("https://shop.example/done?a=1&payment_intent=pi_")
    );
    let off = create("pm_card_authenticationRequired") + "&off_session=true";
    assert_eq!(
        shop.call("POST", "/v1/payment_intents", &off).1["error"]["code"],
        "authentication_required"
    );
}

#[test]
fn bad_parameters_have_their_codes() {
    let mut shop = Shop::new();
    for (path, body, code) in [
        ("/v1/payment_intents", "currency=usd", "parameter_missing"),
        ("/v1/payment_intents", "amount=x&currency=usd", "parameter_invalid_integer"),
        ("/v1/payment_intents", "amount=10&currency=usd", "amount_too_small"),
        ("/v1/payment_intents", "amount=100&currency=usd&customer=cus_no", "resource_missing"),
        ("/v1/products", "", "parameter_missing"),
        ("/v1/refunds", "payment_intent=pi_no", "resource_missing"),
        ("/v1/refunds", "", "parameter_missing"),
        ("/v1/checkout/sessions", "mode=payment&success_url=javascript:alert(1)", "url_invalid"),
    ] {
        let (status, error) = shop.call("POST", path, body);
        assert!(status >= 400, "{path} {body}");
        assert_eq!(error["error"]["code"], code, "{path} {body}: {error}");
        assert!(shop.last.as_ref().unwrap().effects.is_empty());
    }
    for (number, code) in
        [("4111111111111111", "card_declined"), ("4242424242424241", "incorrect_number")]
    {
        let body = format!("type=card&card[number]={number}&card[exp_month]=1&card[exp_year]=2034");
        assert_eq!(shop.call("POST", "/v1/payment_methods", &body).1["error"]["code"], code);
    }
    assert!(!shop.mock.state().to_value().to_string().contains("4242424242424241"));
}

#[test]
fn the_same_key_has_the_same_answer() {
    let mut shop = Shop::new();
    let headers = [("Authorization", "Bearer sk_test_1"), ("Idempotency-Key", "order-1")];
    let (_, first) = shop.send("POST", "/v1/customers", "email=a@b.example", &headers);
    let (_, second) = shop.send("POST", "/v1/customers", "email=a@b.example", &headers);
    assert_eq!(first["id"], second["id"]);
    assert_eq!(shop.header("idempotent-replayed"), Some("true"));
    assert!(
        shop.last.as_ref().unwrap().effects.is_empty(),
        "an answer that comes again sends nothing"
    );
    let (status, other) = shop.send("POST", "/v1/customers", "email=c@d.example", &headers);
    assert_eq!((status, &other["error"]["type"]), (400, &json!("idempotency_error")));
    assert_eq!(shop.get("/v1/customers")["data"].as_array().unwrap().len(), 1);
}

#[test]
fn lists_have_pages() {
    let mut shop = Shop::new();
    let ids: Vec<String> = (0..5)
        .map(|n| {
            shop.post("/v1/customers", &format!("email=u{n}@b.example"))["id"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let page = shop.get("/v1/customers?limit=2");
    assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&json!(ids[4]), &json!(true)));
    let page = shop.get(&format!("/v1/customers?limit=3&starting_after={}", ids[3]));
    assert_eq!((&page["data"][2]["id"], &page["has_more"]), (&json!(ids[0]), &json!(false)));
    let page = shop.get(&format!("/v1/customers?limit=1&ending_before={}", ids[2]));
    assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&json!(ids[3]), &json!(true)));
    assert_eq!(shop.get("/v1/customers?email=u2@b.example")["data"].as_array().unwrap().len(), 1);
    assert_eq!(shop.call("GET", "/v1/customers?limit=0", "").0, 400);
    assert_eq!(
        shop.get("/v1/events?type=customer.created&limit=100")["data"].as_array().unwrap().len(),
        5
    );
}

const SESSION: &str = "mode=payment&customer_email=buyer@example.com&client_reference_id=A-7\
    &line_items[0][quantity]=2&line_items[0][price_data][currency]=usd\
    &line_items[0][price_data][unit_amount]=500&line_items[0][price_data][product_data][name]=Mug%20%3Cb%3E\
    &line_items[1][quantity]=1&line_items[1][price_data][currency]=usd\
    &line_items[1][price_data][unit_amount]=590&line_items[1][price_data][product_data][name]=Delivery\
    &metadata[order_id]=7&payment_intent_data[metadata][order_id]=7\
    &success_url=https://shop.example/orders/A-7?s={CHECKOUT_SESSION_ID}&cancel_url=https://shop.example/cancelled";

fn session(shop: &mut Shop) -> (String, String) {
    let made = shop.post("/v1/checkout/sessions", SESSION);
    assert_eq!(made["amount_total"], 1590);
    let url = made["url"].as_str().unwrap().strip_prefix("https://checkout.stripe.com").unwrap();
    (made["id"].as_str().unwrap().to_owned(), url.to_owned())
}

#[test]
fn a_shop_is_paid_on_the_hosted_page() {
    let mut shop = Shop::new();
    let (id, page) = session(&mut shop);
    assert_eq!(shop.send("GET", &page, "", &[]).0, 200);
    assert!(
        shop.page().contains("15.90 USD") && shop.page().contains("Mug &#60;b&#62;"),
        "{}",
        shop.page()
    );
    assert!(!shop.page().contains("<b>"));

    assert_eq!(
        shop.send("POST", &page, "action=pay&email=buyer@example.com&card=4000000000000002", &[]).0,
        200
    );
    assert!(shop.page().contains("Your card was declined."));
    let failed = shop.last.as_ref().unwrap().effects.last().cloned();
    let Some(Effect::Webhook { kind, payload, .. }) = failed else { panic!() };
    assert_eq!(
        (kind.as_str(), &payload["data"]["object"]["metadata"]["order_id"]),
        ("payment_intent.payment_failed", &json!("7"))
    );

    let (status, _) = shop.send(
        "POST",
        &page,
        "action=pay&email=buyer@example.com&card=4242+4242+4242+4242",
        &[],
    );
    assert_eq!(status, 303);
    assert_eq!(
        shop.header("location"),
        Some(format!("https://shop.example/orders/A-7?s={id}").as_str())
    );
    assert_eq!(
        shop.events(),
        ["charge.succeeded", "payment_intent.succeeded", "checkout.session.completed"]
    );
    let paid = shop
        .get(&format!("/v1/checkout/sessions/{id}?expand[]=line_items&expand[]=payment_intent"));
    assert_eq!((&paid["status"], &paid["payment_status"]), (&json!("complete"), &json!("paid")));
    assert_eq!(paid["line_items"]["data"].as_array().unwrap().len(), 2);

    let intent = paid["payment_intent"]["id"].as_str().unwrap().to_owned();
    let refund = shop.post("/v1/refunds", &format!("payment_intent={intent}"));
    assert_eq!(refund["amount"], 1590);
    let Some(Effect::Webhook { kind, payload, .. }) = shop.last.as_ref().unwrap().effects.last()
    else {
        panic!()
    };
    let charge = &payload["data"]["object"];
    assert_eq!(
        (kind.as_str(), &charge["refunded"], &charge["metadata"]["order_id"]),
        ("charge.refunded", &json!(true), &json!("7"))
    );
    assert_eq!(
        shop.call("POST", "/v1/refunds", &format!("payment_intent={intent}")).1["error"]["code"],
        "charge_already_refunded"
    );
}

#[test]
fn the_hosted_page_authenticates_cancels_and_expires() {
    let mut shop = Shop::new();
    let (id, page) = session(&mut shop);
    assert_eq!(shop.send("POST", &page, "action=cancel", &[]).0, 303);
    assert_eq!(shop.header("location"), Some("https://shop.example/cancelled"));
    let card = "action=pay&email=a@b.example&card=4000002500003155";
    assert_eq!(shop.send("POST", &page, card, &[]).0, 200);
    assert!(shop.page().contains("Complete authentication"));
    shop.send("POST", &page, "action=refuse", &[]);
    assert!(shop.page().contains("role=\"alert\""));
    shop.send("POST", &page, card, &[]);
    assert_eq!(shop.send("POST", &page, "action=authenticate", &[]).0, 303);
    assert_eq!(shop.events().last(), Some(&"checkout.session.completed"));
    assert_eq!(shop.call("POST", &format!("/v1/checkout/sessions/{id}/expire"), "").0, 400);

    let (id, page) = session(&mut shop);
    shop.post(&format!("/v1/checkout/sessions/{id}/expire"), "");
    assert_eq!(shop.events(), ["checkout.session.expired"]);
    assert_eq!(shop.send("GET", &page, "", &[]).0, 410);
    assert_eq!(shop.send("GET", "/c/pay/cs_test_none", "", &[]).0, 404);
}

#[test]
fn a_card_that_does_not_pay_leaves_a_session_of_any_mode_open() {
    let subscription = "mode=subscription&success_url=https://shop.example/ok&line_items[0][price_data][currency]=usd&line_items[0][price_data][unit_amount]=900&line_items[0][price_data][recurring][interval]=month&line_items[0][price_data][product_data][name]=Plan&line_items[0][quantity]=1";
    let setup = "mode=setup&currency=usd&success_url=https://shop.example/ok";
    for (body, bad) in [
        (subscription, "4000000000000341"),
        (subscription, "4000000000009995"),
        (setup, "4000000000000002"),
    ] {
        let mut shop = Shop::new();
        let made = shop.post("/v1/checkout/sessions", body);
        let id = made["id"].as_str().unwrap().to_owned();
        let page = format!("/c/pay/{id}");
        let pay = |card: &str| format!("action=pay&email=a@b.example&card={card}");
        assert_eq!(shop.send("POST", &page, &pay(bad), &[]).0, 200, "{bad}");
        assert!(shop.page().contains("role=\"alert\""), "{}", shop.page());
        assert!(!shop.events().contains(&"checkout.session.completed"));
        assert_eq!(shop.get(&format!("/v1/checkout/sessions/{id}"))["status"], "open");
        // 3D Secure: refused first, then done.
        let strong = pay("4000002500003155");
        shop.send("POST", &page, &strong, &[]);
        assert!(shop.page().contains("Complete authentication"), "{}", shop.page());
        assert_eq!(shop.send("POST", &page, "action=refuse", &[]).0, 200);
        assert!(shop.page().contains("role=\"alert\""), "{}", shop.page());
        shop.send("POST", &page, &strong, &[]);
        assert_eq!(shop.send("POST", &page, "action=authenticate", &[]).0, 303);
        assert_eq!(shop.events().last(), Some(&"checkout.session.completed"));
        let done = shop.get(&format!("/v1/checkout/sessions/{id}"));
        assert_eq!(done["status"], "complete");
        if let Some(subscription) = done["subscription"].as_str() {
            let found = shop.get(&format!("/v1/subscriptions/{subscription}"));
            assert_eq!(found["status"], "active");
        }
    }
}

#[test]
fn promotion_codes_name_their_coupon_in_either_way() {
    let mut shop = Shop::new();
    let coupon = shop.post("/v1/coupons", "percent_off=25&duration=once");
    let coupon = coupon["id"].as_str().unwrap().to_owned();
    let new = format!("promotion[type]=coupon&promotion[coupon]={coupon}&code=NEW");
    for body in [new, format!("coupon={coupon}&code=OLD")] {
        let code = shop.post("/v1/promotion_codes", &body);
        assert_eq!(code["promotion"], json!({ "type": "coupon", "coupon": coupon }));
        assert_eq!(code["coupon"]["percent_off"], 25.0);
        let session =
            format!("{SESSION}&discounts[0][promotion_code]={}", code["id"].as_str().unwrap());
        let made = shop.post("/v1/checkout/sessions", &session);
        assert_eq!(made["total_details"]["amount_discount"], 398);
    }
    assert_eq!(shop.call("POST", "/v1/promotion_codes", "code=X").0, 400);
}

#[test]
fn parameters_that_stripe_does_not_know_are_refused() {
    let mut shop = Shop::new();
    let (status, tree) = shop.call("POST", "/v1/customers", "emial=a@b.example");
    assert_eq!((status, &tree["error"]["code"]), (400, &json!("parameter_unknown")));
    assert_eq!(tree["error"]["message"], "Received unknown parameter: emial. Did you mean email?");
    let id = shop.post("/v1/customers", "email=a@b.example&expand[]=tax")["id"].clone();
    let path = format!("/v1/customers/{}", id.as_str().unwrap());
    assert_eq!(shop.call("POST", &path, "colour=red").1["error"]["param"], "colour");
    // A kind without listed parameters stores all of them.
    let endpoint = "url=https://shop.example/hook&enabled_events[]=*&own=1";
    assert_eq!(shop.post("/v1/webhook_endpoints", endpoint)["own"], "1");
}

#[test]
fn endpoints_that_an_app_registers_hear_of_what_they_want() {
    let mut shop = Shop::new();
    let body = "url=http://127.0.0.1:3002/hook&enabled_events[]=customer.created";
    let made = shop.post("/v1/webhook_endpoints", body);
    let secret = made["secret"].as_str().unwrap().to_owned();
    let other = "url=http://127.0.0.1:3002/other&enabled_events[]=charge.failed";
    shop.post("/v1/webhook_endpoints", other);
    shop.post("/v1/customers", "email=a@b.example");
    let effects = &shop.last.as_ref().unwrap().effects;
    let to: Vec<_> =
        effects.iter().map(|Effect::Webhook { endpoint, .. }| endpoint.clone()).collect();
    let url = "http://127.0.0.1:3002/hook".to_owned();
    assert_eq!(to, [None, Some(crate::Endpoint { url, secret })]);
    let path = format!("/v1/webhook_endpoints/{}", made["id"].as_str().unwrap());
    shop.post(&path, "disabled=true");
    shop.post("/v1/customers", "email=c@b.example");
    assert_eq!(shop.last.as_ref().unwrap().effects.len(), 1);
}

#[test]
fn subscriptions_bill_their_first_period() {
    let mut shop = Shop::new();
    let price = shop.post(
        "/v1/prices",
        "currency=usd&unit_amount=900&recurring[interval]=month&product_data[name]=Plan",
    );
    let price = price["id"].as_str().unwrap().to_owned();
    let customer =
        shop.post("/v1/customers", "email=a@b.example")["id"].as_str().unwrap().to_owned();
    let body = format!("customer={customer}&items[0][price]={price}");
    assert_eq!(
        shop.call("POST", "/v1/subscriptions", &body).1["error"]["code"],
        "resource_missing"
    );
    let method =
        shop.post("/v1/payment_methods/pm_card_visa/attach", &format!("customer={customer}"));
    let method = method["id"].as_str().unwrap().to_owned();
    let body = format!("{body}&default_payment_method={method}&expand[]=latest_invoice");
    let made = shop.post("/v1/subscriptions", &body);
    assert_eq!(
        (&made["status"], &made["latest_invoice"]["status"]),
        (&json!("active"), &json!("paid"))
    );
    assert!(shop.events().contains(&"invoice.paid"));
    let id = made["id"].as_str().unwrap();
    let (_, ended) = shop.call("DELETE", &format!("/v1/subscriptions/{id}"), "");
    assert_eq!(ended["status"], "canceled");

    shop.post("/v1/invoiceitems", &format!("customer={customer}&amount=700&currency=usd"));
    let invoice = shop.post("/v1/invoices", &format!("customer={customer}"));
    assert_eq!(invoice["amount_due"], 700);
    let id = invoice["id"].as_str().unwrap();
    let paid = shop.post(&format!("/v1/invoices/{id}/pay"), &format!("payment_method={method}"));
    assert_eq!(paid["status"], "paid");
}

#[test]
fn two_runs_that_do_the_same_have_the_same_ids_and_a_state_goes_on() {
    let (mut one, mut two) = (Shop::new(), Shop::new());
    let (a, _) = session(&mut one);
    let (b, _) = session(&mut two);
    assert_eq!(a, b);
    let state = State::from_value(one.mock.state().to_value()).unwrap();
    let mut later = Shop::new();
    later.mock = later.mock.with_state(state);
    assert_eq!(later.get(&format!("/v1/checkout/sessions/{a}"))["amount_total"], 1590);
    assert_ne!(session(&mut later).0, a);
}

#[test]
fn what_stripe_has_and_the_mock_lacks_is_reported_clearly() {
    let mut shop = Shop::new();
    let (status, told) = shop.call("GET", "/v1/customer", "");
    assert_eq!(status, 501);
    assert!(told.to_string().contains("/v1/customers"), "{told}");
    let Match::Unmatched { nearest, .. } = &shop.last.as_ref().unwrap().matched else { panic!() };
    assert!(nearest[0].fixture.starts_with("stripe: GET /v1/"), "{nearest:?}");
}
