//! The databases of a room: tables, and the rows of a table.

use askama::Template;

use crate::{page::Head, place::Part, text::encoded};

/// A table of a database.
#[derive(Clone, Debug)]
pub struct TableLine {
    pub name: String,
    pub rows: Option<u64>,
}

/// The displayed rows of a table.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub table: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
    pub from: usize,
    pub more: bool,
}

/// The page.
#[derive(Template)]
#[template(path = "data.html")]
pub struct DataPage<'a> {
    pub head: &'a Head,
    pub here: Option<Part>,
    pub databases: Vec<String>,
    /// The selected database.
    pub service: Option<String>,
    pub tables: Vec<TableLine>,
    /// Whether rows can be displayed.
    pub has_rows: bool,
    pub rows: Option<Rows>,
    /// The number of rows per page.
    pub step: usize,
    pub problem: Option<String>,
}

impl DataPage<'_> {
    fn to(&self, service: &str, table: Option<&str>, from: usize) -> String {
        let page = self.head.to(Part::Data);
        let table = table.map(|table| format!("&table={}&from={from}", encoded(table)));
        format!("{page}?service={}{}", encoded(service), table.unwrap_or_default())
    }

    fn to_database(&self, service: &str) -> String {
        self.to(service, None, 0)
    }

    fn to_table(&self, service: &str, table: &str) -> String {
        self.to(service, Some(table), 0)
    }

    fn is_service(&self, name: &str) -> bool {
        self.service.as_deref() == Some(name)
    }

    fn is_chosen(&self, table: &str) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.table == table)
    }

    fn step_of(&self, rows: &Rows, forward: bool) -> Option<String> {
        let from = match forward {
            true if rows.more => rows.from + self.step,
            false if rows.from > 0 => rows.from.saturating_sub(self.step),
            _ => return None,
        };
        Some(self.to(self.service.as_deref()?, Some(&rows.table), from))
    }
}
