//! OAuth logins: a token that expires, and how it is renewed on this host. Pure: files and answers are passed in as
//! values.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Where a tool keeps an OAuth login, and how it is renewed. Texts that begin with `/` are JSON pointers into
/// the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) file: &'static str,
    pub(super) access: &'static str,
    pub(super) refresh: &'static str,
    id: Option<&'static str>,
    expires: Expiry,
    /// The account that requests send beside the token, and the variable for it in the room.
    pub(super) account: Option<(&'static str, &'static str)>,
    /// Where the tool stores the time of the renewal.
    stamp: Option<&'static str>,
    pub(super) url: &'static str,
    pub(super) client: Client,
}

#[derive(Debug, PartialEq, Eq)]
enum Expiry {
    Milliseconds(&'static str),
    /// The token is a JSON Web Token that contains its expiry.
    InToken,
}

/// The OAuth client that requests the new token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// A public client id.
    Named(&'static str),
    /// The client that the login was created for, from its identity token.
    OfLogin,
    /// The client of this program, whose id and secret are in its own files.
    Installed(&'static str),
}

pub(super) const CLAUDE: Grant = Grant {
    file: ".claude/.credentials.json",
    access: "/claudeAiOauth/accessToken",
    refresh: "/claudeAiOauth/refreshToken",
    id: None,
    expires: Expiry::Milliseconds("/claudeAiOauth/expiresAt"),
    account: None,
    stamp: None,
    url: "https://platform.claude.com/v1/oauth/token",
    client: Client::Named("9d1c250a-e61b-44d9-88ed-5944d1962f5e"),
};

pub(super) const CHATGPT: Grant = Grant {
    file: ".codex/auth.json",
    access: "/tokens/access_token",
    refresh: "/tokens/refresh_token",
    id: Some("/tokens/id_token"),
    expires: Expiry::InToken,
    account: Some(("/tokens/account_id", "CODEX_CHATGPT_ACCOUNT")),
    stamp: Some("/last_refresh"),
    url: "https://auth.openai.com/oauth/token",
    client: Client::OfLogin,
};

pub(super) const GOOGLE: Grant = Grant {
    file: ".gemini/oauth_creds.json",
    access: "/access_token",
    refresh: "/refresh_token",
    id: Some("/id_token"),
    expires: Expiry::Milliseconds("/expiry_date"),
    account: None,
    stamp: None,
    url: "https://oauth2.googleapis.com/token",
    client: Client::Installed("gemini"),
};

impl Grant {
    /// Returns when a file's token expires.
    pub(super) fn expires(&self, file: &Value) -> Option<Timestamp> {
        match self.expires {
            Expiry::Milliseconds(place) => {
                Timestamp::from_millisecond(file.pointer(place)?.as_i64()?).ok()
            }
            Expiry::InToken => {
                let claims = claims(file.pointer(self.access)?.as_str()?)?;
                Timestamp::from_second(claims["exp"].as_i64()?).ok()
            }
        }
    }

    /// Returns the id of the client that the login was created for.
    pub(super) fn client_of(&self, file: &Value) -> Option<String> {
        let claims = claims(file.pointer(self.id?)?.as_str()?)?;
        let audience = match &claims["aud"] {
            Value::Array(all) => all.first()?.clone(),
            other => other.clone(),
        };
        audience.as_str().map(str::to_owned)
    }

    /// Returns the request that renews the login: the type of its body, and the body.
    pub(super) fn request(
        &self,
        file: &Value,
        client: &str,
        secret: Option<&str>,
    ) -> Option<(&'static str, String)> {
        let refresh = file.pointer(self.refresh)?.as_str().filter(|token| !token.is_empty())?;
        let fields =
            [("grant_type", "refresh_token"), ("refresh_token", refresh), ("client_id", client)];
        let fields = fields.into_iter().chain(secret.map(|secret| ("client_secret", secret)));
        Some(match self.client {
            Client::Installed(_) => {
                let pairs = fields.map(|(name, value)| format!("{name}={}", encoded(value)));
                ("application/x-www-form-urlencoded", pairs.collect::<Vec<_>>().join("&"))
            }
            _ => {
                let all: Map<String, Value> =
                    fields.map(|(name, value)| (name.to_owned(), json!(value))).collect();
                ("application/json", Value::Object(all).to_string())
            }
        })
    }

    /// Returns the file updated with the vendor's answer; `None` if the answer contains no token.
    pub(super) fn renewed(&self, file: &Value, answer: &Value, now: Timestamp) -> Option<Value> {
        let token = answer["access_token"].as_str().filter(|token| !token.is_empty())?;
        let mut file = file.clone();
        *file.pointer_mut(self.access)? = json!(token);
        if let Some(refresh) = answer["refresh_token"].as_str() {
            *file.pointer_mut(self.refresh)? = json!(refresh);
        }
        if let (Some(place), Some(id)) = (self.id, answer["id_token"].as_str())
            && let Some(own) = file.pointer_mut(place)
        {
            *own = json!(id);
        }
        if let (Expiry::Milliseconds(place), Some(seconds)) =
            (&self.expires, answer["expires_in"].as_i64())
        {
            let until = now.as_millisecond().saturating_add(seconds.saturating_mul(1000));
            *file.pointer_mut(place)? = json!(until);
        }
        if let Some(stamp) = self.stamp.and_then(|place| file.pointer_mut(place)) {
            *stamp = json!(now.to_string());
        }
        Some(file)
    }
}

/// Returns the claims of a JSON Web Token without verifying them: it is the user's own.
fn claims(token: &str) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Finds a client's id and secret in a program's code: `OAUTH_CLIENT_ID = "…"`.
pub(super) fn client_in(code: &str) -> Option<(String, String)> {
    let after = |name: &str| {
        let (_, rest) = code.split_once(&format!("{name} = \""))?;
        let (value, _) = rest.split_once('"')?;
        let is_value = !value.is_empty() && value.len() < 200 && value.is_ascii();
        is_value.then(|| value.to_owned())
    };
    Some((after("OAUTH_CLIENT_ID")?, after("OAUTH_CLIENT_SECRET")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &Value) -> String {
        format!("e30.{}.x", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn a_login_by_chatgpt_is_renewed() {
        let file = json!({
            "tokens": { "id_token": token(&json!({ "aud": ["app_1"] })), "access_token": token(&json!({ "exp": 1000 })),
                        "refresh_token": "r1", "account_id": "acc" },
            "last_refresh": "then", "other": 1,
        });
        assert_eq!(CHATGPT.expires(&file), Timestamp::from_second(1000).ok());
        let client = CHATGPT.client_of(&file).unwrap();
        assert_eq!(client, "app_1");
        let (kind, body) = CHATGPT.request(&file, &client, None).unwrap();
        let sent: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((kind, sent["refresh_token"].as_str()), ("application/json", Some("r1")));
        let answer =
            json!({ "access_token": token(&json!({ "exp": 9000 })), "refresh_token": "r2" });
        let now = Timestamp::from_second(2000).unwrap();
        let new = CHATGPT.renewed(&file, &answer, now).unwrap();
        assert_eq!(CHATGPT.expires(&new), Timestamp::from_second(9000).ok());
        assert_eq!((&new["tokens"]["refresh_token"], &new["other"]), (&json!("r2"), &json!(1)));
        assert_eq!(new["last_refresh"], json!(now.to_string()));
    }

    #[test]
    fn a_login_by_google_is_renewed_as_a_form() {
        let file = json!({ "access_token": "a", "refresh_token": "1//r+", "expiry_date": 5 });
        let (kind, body) = GOOGLE.request(&file, "c", Some("s")).unwrap();
        assert_eq!(kind, "application/x-www-form-urlencoded");
        let wanted =
            "grant_type=refresh_token&refresh_token=1%2F%2Fr%2B&client_id=c&client_secret=s";
        assert_eq!(body, wanted);
        let answer = json!({ "access_token": "b", "expires_in": 3600 });
        let new = GOOGLE.renewed(&file, &answer, Timestamp::from_second(10).unwrap()).unwrap();
        assert_eq!(
            new,
            json!({ "access_token": "b", "refresh_token": "1//r+", "expiry_date": 3_610_000 })
        );
    }

    #[test]
    fn nonsense_renews_nothing() {
        let file = json!({ "access_token": "a", "refresh_token": "" });
        assert_eq!(GOOGLE.request(&file, "c", None), None);
        assert_eq!(
            GOOGLE.renewed(&file, &json!({ "error": "invalid_grant" }), Timestamp::UNIX_EPOCH),
            None
        );
        assert_eq!(
            GOOGLE.renewed(&json!([]), &json!({ "access_token": "b" }), Timestamp::UNIX_EPOCH),
            None
        );
        assert_eq!(CHATGPT.expires(&json!({ "tokens": { "access_token": "opaque" } })), None);
        assert_eq!(client_in("var OAUTH_CLIENT_ID = \"\";"), None);
        let code = "var OAUTH_CLIENT_ID = \"id\";\nvar OAUTH_CLIENT_SECRET = \"se\";";
        assert_eq!(client_in(code), Some(("id".to_owned(), "se".to_owned())));
    }
}
