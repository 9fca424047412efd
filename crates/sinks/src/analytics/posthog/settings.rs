//! Settings that posthog-js requests when a page loads.

use serde_json::Value;

use super::{VENDOR, flags};
use crate::{FlagSet, Taken, http};

/// Returns the settings of a project.
pub(super) fn config(token: &str, set: &FlagSet) -> Value {
    let mut tree = flags::config(set);
    tree["token"] = token.into();
    tree
}

/// Answers with our own script that implements what pages call.
pub(super) fn library() -> Taken {
    const LIBRARY: &str = include_str!("../../../fixtures/scripts/posthog.js");
    http::text(200, "application/javascript; charset=utf-8", LIBRARY, VENDOR)
}

/// Answers with the settings as a script. Text from the room cannot end the script early.
pub(super) fn script(token: &str, set: &FlagSet) -> Taken {
    let config = config(token, set).to_string().replace('<', "\\u003c");
    let name = Value::from(token).to_string().replace('<', "\\u003c");
    let text = format!(
        "(function(){{var all=window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{{}};\
         all[{name}]={{config:{config},siteApps:[]}};}})();"
    );
    http::text(200, "application/javascript; charset=utf-8", text, VENDOR)
}
