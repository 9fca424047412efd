//! Coverage of a scenario: the counters of its page, and what the services of a proof write on
//! request.

use std::time::Duration;

use hothouse_engine::{COLLECT, COVERAGE_FOLDER, FLUSH, LcovCommand};
use hothouse_evidence::{
    coverage::{
        ChangedText, Collector, Meter, ScenarioCoverage, reports,
        v8::{self, ScriptRun, ScriptText},
    },
    judge::ChangedFile,
};
use hothouse_model::{Failure, SandboxRecord};

use super::blocking;
use crate::{
    Keepers,
    browsers::PageRun,
    in_room::{InRoom, RoomTask},
};

/// How long services may take to write, in polls of 20 ms, and how much of the result is read.
const LOOKS: u32 = 150;
const PATIENCE: Duration = Duration::from_secs(30);
const KEPT: usize = 48 << 20;

/// The time limit of a project's command.
const LCOV_PATIENCE: Duration = Duration::from_secs(120);

/// The message for services without coverage.
const NOT_MEASURED: &str =
    "which lines the services ran: only `hothouse prove` starts them so that they tell";

/// Measures which changed code a scenario ran.
pub(super) async fn collect(
    keepers: &Keepers,
    sandbox: &SandboxRecord,
    changed: &[ChangedFile],
    page: Option<PageRun>,
) -> Result<ScenarioCoverage, Failure> {
    let code: Vec<ChangedFile> =
        changed.iter().filter(|file| file.added.is_none_or(|added| added > 0)).cloned().collect();
    if code.is_empty() {
        return Ok(ScenarioCoverage::default());
    }
    let (engine, own) = (keepers.engine.clone(), sandbox.clone());
    let (files, roots, lcov) = blocking(move || {
        let texts = engine.texts_of(&own, code.iter().map(|file| file.path.as_str()));
        let lcov = engine.lcov_commands(&own);
        let files = code.into_iter().zip(texts).map(|(file, text)| changed_text(file, text));
        Ok((files.collect::<Vec<_>>(), engine.roots_inside(&own), lcov))
    })
    .await?;
    let mut collector = Collector::new(&files, &roots);
    if let Some(page) = page {
        of_page(&mut collector, page);
    }
    let room = InRoom::of(&keepers.engine, &keepers.connections, sandbox).await?;
    let counts = |service: &hothouse_model::stack::ServiceOrder| {
        service.spec.env.contains_key("HOTHOUSE_COVERAGE")
    };
    if !room.stack.services.iter().any(counts) {
        if room.stack.services.iter().any(|service| service.database.is_none()) {
            collector.note(NOT_MEASURED.to_owned());
        }
        return Ok(collector.done());
    }
    of_services(&mut collector, &room, &roots).await?;
    for command in lcov {
        of_command(&mut collector, &room, &command).await?;
    }
    Ok(collector.done())
}

/// Adds the text to a changed file. An uncommitted file counts as a whole.
fn changed_text(file: ChangedFile, text: Option<String>) -> ChangedText {
    let lines = match (file.lines.is_empty(), &text) {
        (true, Some(text)) => {
            let count = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
            vec![(1, count.max(1))].into()
        }
        _ => file.lines,
    };
    ChangedText { path: file.path, text, lines }
}

fn of_page(collector: &mut Collector<'_>, page: PageRun) {
    collector.measured_by(Meter::Browser);
    for (method, path) in &page.requests {
        collector.request(method, path);
    }
    for script in page.coverage.scripts {
        let script = ScriptRun {
            ranges: v8::ranges(&script.functions),
            text: ScriptText::Whole(script.source.to_string()),
            map: script.map,
            url: script.url,
        };
        collector.script(Meter::Browser, &script);
    }
    if page.coverage.is_cut {
        collector.note("scripts of the page beyond 64 MiB were not measured".into());
    }
}

/// Asks services to write their coverage, and reads it.
async fn of_services(
    collector: &mut Collector<'_>,
    room: &InRoom,
    roots: &[String],
) -> Result<(), Failure> {
    let flush = RoomTask::shell(FLUSH).with_arguments([COVERAGE_FOLDER, &LOOKS.to_string()]);
    room.run(RoomTask { label: "coverage", timeout: PATIENCE, ..flush }).await?;
    let script = "command -v node >/dev/null && [ -d \"$1/node\" ] || exit 0; \
                  exec node -e \"$0\" -- \"$@\"";
    let mut node = RoomTask::shell(script);
    // `node -e` has no script name among its arguments.
    node.argv = ["/bin/sh", "-c", script, COLLECT, COVERAGE_FOLDER].map(str::to_owned).to_vec();
    node.argv.extend(roots.iter().cloned());
    let node = RoomTask { label: "coverage", timeout: PATIENCE, keep: KEPT, ..node };
    let printed = room.run(node).await?.stdout;
    if printed.is_cut() {
        collector.note("what Node.js measured was more than 48 MiB, and is read in part".into());
    }
    for line in printed.head.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        for script in reports::node(line) {
            collector.script(Meter::Node, &script);
        }
    }
    let script = "cd \"$1/python\" 2>/dev/null || exit 0; for f in *.json; do [ -f \"$f\" ] && cat \"$f\" && echo; done";
    let python = RoomTask::shell(script).with_arguments([COVERAGE_FOLDER]);
    let python = RoomTask { label: "coverage", timeout: PATIENCE, keep: KEPT, ..python };
    let printed = room.run(python).await?.stdout;
    for line in printed.head.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        collector.lines(Meter::Python, reports::python(line));
    }
    Ok(())
}

/// Runs a service's own command, which prints LCOV.
async fn of_command(
    collector: &mut Collector<'_>,
    room: &InRoom,
    command: &LcovCommand,
) -> Result<(), Failure> {
    let mut task = RoomTask::shell(command.run.clone()).of_service(&command.service);
    (task.label, task.timeout, task.keep) = ("coverage", LCOV_PATIENCE, KEPT);
    task.env.push(("HOTHOUSE_COVERAGE".to_owned(), COVERAGE_FOLDER.to_owned()));
    let output = room.run(task).await?;
    if !output.is_ok() {
        let why = output.last_lines(1).join("");
        collector.note(format!(
            "the `coverage` command of `{}` failed ({}): {why}",
            command.service, output.end
        ));
        return Ok(());
    }
    collector.lines(Meter::Lcov, reports::lcov(&output.stdout.text()));
    Ok(())
}
