//! .NET: web projects and their launch settings.

use crate::{
    finding::{App, Findings, Install, Step},
    text,
    view::View,
};

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    let is_project =
        |path: &&str| [".csproj", ".fsproj", ".vbproj"].iter().any(|ending| path.ends_with(ending));
    let projects: Vec<String> = view
        .paths()
        .filter(is_project)
        .filter(|path| !super::is_aside(path))
        .take(100)
        .map(str::to_owned)
        .collect();
    let Some(first) = projects.first() else { return };
    let evidence = view.evidence(first, "Sdk", "built by dotnet");
    found.needs("dotnet", &evidence);
    let solution = view
        .paths()
        .find(|path| path.ends_with(".sln") || path.ends_with(".slnx"))
        .map(str::to_owned);
    let dir = solution.as_deref().map_or_else(|| text::folder(first), text::folder).to_owned();
    found.installs.push(Install {
        manager: "dotnet",
        dir: dir.clone(),
        run: "dotnet restore".to_owned(),
        fills: vec![],
        evidence: vec![evidence.clone()],
    });
    found.checks.push(Step {
        name: "test".to_owned(),
        dir,
        run: "dotnet test".to_owned(),
        evidence: vec![evidence],
    });
    for path in &projects {
        let source = view.text(path).unwrap_or_default();
        if path.to_ascii_lowercase().contains("test") {
            continue;
        }
        let is_program =
            source.contains("Microsoft.NET.Sdk.Worker") || source.contains("<OutputType>Exe");
        if !source.contains("Microsoft.NET.Sdk.Web") {
            if is_program {
                let folder = text::folder(path);
                let name = text::service_name(
                    text::name(path).rsplit_once('.').map_or("worker", |(stem, _)| stem),
                );
                let mut app = App::worker(&name, folder, "dotnet run");
                app.evidence.push(view.evidence(path, "Sdk", "a program"));
                found.apps.push(app);
            }
            continue;
        }
        let folder = text::folder(path);
        let stem = text::name(path).rsplit_once('.').map_or("web", |(stem, _)| stem);
        let name =
            text::service_name(&stem.rsplit('.').next().unwrap_or(stem).to_ascii_lowercase());
        let mut app = App::web(
            &name,
            folder,
            "dotnet run --no-launch-profile --urls http://127.0.0.1:{port}",
        );
        (app.framework, app.port) = (Some("ASP.NET"), Some(5000));
        app.env.insert("ASPNETCORE_ENVIRONMENT".to_owned(), "Development".to_owned());
        app.evidence.push(view.evidence(path, "Microsoft.NET.Sdk.Web", "a web project"));
        let launch = text::join(folder, "Properties/launchSettings.json");
        if let Some(port) = view.json(&launch).as_ref().and_then(launch_port) {
            app.port = Some(port);
            app.evidence.push(view.evidence(
                &launch,
                &format!(":{port}"),
                format!("the profile uses {port}"),
            ));
        }
        found.apps.push(app);
    }
}

fn launch_port(value: &serde_json::Value) -> Option<u16> {
    let profiles = value["profiles"].as_object()?;
    profiles.values().find_map(|profile| {
        let urls = profile["applicationUrl"].as_str()?;
        let url = urls.split(';').find(|url| url.starts_with("http://"))?;
        url.rsplit(':').next()?.trim_end_matches('/').parse().ok()
    })
}
