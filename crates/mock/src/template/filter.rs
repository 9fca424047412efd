//! Filters of templates.

use base64::{Engine, prelude::BASE64_STANDARD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Number, Value};

use super::{RenderError, evaluate::text_of};

/// A filter, by its name in templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    Default,
    Json,
    Text,
    Number,
    Lower,
    Upper,
    Url,
    Base64,
    Length,
    Plus,
    Times,
    Round,
    Pad,
}

impl Filter {
    pub(super) const NAMES: [&str; 13] = [
        "default", "json", "text", "number", "lower", "upper", "url", "base64", "length", "plus",
        "times", "round", "pad",
    ];

    const ALL: [Self; 13] = [
        Self::Default,
        Self::Json,
        Self::Text,
        Self::Number,
        Self::Lower,
        Self::Upper,
        Self::Url,
        Self::Base64,
        Self::Length,
        Self::Plus,
        Self::Times,
        Self::Round,
        Self::Pad,
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        let place = Self::NAMES.iter().position(|known| *known == name)?;
        Some(Self::ALL[place])
    }

    pub(super) fn takes_argument(self) -> bool {
        matches!(self, Self::Default | Self::Plus | Self::Times | Self::Round | Self::Pad)
    }

    fn name(self) -> &'static str {
        let place = Self::ALL.iter().position(|known| *known == self);
        place.map_or("", |place| Self::NAMES[place])
    }

    /// Applies the filter. `default` does nothing here: it applies to missing values.
    pub(super) fn apply(
        self,
        value: Value,
        argument: Option<&Value>,
    ) -> Result<Value, RenderError> {
        let text = |value: &Value| text_of(value);
        Ok(match self {
            Self::Default => value,
            Self::Json => Value::String(value.to_string()),
            Self::Text => Value::String(text(&value)),
            Self::Number => self.number(self.figure(&value)?)?,
            Self::Lower => Value::String(text(&value).to_lowercase()),
            Self::Upper => Value::String(text(&value).to_uppercase()),
            Self::Url => {
                Value::String(utf8_percent_encode(&text(&value), NON_ALPHANUMERIC).to_string())
            }
            Self::Base64 => Value::String(BASE64_STANDARD.encode(text(&value))),
            Self::Length => Value::from(match &value {
                Value::Array(items) => items.len(),
                Value::Object(entries) => entries.len(),
                other => text(other).chars().count(),
            }),
            Self::Plus => self.number(self.figure(&value)? + self.argument(argument)?)?,
            Self::Times => self.number(self.figure(&value)? * self.argument(argument)?)?,
            Self::Round => {
                let digits = self.argument(argument)?.clamp(0.0, 9.0);
                let scale = 10f64.powf(digits.floor());
                self.number((self.figure(&value)? * scale).round() / scale)?
            }
            Self::Pad => {
                let width = self.argument(argument)?.clamp(0.0, 64.0);
                let missing = (0..64).take_while(|n| f64::from(*n) < width).count();
                let text = text(&value);
                let zeros = "0".repeat(missing.saturating_sub(text.chars().count()));
                Value::String(zeros + &text)
            }
        })
    }

    fn argument(self, argument: Option<&Value>) -> Result<f64, RenderError> {
        self.figure(argument.unwrap_or(&Value::Null))
    }

    fn figure(self, value: &Value) -> Result<f64, RenderError> {
        let figure = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => {
                text.trim().parse().ok().filter(|number: &f64| number.is_finite())
            }
            _ => None,
        };
        figure.ok_or_else(|| self.unfit(value))
    }

    /// Builds a number, without a fraction if it is whole.
    fn number(self, figure: f64) -> Result<Value, RenderError> {
        #[expect(clippy::cast_possible_truncation, reason = "only within what f64 counts exactly")]
        if figure.fract() == 0.0 && figure.abs() < 9e15 {
            return Ok(Value::from(figure as i64));
        }
        let number = Number::from_f64(figure).map(Value::Number);
        number.ok_or_else(|| self.unfit(&Value::Null))
    }

    fn unfit(self, value: &Value) -> RenderError {
        let found = match value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "this number",
            Value::String(_) => "a text that is not a number",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        RenderError::Unfit { filter: self.name(), found: found.to_owned() }
    }
}
