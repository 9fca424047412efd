//! The shims of a sandbox, from its config and the files of its worktree.

use std::path::Path;

use hothouse_browser::shim::{self, ShimSet};
use hothouse_engine::Engine;
use hothouse_model::{SandboxRecord, config::Shim};

/// The maximum size of a file.
const FILE_MOST: u64 = 2 << 20;

/// Reads the shims of a sandbox. One whose file cannot be read only answers with the reason.
pub(super) fn of(engine: &Engine, sandbox: &SandboxRecord) -> ShimSet {
    let shims = engine.shims(sandbox).unwrap_or_default();
    let all = shims.iter().flat_map(|(name, shim)| one(engine, sandbox, name.as_str(), shim));
    ShimSet(all.collect())
}

fn one(engine: &Engine, sandbox: &SandboxRecord, name: &str, spec: &Shim) -> Vec<shim::Shim> {
    if let Some(vendor) = spec.r#use {
        let mut shipped = shim::shipped(name, vendor);
        if let Some(url) = &spec.url {
            shipped.truncate(1);
            shipped.iter_mut().for_each(|one| one.pattern = url.to_string());
        }
        return shipped;
    }
    let Some(url) = &spec.url else { return Vec::new() };
    let (body, usual) = match (&spec.script, &spec.body) {
        (Some(path), _) => {
            let read = engine.judging_file(sandbox, Path::new(path.as_str()), FILE_MOST);
            let body = read.unwrap_or_else(|failure| {
                let why = format!("shim {name} cannot be read: {}", failure.message);
                format!("console.error({});", serde_json::Value::String(why)).into_bytes()
            });
            (body, shim::content_type(path.as_str()))
        }
        (None, Some(body)) => (body.to_string().into_bytes(), shim::JAVASCRIPT),
        (None, None) => return Vec::new(),
    };
    let content_type = spec.r#type.as_ref().map_or(usual.to_owned(), ToString::to_string);
    vec![shim::Shim { name: name.to_owned(), pattern: url.to_string(), content_type, body }]
}
