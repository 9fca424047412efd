//! Shows the content of databases in a room: tables and their first rows, queried inside the room
//! with the database's own client. Nothing is changed: sessions are read-only where supported.

use std::time::Duration;

use hothouse_model::{Failure, FailureKind, stack::ServiceOrder};

use crate::in_room::{InRoom, RoomTask, TaskOutput};

/// How long a database may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much of an answer is read.
const KEEP: usize = 512 << 10;

/// The maximum number of tables, and the number of rows per page.
const TABLES: usize = 500;
pub const ROWS: usize = 50;

/// The maximum number of columns, and of characters of a value.
const COLUMNS: usize = 60;
const VALUE: usize = 300;

/// A table, as its database names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub name: String,
    pub rows: Option<u64>,
}

/// Some rows of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Whether more rows follow.
    pub more: bool,
}

/// The SQL dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Postgres,
    Mysql,
    Sqlite,
}

/// Returns the databases of a room, by the names of their services.
pub fn databases(room: &InRoom) -> Vec<String> {
    let all = room.stack.services.iter().filter(|service| service.database.is_some());
    all.map(|service| service.name().to_owned()).collect()
}

/// Whether the rows of a database's tables can be shown.
pub fn has_rows(room: &InRoom, service: &str) -> bool {
    room.service(service).is_some_and(|order| dialect(order).is_some())
}

/// Lists the tables of a database.
pub async fn list(room: &InRoom, service: &str) -> Result<Vec<Table>, Failure> {
    let database = room.service(service).and_then(|order| order.database.as_ref());
    let database = database.ok_or_else(|| no_database(service))?;
    let mut task = RoomTask::shell("").of_service(service);
    task.argv.clone_from(&database.tables);
    let printed = run(room, task).await?;
    Ok(tables(&printed.stdout.text()))
}

/// Reads rows of a table from [`list`].
pub async fn rows(room: &InRoom, service: &str, table: &str, from: usize) -> Result<Rows, Failure> {
    let order = room.service(service).ok_or_else(|| no_database(service))?;
    let dialect = dialect(order).ok_or_else(|| no_database(service))?;
    let shell = order.database.as_ref().map(|database| database.shell.clone());
    let known = list(room, service).await?;
    if !known.iter().any(|one| one.name == table) {
        let message = format!("there is no table `{table}` in `{service}`");
        return Err(Failure::new(FailureKind::NotFound, message));
    }
    let mut arguments = vec![statement(dialect, table, from)];
    arguments.extend(shell.unwrap_or_default());
    let task = RoomTask::shell(script(dialect)).with_arguments(arguments).of_service(service);
    let printed = run(room, task).await?;
    let text = printed.stdout.text();
    let lines = match dialect {
        Dialect::Mysql => tabbed(&text),
        Dialect::Postgres | Dialect::Sqlite => separated(&text),
    };
    Ok(page(lines, printed.stdout.is_cut()))
}

fn no_database(service: &str) -> Failure {
    let message = format!("service `{service}` has no tables that can be shown");
    Failure::new(FailureKind::NotFound, message)
}

async fn run(room: &InRoom, mut task: RoomTask) -> Result<TaskOutput, Failure> {
    (task.label, task.timeout, task.keep) = ("tables", PATIENCE, KEEP);
    let printed = room.run(task).await?;
    if printed.is_ok() {
        return Ok(printed);
    }
    let lines = printed.last_lines(3).join("; ");
    let message = format!("the database did not answer ({}): {lines}", printed.end);
    Err(Failure::new(FailureKind::Unmet, message))
}

fn dialect(service: &ServiceOrder) -> Option<Dialect> {
    let client = service.database.as_ref()?.shell.first()?;
    match client.rsplit('/').next()? {
        "psql" => Some(Dialect::Postgres),
        "mariadb" | "mysql" => Some(Dialect::Mysql),
        "sqlite3" => Some(Dialect::Sqlite),
        _ => None,
    }
}

/// Returns the script that runs the query `$1` in a read-only session. The database's own shell follows the query.
fn script(dialect: Dialect) -> String {
    match dialect {
        Dialect::Postgres => {
            "PGOPTIONS='-c default_transaction_read_only=on -c statement_timeout=8s' \
             exec psql -X -q --csv -v ON_ERROR_STOP=1 -c \"$1\""
                .to_owned()
        }
        Dialect::Mysql => "query=$1; shift; \
             exec \"$@\" --batch --execute \"set session transaction read only; $query\""
            .to_owned(),
        Dialect::Sqlite => format!("exec python3 -c '{SQLITE}' \"$1\""),
    }
}

