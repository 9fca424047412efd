//! The location of a page: the URL of an app, as in the room.

use std::path::PathBuf;

use hothouse_engine::{App, urls_of};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord, browse::BrowseSpec, config::rules::nearest,
};

use super::Browsers;

/// The maximum length of a path.
const PATH_MOST: usize = 8000;

/// The location of a page.
pub(super) struct Place {
    pub(super) runtime: PathBuf,
    pub(super) app: String,
    pub(super) url: String,
    /// The origin of each app of the sandbox.
    pub(super) origins: Vec<String>,
    /// The apps, with their origins.
    pub(super) apps: Vec<(String, String)>,
}

impl Place {
    /// Returns the origin of the app.
    pub(super) fn origin(&self) -> &str {
        let own = self.apps.iter().find(|(label, _)| *label == self.app);
        own.map_or("", |(_, origin)| origin)
    }
}

impl Browsers {
    /// Suggests a path instead of one that the app does not know: the nearest of its routes.
    pub(super) async fn near_route(
        &self,
        sandbox: &SandboxRecord,
        place: &Place,
        path: &str,
    ) -> Option<String> {
        let (engine, owned, app) = (self.engine.clone(), sandbox.clone(), place.app.clone());
        let routes = tokio::task::spawn_blocking(move || engine.routes(&owned, Some(&app))).await;
        let routes = routes.ok()?.ok()?;
        let typed = path.split(['?', '#']).next().unwrap_or_default();
        let near = nearest(typed, routes.iter().map(|route| route.path.as_str()))?;
        Some(format!(
            "no route is `{typed}`; did you mean `{near}`? (`hothouse routes {}`)",
            place.app
        ))
    }

    /// Lists the labels of a sandbox's apps.
    pub(super) async fn app_labels(&self, sandbox: &SandboxRecord) -> Result<Vec<String>, Failure> {
        let (engine, owned) = (self.engine.clone(), sandbox.clone());
        let apps = tokio::task::spawn_blocking(move || engine.apps(&owned)).await;
        let apps = apps.map_err(|error| Failure::of(FailureKind::Internal, &error))??;
        Ok(apps.into_iter().map(|app| app.app).collect())
    }

    /// Finds the app of a running sandbox.
    pub(super) async fn place(
        &self,
        sandbox: &SandboxRecord,
        spec: &BrowseSpec,
    ) -> Result<Place, Failure> {
        let (engine, owned) = (self.engine.clone(), sandbox.clone());
        let found = tokio::task::spawn_blocking(move || {
            let runtime = engine.running(&owned)?;
            Ok::<_, Failure>((runtime, engine.apps(&owned)?))
        });
        let found = found.await.map_err(|error| Failure::of(FailureKind::Internal, &error))?;
        let (runtime, apps) = found?;
        let port = self.urls.get().and_then(|urls| urls.port());
        let origin = |app: &App| {
            let urls = urls_of(sandbox, &app.app, app.direct, port);
            urls.url.unwrap_or_else(|| format!("http://127.0.0.1:{}", app.port))
        };
        let app = apps.iter().find(|app| app.app == spec.app || app.service == spec.app);
        let app = app.ok_or_else(|| no_app(sandbox, &apps, &spec.app))?;
        Ok(Place {
            runtime,
            app: app.app.clone(),
            url: format!("{}{}", origin(app), path(&spec.path)?),
            origins: apps.iter().map(origin).collect(),
            apps: apps.iter().map(|app| (app.app.clone(), origin(app))).collect(),
        })
    }
}

/// Normalizes a path for a URL.
pub(super) fn path(typed: &str) -> Result<String, Failure> {
    if typed.len() > PATH_MOST || typed.chars().any(char::is_control) {
        return Err(Failure::new(FailureKind::Usage, "the path is not one of a URL"));
    }
    let plain = typed.replace(' ', "%20");
    Ok(if plain.starts_with('/') { plain } else { format!("/{plain}") })
}

fn no_app(sandbox: &SandboxRecord, apps: &[App], typed: &str) -> Failure {
    let labels: Vec<&str> = apps.iter().map(|app| app.app.as_str()).collect();
    let message = format!("sandbox `{}` has no app `{typed}`", sandbox.name);
    let failure = Failure::new(FailureKind::NotFound, message);
    match nearest(typed, labels.iter().copied()) {
        _ if labels.is_empty() => failure.hint(
            "give a service a URL with `url = \"LABEL\"` in hothouse.toml, then `hothouse up`",
        ),
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint(format!("apps: {}", labels.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_with_a_slash() {
        for (typed, expected) in [
            ("", "/"),
            ("cart?x=1", "/cart?x=1"),
            ("/a b", "/a%20b"),
            ("//evil.example", "//evil.example"),
        ] {
            assert_eq!(path(typed).unwrap(), expected);
        }
        assert!(path("/a\nb").is_err() && path(&"a".repeat(PATH_MOST + 1)).is_err());
    }
}
