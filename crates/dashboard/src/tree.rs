//! The objects of buckets as a tree: slashes in keys separate folders.

use std::collections::BTreeMap;

use hothouse_model::record::{
    Record,
    bodies::{ObjectBody, ObjectOperation},
};

use crate::{
    detail::{is_picture, relative},
    text::size,
};

/// The maximum number of lines.
const MOST: usize = 400;

/// The maximum depth of indentation.
const DEEPEST: usize = 8;

/// A line of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub depth: usize,
    pub name: String,
    /// The record of an object; `None` for a folder.
    pub record: Option<String>,
    pub kind: String,
    pub size: String,
    /// The path of its image, below the run's folder.
    pub picture: Option<String>,
}

/// Makes the tree of all objects that exist after these records, which are sorted newest first.
pub fn lines(records: &[Record], folder: &str) -> Vec<Line> {
    let mut newest: BTreeMap<Vec<String>, Option<Line>> = BTreeMap::new();
    for record in records {
        let Ok(object) = record.body::<ObjectBody>() else { continue };
        let mut path = vec![object.bucket.clone()];
        path.extend(object.key.split('/').filter(|part| !part.is_empty()).map(str::to_owned));
        let line = (object.operation == ObjectOperation::Put)
            .then(|| line(&path, record, &object, folder));
        newest.entry(path).or_insert(line);
    }
    let mut shown: Vec<Line> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    for (path, line) in newest.into_iter().filter_map(|(path, line)| Some((path, line?))) {
        let above = &path[..path.len() - 1];
        let common = open.iter().zip(above).take_while(|(one, other)| one == other).count();
        shown.extend(
            above.iter().enumerate().skip(common).map(|(depth, name)| folder_line(depth, name)),
        );
        open = above.to_vec();
        shown.push(line);
    }
    shown.truncate(MOST);
    shown
}

fn line(path: &[String], record: &Record, object: &ObjectBody, folder: &str) -> Line {
    let is_shown = is_picture(&object.r#type) && object.size < 8 << 20;
    let file = object.file.as_deref().filter(|_| is_shown);
    Line {
        depth: (path.len() - 1).min(DEEPEST),
        name: path.last().cloned().unwrap_or_default(),
        record: Some(record.id.clone()),
        kind: object.r#type.clone(),
        size: size(object.size),
        picture: file.and_then(|file| relative(file, folder)),
    }
}

fn folder_line(depth: usize, name: &str) -> Line {
    Line {
        depth: depth.min(DEEPEST),
        name: format!("{name}/"),
        record: None,
        kind: String::new(),
        size: String::new(),
        picture: None,
    }
}

#[cfg(test)]
mod tests {
    use hothouse_model::record::{Draft, Kind};
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn record(seq: u64, operation: &str, key: &str, kind: &str) -> Record {
        let body = json!({ "bucket": "files", "key": key, "size": 2048, "type": kind, "etag": "",
            "operation": operation, "file": format!("/run/objects/{seq}") });
        let draft = Draft::new(Kind::Object, Timestamp::UNIX_EPOCH, "", body);
        Record { seq, ..draft.into_record(format!("object_{seq}"), "a", "run_1") }
    }

    #[test]
    fn folders_come_once_and_deleted_objects_not_at_all() {
        let newest_first = [
            record(4, "delete", "old.txt", ""),
            record(3, "put", "a/c.svg", "image/svg+xml"),
            record(2, "put", "a/b.png", "image/png"),
            record(1, "put", "old.txt", "text/plain"),
        ];
        let lines = lines(&newest_first, "/run");
        let shown: Vec<_> = lines.iter().map(|line| (line.depth, line.name.as_str())).collect();
        assert_eq!(shown, [(0, "files/"), (1, "a/"), (2, "b.png"), (2, "c.svg")]);
        assert_eq!(lines[2].picture.as_deref(), Some("objects/2"));
        assert_eq!(
            (&lines[3].picture, lines[3].size.as_str()),
            (&None, "2 KB"),
            "no drawing is shown"
        );
    }
}
