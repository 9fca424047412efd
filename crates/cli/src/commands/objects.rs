//! `objects`: what apps stored in object stores.

use std::{collections::BTreeMap, process::ExitCode};

use hothouse_model::{
    Failure, Word,
    record::{
        Kind, Record,
        bodies::{MediaSize, ObjectBody, ObjectOperation},
    },
};
use serde::Serialize;

use super::timeline::{cut, fetch_all, of_kind, terms};
use crate::{
    args::ObjectsArgs,
    render::{Cell, table},
    session::Session,
    ui::{Tone, Ui},
};

/// An object in the list.
#[derive(Serialize)]
struct ObjectLine<'a> {
    id: &'a str,
    time: jiff::Timestamp,
    bucket: String,
    key: String,
    size: u64,
    r#type: String,
    etag: String,
    operation: Word<ObjectOperation>,
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    media: Option<MediaSize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    service: Option<&'a str>,
}

impl<'a> ObjectLine<'a> {
    fn of(record: &'a Record) -> Self {
        let body: ObjectBody = record.body().unwrap_or_default();
        Self {
            id: &record.id,
            time: record.time,
            bucket: body.bucket,
            key: body.key,
            size: body.size,
            r#type: body.r#type,
            etag: body.etag,
            operation: body.operation,
            file: body.file,
            media: body.media,
            version: body.version,
            service: record.service.as_deref(),
        }
    }
}

/// Lists objects.
pub(crate) fn list(session: &Session, ui: &Ui, args: ObjectsArgs) -> Result<ExitCode, Failure> {
    let query = of_kind(session, Kind::Object, terms(&args.query), args.since, args.run)?;
    // Only all of them show which objects still exist.
    let records = fetch_all(session, query)?;
    let lines: Vec<_> = records.iter().map(ObjectLine::of).collect();
    let lines = if args.all { lines } else { standing(lines) };
    match ui.json {
        true => ui.print_json(&lines),
        false if lines.is_empty() => ui.say("No such objects."),
        false => ui.print(&table(
            ui,
            &["TIME", "BUCKET", "KEY", "SIZE", "TYPE", "IMAGE", ""],
            lines.iter().map(row).collect(),
        )),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the objects that still exist, in the order in which they were stored.
fn standing(lines: Vec<ObjectLine<'_>>) -> Vec<ObjectLine<'_>> {
    let last: BTreeMap<(String, String), String> = lines
        .iter()
        .map(|line| ((line.bucket.clone(), line.key.clone()), line.id.to_owned()))
        .collect();
    let stands = |line: &ObjectLine<'_>| {
        let place = (line.bucket.clone(), line.key.clone());
        line.operation != ObjectOperation::Delete
            && last.get(&place).is_some_and(|id| id == line.id)
    };
    lines.into_iter().filter(stands).collect()
}

fn image(line: &ObjectLine<'_>) -> String {
    line.media.as_ref().map_or("-".to_owned(), |it| format!("{} × {}", it.width, it.height))
}

fn row(line: &ObjectLine<'_>) -> Vec<Cell> {
    vec![
        Cell::new(line.time.strftime("%H:%M:%S").to_string()).tone(Tone::Faint),
        Cell::new(&line.bucket),
        Cell::new(cut(&line.key)).tone(Tone::Strong),
        Cell::new(line.size.to_string()),
        Cell::new(&line.r#type),
        Cell::new(image(line)),
        Cell::new(if line.operation == ObjectOperation::Delete { "deleted" } else { "" })
            .tone(Tone::Faint),
    ]
}
