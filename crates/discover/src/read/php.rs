//! PHP: Composer, Laravel, Symfony, and plain folders with pages.

use crate::{
    finding::{App, Findings, Install, Step},
    text,
    view::View,
};

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    for manifest in
        view.named(&["composer.json"]).into_iter().filter(|path| !super::is_aside(path)).take(5)
    {
        one(view, &manifest, found);
    }
    if found.apps.is_empty() && found.installs.is_empty() && view.has("index.php") {
        let mut app = App::web("web", "", "php -S 127.0.0.1:{port}");
        (app.framework, app.port) = (Some("PHP"), Some(8000));
        app.evidence.push(view.evidence("index.php", "", "a page of PHP"));
        found.needs("php", &app.evidence[0]);
        found.apps.push(app);
    }
}

fn one(view: &View<'_>, manifest: &str, found: &mut Findings) {
    let dir = text::folder(manifest).to_owned();
    let Some(value) = view.json(manifest) else { return };
    let requires = |package: &str| !value["require"][package].is_null();
    let evidence = view.evidence(manifest, "\"require\"", "dependencies are installed by Composer");
    found.needs("php", &evidence);
    found.needs("composer", &evidence);
    found.installs.push(Install {
        manager: "composer",
        dir: dir.clone(),
        run: "test -e vendor/autoload.php || composer install --no-interaction".to_owned(),
        fills: vec!["vendor"],
        evidence: vec![evidence.clone()],
    });
    let name = if dir.is_empty() { "web".to_owned() } else { text::service_name(text::name(&dir)) };
    let at = |name: &str| view.has(&text::join(&dir, name));
    if at("artisan") {
        let mut app = App::web(&name, &dir, "php artisan serve --host=127.0.0.1 --port={port}");
        (app.framework, app.port) = (Some("Laravel"), Some(8000));
        app.evidence.push(view.evidence(&text::join(&dir, "artisan"), "", "Laravel's own command"));
        // A fixed key that is only used in rooms: the example has none.
        app.env.insert(
            "APP_KEY".to_owned(),
            "base64:aG90aG91c2Utcm9vbS1vbmx5LWtleS0zMi1ieXRlcyE=".to_owned(),
        );
        let evidence = app.evidence.clone();
        found.apps.push(app);
        // `composer run dev` starts a worker beside the server.
        let dev = value["scripts"]["dev"].to_string();
        if dev.contains("queue:") && !found.built.iter().any(|built| built.name.contains("queue")) {
            let name = if dir.is_empty() { "queue".to_owned() } else { format!("{name}-queue") };
            let mut worker = App::worker(&name, &dir, "php artisan queue:work --tries=1");
            worker.evidence.push(view.evidence(
                manifest,
                "queue:",
                "`composer run dev` runs a queue",
            ));
            found.apps.push(worker);
        }
        found.migrations.push(Step {
            name: "migrate".to_owned(),
            dir: dir.clone(),
            run: "php artisan migrate --force".to_owned(),
            evidence: evidence.clone(),
        });
        if at("database/seeders/DatabaseSeeder.php") {
            found.seeds.push(Step {
                name: "seeds".to_owned(),
                dir: dir.clone(),
                run: "php artisan db:seed --force".to_owned(),
                evidence: evidence.clone(),
            });
        }
        found.checks.push(Step {
            name: "test".to_owned(),
            dir,
            run: "php artisan test".to_owned(),
            evidence,
        });
        return;
    }
    let symfony = requires("symfony/framework-bundle");
    if at("public/index.php") {
        let mut app = App::web(&name, &dir, "php -S 127.0.0.1:{port} -t public");
        (app.framework, app.port) = (Some(if symfony { "Symfony" } else { "PHP" }), Some(8000));
        app.evidence.push(view.evidence(
            &text::join(&dir, "public/index.php"),
            "",
            "the page that answers all",
        ));
        found.apps.push(app);
        if symfony && requires("doctrine/doctrine-migrations-bundle") {
            found.migrations.push(Step {
                name: "migrate".to_owned(),
                dir,
                run: "php bin/console doctrine:migrations:migrate --no-interaction".to_owned(),
                evidence: vec![evidence],
            });
        }
    }
}
