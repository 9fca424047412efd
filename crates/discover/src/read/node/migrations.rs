//! Migrations and seeds of Node projects.

use super::{Manager, Package, ports};
use crate::{
    finding::{Certainty, Evidence, Findings, Step, Store, StoreKind},
    text,
    view::View,
};

/// Scripts that migrate, in order of preference.
const SCRIPTS: [&str; 16] = [
    "db:migrate:deploy",
    "migrate:deploy",
    "prisma:deploy",
    "db:migrate",
    "migrate",
    "migration:run",
    "migrations:run",
    "database:migrate",
    "drizzle:migrate",
    "db:push",
    "database:push",
    "drizzle:push",
    "migrate:latest",
    "db:setup",
    "typeorm:migrate",
    "migrate:up",
];

/// Scripts that seed.
const SEEDS: [&str; 6] = ["db:seed", "seed", "prisma:seed", "seed:run", "seed:dev", "seeds"];

/// Removes the migration of the root if it only calls that of a package.
pub(super) fn without_passed_on(root: &Package, found: &mut Findings) {
    let passes_on = |run: &str| {
        let script = run.split_whitespace().last().and_then(|name| root.scripts.get(name));
        script.is_some_and(|line| {
            let words = text::words(line);
            let is_one = |word: &String| {
                let flag = word.split('=').next().unwrap_or_default();
                ["--filter", "-F", "--workspace", "-w", "turbo", "nx", "lerna", "workspace"]
                    .contains(&flag)
            };
            words.iter().any(is_one)
        })
    };
    if found.migrations.iter().any(|step| !step.dir.is_empty()) {
        found.migrations.retain(|step| !step.dir.is_empty() || !passes_on(&step.run));
    }
}

pub(super) fn read(view: &View<'_>, package: &Package, manager: &Manager, found: &mut Findings) {
    let is_first = !found.migrations.iter().any(|step| step.dir == package.dir);
    if let Some((run, evidence)) = migration(view, package, manager, found).filter(|_| is_first) {
        let name = match package.dir.as_str() {
            "" => "migrate".to_owned(),
            dir => text::service_name(&format!("{}-migrate", text::name(dir))),
        };
        found.migrations.push(Step {
            name,
            dir: package.dir.clone(),
            run,
            evidence: vec![evidence],
        });
    }
    let seed = SEEDS.iter().find(|name| package.scripts.contains_key(**name));
    if let Some(script) = seed {
        let evidence = vec![package.evidence(view, script)];
        let name = text::service_name(&format!("{}-seed", package.name));
        found.seeds.push(Step {
            name,
            dir: package.dir.clone(),
            run: manager.run(script),
            evidence,
        });
    }
}

fn migration(
    view: &View<'_>,
    package: &Package,
    manager: &Manager,
    found: &mut Findings,
) -> Option<(String, Evidence)> {
    let prisma = [
        "prisma/schema.prisma",
        "schema.prisma",
        "prisma/schema/schema.prisma",
        "src/prisma/schema.prisma",
        "db/schema.prisma",
    ];
    if let Some(schema) = view
        .first(&package.dir, &prisma)
        .filter(|_| package.has("prisma") || package.has("@prisma/client"))
    {
        let folder = text::folder(&schema).to_owned();
        let provider = provider(view, &schema);
        if let Some((kind, line)) = provider {
            let evidence = Evidence {
                file: schema.clone(),
                line,
                fact: format!("Prisma's provider is {}", kind.word()),
            };
            found.store(Store::new(kind, Certainty::Named, evidence));
        }
        let has_migrations = view.has_folder(&text::join(&folder, "migrations"));
        let line =
            if has_migrations { "prisma migrate deploy" } else { "prisma db push --skip-generate" };
        return Some((manager.exec(line), view.evidence(&schema, "datasource", "Prisma's schema")));
    }
    let has_journal = view.below(&package.dir).any(|path| path.ends_with("meta/_journal.json"));
    // Scripts that ask questions or start containers do not work in a room, nor do migrations without files.
    let is_plain = |line: &str| {
        !["docker", "migrate dev", "generate", "create"].iter().any(|word| line.contains(word))
            && (has_journal || !line.contains("drizzle-kit migrate"))
    };
    let script =
        SCRIPTS.iter().find(|name| package.scripts.get(**name).is_some_and(|line| is_plain(line)));
    if let Some(script) = script {
        return Some((manager.run(script), package.evidence(view, script)));
    }
    let at = |names: &[&str]| view.first(&package.dir, names);
    // Configs without a dialect are for old releases with different commands. Many apps migrate on start.
    let drizzle = at(&["drizzle.config.ts", "drizzle.config.js", "drizzle.config.mjs"]);
    let drizzle = drizzle.filter(|file| {
        view.text(file).is_some_and(|text| text.contains("dialect"))
            && !(has_journal && migrates_itself(view, package))
    });
    if let Some(file) = drizzle {
        let line = if has_journal { "drizzle-kit migrate" } else { "drizzle-kit push" };
        return Some((manager.exec(line), view.evidence(&file, "dialect", "Drizzle's settings")));
    }
    if let Some(file) = at(&["medusa-config.ts", "medusa-config.js"])
        .filter(|_| package.has("@medusajs/medusa") && package.has("@medusajs/framework"))
    {
        let evidence = view.evidence(&file, "databaseUrl", "Medusa's settings");
        found.store(Store::new(StoreKind::Postgres, Certainty::Named, evidence.clone()));
        return Some((manager.exec("medusa db:migrate"), evidence));
    }
    if let Some(file) =
        at(&["mikro-orm.config.ts", "src/mikro-orm.config.ts", "mikro-orm.config.js"])
            .filter(|_| package.has("@mikro-orm/cli"))
    {
        return Some((
            manager.exec("mikro-orm migration:up"),
            view.evidence(&file, "", "the settings of MikroORM"),
        ));
    }
    if let Some(file) = at(&["knexfile.js", "knexfile.ts", "knexfile.cjs"]) {
        return Some((
            manager.exec("knex migrate:latest"),
            view.evidence(&file, "client", "Knex's settings"),
        ));
    }
    if let Some(file) =
        at(&[".sequelizerc", "config/config.json"]).filter(|_| package.has("sequelize-cli"))
    {
        return Some((
            manager.exec("sequelize-cli db:migrate"),
            view.evidence(&file, "", "Sequelize's settings"),
        ));
    }
    None
}

/// Whether a package's app applies its Drizzle migrations on start.
fn migrates_itself(view: &View<'_>, package: &Package) -> bool {
    let source = text::join(&package.dir, "src");
    let files = ports::sources(view, &source, &[".ts", ".js", ".mjs"]);
    files.iter().take(300).any(|path| {
        view.text(path).is_some_and(|text| {
            text.contains("drizzle-orm/")
                && (text.contains("/migrator'") || text.contains("/migrator\""))
        })
    })
}

fn provider(view: &View<'_>, schema: &str) -> Option<(StoreKind, usize)> {
    let text = view.text(schema)?;
    let (at, line) = text
        .lines()
        .enumerate()
        .skip_while(|(_, line)| !line.contains("datasource"))
        .find(|(_, line)| line.contains("provider"))?;
    let kind = match line.split('"').nth(1)? {
        "postgresql" | "postgres" | "cockroachdb" => StoreKind::Postgres,
        "mysql" => StoreKind::Mysql,
        "mongodb" => StoreKind::Mongo,
        _ => return None,
    };
    Some((kind, at + 1))
}
