//! Webhook endpoints that an app registers itself.

use serde_json::Value;

use super::api::Api;
use crate::answer::Endpoint;

/// The maximum number of endpoints per event, as in a Stripe test account.
const MOST: usize = 16;

/// Returns the endpoints that want events of a type.
pub(super) fn of(api: &Api<'_, '_>, kind: &str) -> Vec<Endpoint> {
    let wants = |endpoint: &&Value| {
        let mut types = endpoint["enabled_events"].as_array().into_iter().flatten();
        let is_off = endpoint["disabled"] == true || endpoint["disabled"] == "true";
        !is_off && types.any(|one| one == "*" || one == kind)
    };
    let all = api.all("webhook_endpoint").into_iter().filter(wants);
    all.filter_map(endpoint).take(MOST).collect()
}

fn endpoint(endpoint: &Value) -> Option<Endpoint> {
    let text = |name: &str| endpoint[name].as_str().map(str::to_owned);
    Some(Endpoint { url: text("url")?, secret: text("secret")? })
}
