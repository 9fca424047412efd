//! Migrations and seeds of Node projects.

use super::{Manager, Package};
use crate::{
    finding::{Certainty, Evidence, Findings, Step, Store, StoreKind},
    text,
    view::View,
};

/// Scripts that migrate, in the order in which they are preferred.
const SCRIPTS: [&str; 12] = [
    "db:migrate:deploy",
    "migrate:deploy",
    "prisma:deploy",
    "db:migrate",
    "migrate",
    "migration:run",
    "migrations:run",
    "db:push",
    "migrate:latest",
    "db:setup",
    "typeorm:migrate",
    "migrate:up",
];

/// Scripts that seed.
const SEEDS: [&str; 6] = ["db:seed", "seed", "prisma:seed", "seed:run", "seed:dev", "seeds"];

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
    // A script that asks questions or starts containers is no migration for a room.
    let is_plain = |line: &str| {
        !["docker", "migrate dev", "generate", "create"].iter().any(|word| line.contains(word))
    };
    let script =
        SCRIPTS.iter().find(|name| package.scripts.get(**name).is_some_and(|line| is_plain(line)));
    if let Some(script) = script {
        return Some((manager.run(script), package.evidence(view, script)));
    }
    let at = |names: &[&str]| view.first(&package.dir, names);
    if let Some(file) = at(&["drizzle.config.ts", "drizzle.config.js", "drizzle.config.mjs"]) {
        let has_migrations = ["drizzle", "migrations", "src/db/migrations", "drizzle/migrations"]
            .iter()
            .any(|folder| view.has_folder(&text::join(&package.dir, folder)));
        let line = if has_migrations { "drizzle-kit migrate" } else { "drizzle-kit push" };
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
