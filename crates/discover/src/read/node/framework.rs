//! Node frameworks: how they are recognized, and their default ports.

use std::sync::LazyLock;

use regex_lite::Regex;

use super::Package;
use crate::{finding::Evidence, text, view::View};

/// A known framework.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framework {
    pub(super) title: &'static str,
    /// The word that identifies it in a command.
    command: &'static str,
    /// The required package; empty for any.
    package: &'static str,
    pub(super) port: Option<u16>,
    pub(super) is_server: bool,
    /// Whether its routes are searched for a health check.
    pub(super) is_api: bool,
}

impl Framework {
    /// Whether it is identified by its own command, and requires its own package.
    pub(super) fn is_site(&self) -> bool {
        !self.command.is_empty() && !self.package.is_empty()
    }
}

const fn site(
    title: &'static str,
    command: &'static str,
    package: &'static str,
    port: u16,
) -> Framework {
    Framework { title, command, package, port: Some(port), is_server: true, is_api: false }
}

const fn api(title: &'static str, command: &'static str, package: &'static str) -> Framework {
    Framework { title, command, package, port: None, is_server: true, is_api: true }
}

/// The first match counts.
const ALL: [Framework; 48] = [
    site("Next.js", "next", "next", 3000),
    site("Nuxt", "nuxt", "nuxt", 3000),
    site("Nuxt", "nuxi", "nuxt", 3000),
    site("Astro", "astro", "astro", 4321),
    site("Remix", "remix", "@remix-run/dev", 3000),
    site("React Router", "react-router", "@react-router/dev", 5173),
    site("SvelteKit", "vite", "@sveltejs/kit", 5173),
    site("Remix", "vite", "@remix-run/dev", 5173),
    site("SolidStart", "vinxi", "@solidjs/start", 3000),
    site("TanStack Start", "vinxi", "", 3000),
    site("Qwik", "vite", "@builder.io/qwik", 5173),
    site("Vite", "vite", "", 5173),
    site("Create React App", "react-scripts", "", 3000),
    site("CRACO", "craco", "", 3000),
    site("Angular", "ng", "", 4200),
    site("Vue CLI", "vue-cli-service", "", 8080),
    site("Gatsby", "gatsby", "", 8000),
    site("Docusaurus", "docusaurus", "", 3000),
    site("VitePress", "vitepress", "", 5173),
    site("VuePress", "vuepress", "", 8080),
    site("Eleventy", "eleventy", "", 8080),
    site("Eleventy", "@11ty/eleventy", "", 8080),
    site("Strapi", "strapi", "", 1337),
    site("Medusa", "medusa", "", 9000),
    site("Directus", "directus", "", 8055),
    site("KeystoneJS", "keystone", "", 3000),
    site("RedwoodJS", "rw", "", 8910),
    site("Blitz", "blitz", "", 3000),
    site("Wrangler", "wrangler", "", 8787),
    site("Expo", "expo", "", 8081),
    site("Parcel", "parcel", "", 1234),
    site("webpack", "webpack-dev-server", "", 8080),
    site("Preact", "preact", "", 8080),
    site("Ember", "ember", "", 4200),
    site("serve", "serve", "", 3000),
    site("http-server", "http-server", "", 8080),
    site("live-server", "live-server", "", 8080),
    site("Mastra", "mastra", "", 4111),
    site("NestJS", "nest", "@nestjs/core", 3000),
    api("NestJS", "", "@nestjs/core"),
    api("AdonisJS", "", "@adonisjs/core"),
    api("Fastify", "", "fastify"),
    api("Express", "", "express"),
    api("Koa", "", "koa"),
    api("Hono", "", "hono"),
    api("hapi", "", "@hapi/hapi"),
    api("Apollo Server", "", "@apollo/server"),
    api("Elysia", "", "elysia"),
];

/// Returns the framework that a script starts.
pub(super) fn of(_view: &View<'_>, package: &Package, line: &str) -> Option<Framework> {
    let words = text::words(line);
    let is_run = |command: &str| {
        let at = words.iter().position(|word| word == command || text::name(word) == command);
        // `vite build` and `next build` exit; `next lint` is not a server.
        at.is_some_and(|at| {
            !words.get(at + 1).is_some_and(|word| {
                ["build", "lint", "export", "optimize", "sync"].contains(&word.as_str())
            })
        })
    };
    let by_command = ALL.iter().filter(|framework| !framework.command.is_empty());
    let found = by_command.into_iter().find(|framework| {
        is_run(framework.command)
            && (framework.package.is_empty() || package.has(framework.package))
    });
    if line.contains("webpack serve") {
        return Some(site("webpack", "webpack", "", 8080));
    }
    if let Some(found) = found {
        return Some(*found);
    }
    let runs_code = [
        "node",
        "nodemon",
        "tsx",
        "ts-node",
        "ts-node-dev",
        "bun",
        "tsnd",
        "esbuild",
        "swc-node",
        "nest",
        "babel-node",
        "pm2",
        "tsc-watch",
        "adonis",
        "micro",
    ]
    .iter()
    .any(|runner| words.iter().any(|word| text::name(word) == *runner));
    let of_package =
        ALL.iter().find(|framework| framework.command.is_empty() && package.has(framework.package));
    of_package.filter(|_| runs_code).copied()
}

/// Whether a command takes its port from `PORT`.
pub(super) fn obeys_port(line: &str) -> bool {
    ["next", "react-scripts", "nuxt", "nuxi", "nest", "remix", "strapi", "gatsby"]
        .iter()
        .any(|word| text::words(line).iter().any(|part| part == word))
}

static SERVER_PORT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?s)\b(?:server|devServer)\s*:\s*\{[^}]*?\bport\s*:\s*(\d{2,5})")
        .expect("a fixed pattern")
});

/// Returns the port in a tool's own settings file.
pub(super) fn configured(view: &View<'_>, dir: &str) -> Option<(u16, Evidence)> {
    const STEMS: [&str; 9] = [
        "vite.config",
        "astro.config",
        "nuxt.config",
        "vue.config",
        "webpack.config",
        "webpack.dev",
        "gatsby-config",
        "svelte.config",
        "rsbuild.config",
    ];
    let endings = ["ts", "js", "mjs", "mts", "cjs"];
    let files = STEMS
        .iter()
        .flat_map(|stem| endings.map(|ending| text::join(dir, &format!("{stem}.{ending}"))));
    files.filter(|path| view.has(path)).find_map(|path| {
        let source = view.text(&path)?;
        let found = SERVER_PORT.captures(&source)?.get(1)?;
        let port = found.as_str().parse().ok()?;
        let line = source[..found.start()].matches('\n').count() + 1;
        Some((port, Evidence { file: path, line, fact: format!("the server's port is {port}") }))
    })
}
