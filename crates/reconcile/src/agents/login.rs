//! Logins that a tool reads from a file or from several variables: the room only has placeholders.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::Failure;
use serde_json::json;

use super::{
    Tool, prepare,
    tool::{CHATGPT_ACCOUNT, CHATGPT_TOKEN, GOOGLE_TOKEN},
};
use crate::in_room::InRoom;

/// Returns the variables that make a tool use a login of the wall.
pub(super) fn variables(inside: &InRoom, tool: &Tool) -> Option<(&'static str, &'static str)> {
    let by_google = *tool == Tool::Gemini && inside.placeholder(GOOGLE_TOKEN).is_some();
    by_google.then_some(("GOOGLE_GENAI_USE_GCA", "true"))
}

/// Writes the file that makes Codex use a ChatGPT login.
pub(super) async fn write(inside: &InRoom, tool: &Tool) -> Result<(), Failure> {
    if *tool != Tool::Codex {
        return Ok(());
    }
    let (Some(token), Some(account)) =
        (inside.placeholder(CHATGPT_TOKEN), inside.placeholder(CHATGPT_ACCOUNT))
    else {
        return Ok(());
    };
    let text = chatgpt(token, account, &HostClock.now().to_string());
    let script = "umask 077 && mkdir -p ~/.codex && cat > ~/.codex/auth.json";
    prepare::shell(inside, script, &[], text.as_bytes(), prepare::TIMEOUT).await.map(drop)
}

/// Generates the file of a ChatGPT login, with placeholders only. The refresh token stays on the
/// host, so the file claims that the token was refreshed just now. Pure.
fn chatgpt(token: &str, account: &str, now: &str) -> String {
    let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({
        "email": "agent@hothouse.invalid",
        "exp": 4_102_444_800_u64,
        "https://api.openai.com/auth": { "chatgpt_account_id": account, "chatgpt_plan_type": "unknown" },
    });
    let id = format!("{}.{}.none", part(json!({ "alg": "none" })), part(claims));
    let tokens = json!({
        "id_token": id, "access_token": token, "refresh_token": "kept-on-the-host", "account_id": account,
    });
    json!({ "auth_mode": "chatgpt", "OPENAI_API_KEY": null, "tokens": tokens, "last_refresh": now })
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_placeholders_alone() {
        let text = chatgpt("PLACEHOLDER", "ACCOUNT", "2026-01-01T00:00:00Z");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["tokens"]["access_token"], "PLACEHOLDER");
        assert_eq!(value["tokens"]["account_id"], "ACCOUNT");
        let id = value["tokens"]["id_token"].as_str().unwrap();
        let claims = URL_SAFE_NO_PAD.decode(id.split('.').nth(1).unwrap()).unwrap();
        assert!(String::from_utf8(claims).unwrap().contains("ACCOUNT"));
    }
}
