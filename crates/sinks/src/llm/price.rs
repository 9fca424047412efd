//! Prices of real models, in dollars per million tokens. Pure.
//!
//! The vendors' list prices for models that tests use. An unlisted model counts as more expensive
//! than all of them, unless the config states its price: a cap must not be exceeded because a guess
//! was too low.

use super::ask::Asked;

/// The assumed output of a call that sets no limit.
const UNLIMITED: u64 = 16_384;

/// The maximum price of one generated image.
const PICTURE: f64 = 0.3;

/// The price of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Per million input tokens.
    pub input: f64,
    /// Per million output tokens.
    pub output: f64,
}

/// The assumed price of an unknown model.
const UNKNOWN: Price = Price { input: 150.0, output: 600.0 };

const LISTED: [(&str, f64, f64); 26] = [
    ("gpt-5", 1.25, 10.0),
    ("gpt-5-mini", 0.25, 2.0),
    ("gpt-5-nano", 0.05, 0.4),
    ("gpt-4.1", 2.0, 8.0),
    ("gpt-4.1-mini", 0.4, 1.6),
    ("gpt-4.1-nano", 0.1, 0.4),
    ("gpt-4o", 5.0, 15.0),
    ("gpt-4o-mini", 0.15, 0.6),
    ("gpt-3.5-turbo", 0.5, 1.5),
    ("o3", 2.0, 8.0),
    ("o3-mini", 1.1, 4.4),
    ("o4-mini", 1.1, 4.4),
    ("text-embedding-3-small", 0.02, 0.0),
    ("text-embedding-3-large", 0.13, 0.0),
    ("text-embedding-ada-002", 0.1, 0.0),
    ("omni-moderation", 0.0, 0.0),
    ("claude-3-haiku", 0.25, 1.25),
    ("claude-3-5-haiku", 0.8, 4.0),
    ("claude-haiku-4-5", 1.0, 5.0),
    ("claude-sonnet-4", 6.0, 22.5),
    ("claude-sonnet-4-5", 6.0, 22.5),
    ("gemini-2.0-flash", 0.1, 0.4),
    ("gemini-2.0-flash-lite", 0.075, 0.3),
    ("gemini-2.5-flash", 1.0, 2.5),
    ("gemini-2.5-flash-lite", 0.3, 0.4),
    ("gemini-2.5-pro", 2.5, 15.0),
];

/// Returns the price of a model: from the config, from the list, or more than any of them.
pub fn of(model: &str, declared: (Option<f64>, Option<f64>)) -> Price {
    let listed = LISTED.iter().find(|(name, ..)| is_version_of(model, name));
    let known =
        listed.map_or(UNKNOWN, |(_, input, output)| Price { input: *input, output: *output });
    Price { input: declared.0.unwrap_or(known.input), output: declared.1.unwrap_or(known.output) }
}

/// Returns whether a model is the listed one, or a dated version of it. Any other suffix is another
/// model.
fn is_version_of(model: &str, listed: &str) -> bool {
    let Some(rest) = model.strip_prefix(listed) else { return false };
    let is_date = |part: &str| part.len() != 1 && part.bytes().all(|byte| byte.is_ascii_digit());
    rest.is_empty()
        || rest
            .strip_prefix('-')
            .is_some_and(|rest| rest == "latest" || rest.split('-').all(is_date))
}

impl Price {
    /// Returns the cost of some tokens.
    pub fn cost(self, input: u64, output: u64) -> f64 {
        (input as f64 * self.input + output as f64 * self.output) / 1e6
    }

    /// Returns the maximum cost of a call, as far as the request tells.
    pub fn most(self, asked: &Asked, answers: u64) -> f64 {
        if asked.endpoint == "images.generations" {
            return PICTURE * answers as f64;
        }
        let output = asked.most_tokens.unwrap_or(UNLIMITED).saturating_mul(answers);
        self.cost(asked.input_tokens(), output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_is_not_listed_costs_more_than_any() {
        let output = |model: &str| of(model, (None, None)).output;
        assert_eq!(output("gpt-4o-mini"), 0.6);
        assert_eq!(output("gpt-4o-mini-2024-07-18"), 0.6);
        assert_eq!(output("claude-haiku-4-5-20251001"), 5.0);
        for other in
            ["gpt-5-pro", "gpt-5.9", "gpt-4o-audio-preview", "mine", "claude-sonnet-4-9", ""]
        {
            assert_eq!(output(other), UNKNOWN.output, "{other}");
        }
        assert_eq!(of("mine", (Some(0.1), Some(0.2))), Price { input: 0.1, output: 0.2 });
    }

    #[test]
    fn a_call_without_a_limit_may_cost_what_a_long_answer_does() {
        let price = Price { input: 1.0, output: 2.0 };
        let mut asked = Asked { prompt: "x".repeat(4000), ..Asked::default() };
        assert!(price.most(&asked, 1) > 0.03);
        asked.most_tokens = Some(10);
        assert!((price.most(&asked, 2) - 0.00104).abs() < 1e-9);
    }
}
