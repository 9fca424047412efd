//! Folders with plain pages, for a repository that has nothing else to show.

use crate::{
    finding::{App, Findings},
    text,
    view::View,
};

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    if !found.apps.is_empty() {
        return;
    }
    if let Some(file) = view.first("", &["hugo.toml", "hugo.yaml", "config.toml"]).filter(|_| {
        view.has_folder("content") && view.has_folder("layouts") || view.has("hugo.toml")
    }) {
        let mut app = App::web(
            "web",
            "",
            "hugo server --bind 127.0.0.1 --port {port} --baseURL http://localhost/ --appendPort=false",
        );
        (app.framework, app.port) = (Some("Hugo"), Some(1313));
        app.evidence.push(view.evidence(&file, "", "Hugo's settings"));
        found.needs("hugo", &app.evidence[0]);
        found.apps.push(app);
        return;
    }
    let is_library = !found.installs.is_empty();
    let page =
        ["index.html", "public/index.html", "src/index.html", "site/index.html", "www/index.html"]
            .into_iter()
            .find(|path| view.has(path));
    let Some(page) = page.filter(|_| !is_library) else { return };
    let dir = text::folder(page);
    let mut app = App::web("web", dir, "python3 -m http.server {port} --bind 127.0.0.1");
    (app.framework, app.port) = (Some("plain pages"), Some(8000));
    app.evidence.push(view.evidence(page, "", "a page of its own"));
    found.needs("python3", &app.evidence[0]);
    found.apps.push(app);
}