const SQLITE: &str = "import csv, os, sqlite3, sys
db = sqlite3.connect(\"file:\" + os.environ[\"SQLITE_FILE\"] + \"?mode=ro\", uri=True)
found = db.execute(sys.argv[1])
out = csv.writer(sys.stdout)
out.writerow([column[0] for column in found.description])
out.writerows(found)";

fn statement(dialect: Dialect, table: &str, from: usize) -> String {
    let limit = ROWS + 1;
    let table = match dialect {
        // Already quoted with `format('%I')` by the listing.
        Dialect::Postgres => table.to_owned(),
        Dialect::Mysql => format!("`{}`", table.replace('`', "``")),
        Dialect::Sqlite => format!("\"{}\"", table.replace('"', "\"\"")),
    };
    format!("select * from {table} limit {limit} offset {from}")
}

/// Parses `name<TAB>rows` lines.
fn tables(text: &str) -> Vec<Table> {
    let line = |line: &str| {
        let (name, rows) = line.split_once('\t').unwrap_or((line, ""));
        let name = name.trim();
        let table = Table { name: name.to_owned(), rows: rows.trim().parse().ok() };
        (!name.is_empty()).then_some(table)
    };
    text.lines().filter_map(line).take(TABLES).collect()
}

/// Builds a page from lines, the first of which has the column names.
fn page(mut lines: Vec<Vec<String>>, is_cut: bool) -> Rows {
    if is_cut {
        // The last row may be incomplete.
        lines.pop();
    }
    let shown =
        |line: Vec<String>| line.into_iter().take(COLUMNS).map(|text| short(&text)).collect();
    let mut lines = lines.into_iter().map(shown);
    let columns = lines.next().unwrap_or_default();
    let mut rows: Vec<Vec<String>> = lines.take(ROWS + 1).collect();
    let more = rows.len() > ROWS || is_cut;
    rows.truncate(ROWS);
    Rows { columns, rows, more }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(VALUE) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Parses the output of `mysql -B`: tab-separated values, with `\t`, `\n` and `\\` escaped.
fn tabbed(text: &str) -> Vec<Vec<String>> {
    let value = |value: &str| {
        let mut read = String::with_capacity(value.len());
        let mut rest = value.chars();
        while let Some(letter) = rest.next() {
            match (letter, letter == '\\') {
                (_, false) => read.push(letter),
                (_, true) => match rest.next() {
                    Some('n') => read.push('\n'),
                    Some('t') => read.push('\t'),
                    Some('0') => read.push('\0'),
                    Some(other) => read.push(other),
                    None => {}
                },
            }
        }
        read
    };
    text.lines().map(|line| line.split('\t').map(value).collect()).collect()
}

/// Parses comma-separated values (RFC 4180).
fn separated(text: &str) -> Vec<Vec<String>> {
    let (mut lines, mut line, mut value) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut letters) = (false, text.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                value.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => line.push(std::mem::take(&mut value)),
            '\r' if !quoted && letters.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                line.push(std::mem::take(&mut value));
                lines.push(std::mem::take(&mut line));
            }
            letter => value.push(letter),
        }
    }
    if !value.is_empty() || !line.is_empty() {
        line.push(value);
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_with_quotes_and_lines_in_them() {
        let lines = separated("id,name\n1,\"a \"\"b\"\", c\"\n2,\"two\nlines\"\r\n3,\n");
        assert_eq!(lines[0], ["id", "name"]);
        assert_eq!(lines[1], ["1", "a \"b\", c"]);
        assert_eq!(lines[2], ["2", "two\nlines"]);
        assert_eq!(lines[3], ["3", ""]);
        assert_eq!(separated("cut,\"off"), [["cut", "off"]]);
        assert_eq!(tabbed("a\\tb\tc\\\\\\n\n"), [["a\tb", "c\\\n"]]);
    }

    #[test]
    fn a_page_has_at_most_its_rows_and_says_if_there_are_more() {
        let lines = |count: usize| {
            let rows = (0..count).map(|number| vec![number.to_string()]);
            std::iter::once(vec!["id".to_owned()]).chain(rows).collect::<Vec<_>>()
        };
        let few = page(lines(3), false);
        assert_eq!((few.columns, few.rows.len(), few.more), (vec!["id".to_owned()], 3, false));
        let many = page(lines(ROWS + 1), false);
        assert_eq!((many.rows.len(), many.more), (ROWS, true));
        assert_eq!(page(lines(3), true).rows.len(), 2, "a part of a row is left out");
        assert!(page(vec![vec!["x".repeat(999)]], false).columns[0].ends_with('…'));
    }

    #[test]
    fn names_of_tables_are_quoted_where_the_list_does_not() {
        assert_eq!(
            statement(Dialect::Mysql, "a`; drop table b; --", 0),
            "select * from `a``; drop table b; --` limit 51 offset 0"
        );
        assert!(statement(Dialect::Sqlite, "a\"b", 50).contains("\"a\"\"b\" limit 51 offset 50"));
        let listed = tables("public.users\t3\n\nkeys\n");
        assert_eq!(listed[0], Table { name: "public.users".into(), rows: Some(3) });
        assert_eq!(listed[1], Table { name: "keys".into(), rows: None });
    }
}
