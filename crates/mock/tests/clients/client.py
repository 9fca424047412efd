import os
import sys

sys.path.insert(0, "py")
import stripe

base = "http://127.0.0.1:" + os.environ["API_STRIPE_COM"]
client = stripe.StripeClient("sk_test_acme", base_addresses={"api": base}, max_network_retries=0)
v1 = client.v1

customer = v1.customers.create({"email": "buyer@example.com", "metadata": {"a": "1"}})
assert v1.customers.retrieve(customer.id).email == "buyer@example.com"
for n in range(3):
    v1.customers.create({"email": f"u{n}@example.com"})
assert len(list(v1.customers.list({"limit": 2}).auto_paging_iter())) == 4
intent = v1.payment_intents.create(
    {"amount": 1690, "currency": "usd", "payment_method": "pm_card_visa", "confirm": True, "expand": ["latest_charge"]}
)
assert intent.status == "succeeded" and intent.latest_charge.paid
try:
    v1.payment_intents.create({"amount": 1690, "currency": "usd", "payment_method": "pm_card_chargeDeclined", "confirm": True})
    raise SystemExit("a declined card pays")
except stripe.CardError as error:
    assert error.code == "card_declined" and error.http_status == 402
try:
    v1.customers.retrieve("cus_nobody")
    raise SystemExit("nobody is found")
except stripe.InvalidRequestError as error:
    assert error.code == "resource_missing"
try:
    stripe.StripeClient("sk_live_no", base_addresses={"api": base}, max_network_retries=0).v1.balance.retrieve()
    raise SystemExit("a live key is taken")
except stripe.AuthenticationError:
    pass
options = {"idempotency_key": "k1"}
first = v1.customers.create({"email": "k@example.com"}, options)
assert v1.customers.create({"email": "k@example.com"}, options).id == first.id
try:
    v1.customers.create({"email": "z@example.com"}, options)
    raise SystemExit("a key is used twice")
except stripe.IdempotencyError:
    pass
session = v1.checkout.sessions.create(
    {
        "mode": "payment",
        "success_url": "https://shop.example/ok",
        "line_items": [
            {"quantity": 1, "price_data": {"currency": "usd", "unit_amount": 700, "product_data": {"name": "Mug"}}}
        ],
    }
)
assert session.amount_total == 700 and session.url.startswith("https://checkout.stripe.com/")
assert v1.checkout.sessions.expire(session.id).status == "expired"
refund = v1.refunds.create({"payment_intent": intent.id, "amount": 690})
assert refund.amount == 690
assert v1.events.list({"type": "charge.refunded"}).data[0].data.object["amount_refunded"] == 690
print("done")
