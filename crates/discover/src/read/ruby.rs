//! Ruby: Bundler, Rails, Sinatra, Rack, Sidekiq.

use super::ports;
use crate::{
    finding::{App, Findings, Install, Step},
    text,
    view::View,
};

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    for gemfile in
        view.named(&["Gemfile"]).into_iter().filter(|path| !super::is_aside(path)).take(5)
    {
        one(view, &gemfile, found);
    }
}

fn one(view: &View<'_>, gemfile: &str, found: &mut Findings) {
    let dir = text::folder(gemfile).to_owned();
    let manifest = view.text(gemfile).unwrap_or_default();
    let has = |gem: &str| {
        let quoted = [
            format!("gem '{gem}'"),
            format!("gem \"{gem}\""),
            format!("gem('{gem}'"),
            format!("gem(\"{gem}\""),
        ];
        manifest
            .lines()
            .map(str::trim_start)
            .any(|line| !line.starts_with('#') && quoted.iter().any(|gem| line.contains(gem)))
    };
    let evidence = view.evidence(gemfile, "source", "dependencies are installed by Bundler");
    found.needs("ruby", &evidence);
    found.needs("bundle", &evidence);
    found.installs.push(Install {
        manager: "bundler",
        dir: dir.clone(),
        run: "bundle config set --local path vendor/bundle && bundle install".to_owned(),
        fills: vec!["vendor/bundle"],
        evidence: vec![evidence],
    });
    let name = if dir.is_empty() { "web".to_owned() } else { text::service_name(text::name(&dir)) };
    let at = |name: &str| view.has(&text::join(&dir, name));
    let program = |line: &str| {
        if at("bin/rails") {
            format!("bin/rails {line}")
        } else {
            format!("bundle exec rails {line}")
        }
    };
    if has("rails") || at("bin/rails") {
        let mut app = App::web(&name, &dir, program("server -b 127.0.0.1 -p {port}"));
        (app.framework, app.port) = (Some("Rails"), Some(3000));
        app.evidence.push(view.evidence(gemfile, "rails", "Rails"));
        let routes = text::join(&dir, "config/routes.rb");
        if view.text(&routes).is_some_and(|text| text.contains("rails/health#show")) {
            app.health = Some("/up".to_owned());
            app.evidence.push(view.evidence(&routes, "rails/health#show", "it answers /up"));
        }
        let evidence = vec![app.evidence[0].clone()];
        found.apps.push(app);
        found.migrations.push(Step {
            name: "migrate".to_owned(),
            dir: dir.clone(),
            run: program("db:prepare"),
            evidence: evidence.clone(),
        });
        if at("db/seeds.rb") {
            found.seeds.push(Step {
                name: "seeds".to_owned(),
                dir: dir.clone(),
                run: program("db:seed"),
                evidence: vec![view.evidence(&text::join(&dir, "db/seeds.rb"), "", "Rails' seeds")],
            });
        }
        found.checks.push(Step {
            name: "test".to_owned(),
            dir: dir.clone(),
            run: program("test"),
            evidence,
        });
        if has("sidekiq") {
            let mut worker = App::worker("worker", &dir, "bundle exec sidekiq");
            worker.evidence.push(view.evidence(gemfile, "sidekiq", "jobs by Sidekiq"));
            found.queues.push(worker.evidence[0].clone());
            found.apps.push(worker);
        }
        return;
    }
    if at("config.ru") {
        let mut app = App::web(&name, &dir, "bundle exec rackup --host 127.0.0.1 --port {port}");
        (app.framework, app.port) =
            (Some(if has("sinatra") { "Sinatra" } else { "Rack" }), Some(9292));
        app.evidence.push(view.evidence(&text::join(&dir, "config.ru"), "run", "Rack's file"));
        found.apps.push(app);
        return;
    }
    if has("jekyll") || has("github-pages") {
        let mut app =
            App::web(&name, &dir, "bundle exec jekyll serve --host 127.0.0.1 --port {port}");
        (app.framework, app.port) = (Some("Jekyll"), Some(4000));
        app.evidence.push(view.evidence(gemfile, "jekyll", "Jekyll"));
        found.apps.push(app);
        return;
    }
    let script = ["app.rb", "server.rb", "main.rb"]
        .into_iter()
        .find(|name| at(name))
        .filter(|_| has("sinatra") || has("roda"));
    if let Some(script) = script {
        let path = text::join(&dir, script);
        let mut app =
            App::web(&name, &dir, format!("bundle exec ruby {script} -o 127.0.0.1 -p {{port}}"));
        (app.framework, app.port) = (
            Some("Sinatra"),
            view.text(&path)
                .and_then(|text| ports::of_source(&text))
                .map(|(port, _)| port)
                .or(Some(4567)),
        );
        app.evidence.push(view.evidence(&path, "sinatra", "Sinatra"));
        found.apps.push(app);
    }
}
