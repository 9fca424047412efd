//! Test cards, by number and by token, and the outcome of a payment with each.

/// How a card behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    Pays,
    /// Requires authentication (3D Secure), then pays.
    Authenticates,
    /// Is declined, with code and decline code; also when it is attached.
    Declines(&'static str, Option<&'static str>),
    /// Can be attached, but is declined when charged.
    FailsLater,
}

/// A test card.
#[derive(Clone, Copy, Debug)]
pub(super) struct Card {
    pub number: &'static str,
    /// The part after `pm_card_` and `tok_`.
    pub token: &'static str,
    pub brand: &'static str,
    pub behaviour: Behaviour,
}

use Behaviour::{Authenticates, Declines, FailsLater, Pays};

const fn card(
    number: &'static str,
    token: &'static str,
    brand: &'static str,
    behaviour: Behaviour,
) -> Card {
    Card { number, token, brand, behaviour }
}

const fn declined(number: &'static str, token: &'static str, reason: &'static str) -> Card {
    card(number, token, "visa", Declines("card_declined", Some(reason)))
}

/// <https://docs.stripe.com/testing>
const CARDS: [Card; 28] = [
    card("4242424242424242", "visa", "visa", Pays),
    card("4000056655665556", "visa_debit", "visa", Pays),
    card("5555555555554444", "mastercard", "mastercard", Pays),
    card("5200828282828210", "mastercard_debit", "mastercard", Pays),
    card("378282246310005", "amex", "amex", Pays),
    card("6011111111111117", "discover", "discover", Pays),
    card("3056930009020004", "diners", "diners", Pays),
    card("3566002020360505", "jcb", "jcb", Pays),
    card("6200000000000005", "unionpay", "unionpay", Pays),
    card("4000000000000077", "bypassPending", "visa", Pays),
    declined("4000000000000002", "chargeDeclined", "generic_decline"),
    declined("4000000000009995", "chargeDeclinedInsufficientFunds", "insufficient_funds"),
    declined("4000000000009987", "chargeDeclinedLostCard", "lost_card"),
    declined("4000000000009979", "chargeDeclinedStolenCard", "stolen_card"),
    declined("4000000000006975", "chargeDeclinedVelocityLimitExceeded", "card_velocity_exceeded"),
    declined("4100000000000019", "radarBlock", "fraudulent"),
    card("4000000000000069", "chargeDeclinedExpiredCard", "visa", Declines("expired_card", None)),
    card("4000000000000127", "chargeDeclinedIncorrectCvc", "visa", Declines("incorrect_cvc", None)),
    card(
        "4000000000000119",
        "chargeDeclinedProcessingError",
        "visa",
        Declines("processing_error", None),
    ),
    card("4000000000000341", "chargeCustomerFail", "visa", FailsLater),
    card("4000002500003155", "authenticationRequiredOnSetup", "visa", Authenticates),
    card("4000002760003184", "authenticationRequired", "visa", Authenticates),
    card("4000000000003220", "threeDSecure2Required", "visa", Authenticates),
    card("4000000000003063", "threeDSecureRequired", "visa", Authenticates),
    card("4000008260003178", "authenticationRequiredInsufficientFunds", "visa", Authenticates),
    card("4000000000003055", "threeDSecureOptional", "visa", Pays),
    card("4000000760000002", "br", "visa", Pays),
    card("4000008260000000", "gb", "visa", Pays),
];

/// Returns the card with a number, ignoring spaces and dashes.
pub(super) fn by_number(number: &str) -> Option<Card> {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    CARDS.into_iter().find(|card| card.number == digits)
}

/// Returns the card for `pm_card_visa` or `tok_visa`.
pub(super) fn by_token(token: &str) -> Option<Card> {
    let name = token.strip_prefix("pm_card_").or_else(|| token.strip_prefix("tok_"))?;
    CARDS.into_iter().find(|card| card.token == name)
}

/// Returns whether a number could be a card number, by its check digit.
pub(super) fn is_plausible(number: &str) -> bool {
    let digits: Vec<u32> = number.chars().filter_map(|c| c.to_digit(10)).collect();
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match at % 2 {
            0 => *digit,
            _ => (digit * 2) / 10 + (digit * 2) % 10,
        })
        .sum();
    (12..=19).contains(&digits.len()) && sum.is_multiple_of(10)
}

/// Returns Stripe's message for a decline.
pub(super) fn message(code: &str, decline_code: Option<&str>) -> &'static str {
    match (code, decline_code) {
        (_, Some("insufficient_funds")) => "Your card has insufficient funds.",
        ("expired_card", _) => "Your card has expired.",
        ("incorrect_cvc", _) => "Your card's security code is incorrect.",
        ("processing_error", _) => {
            "An error occurred while processing your card. Try again in a little bit."
        }
        ("authentication_required", _) => {
            "Your card was declined. This transaction requires authentication."
        }
        _ => "Your card was declined.",
    }
}
