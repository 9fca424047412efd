//! The differences between runs of the same scenario, aligned and without ids and times, and how much is the same.

mod items;
mod normal;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hothouse_model::record::{Kind, Record};
use serde::{Deserialize, Serialize};

use crate::{
    checks::{cut, flat},
    judge,
    outcome::ScenarioOutcome,
    page::PageSeen,
    pixels::{self, Picture},
    queries::Spans,
};

use self::items::Item;
pub use self::normal::Normal;

/// The maximum number of differences listed.
const MOST: usize = 500;

/// A screenshot differs if more than this percentage of it does.
const PIXELS: f64 = 0.1;

/// Something is slower if it takes at least this many times as long, and at least this many milliseconds longer.
const SLOWER: f64 = 2.0;
const SLOWER_MS: f64 = 250.0;

/// How much of a hash is shown, including `sha256:`.
const FINGERPRINT: usize = 17;

/// One run.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// The name of the sandbox or the run.
    pub name: String,
    pub sandbox: String,
    pub run: String,
    pub commit: String,
    /// The records of the scenario, oldest first.
    pub records: Vec<Record>,
    pub outcome: Option<ScenarioOutcome>,
    /// The contents of the screenshot files.
    pub screenshots: Vec<Vec<u8>>,
    /// The hash of each fixture; `None` if unknown.
    pub fixtures: Option<BTreeMap<String, String>>,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Comparison {
    pub sides: Vec<SideShown>,
    pub differences: Vec<Difference>,
    /// How many of each kind are the same.
    pub same: BTreeMap<String, u64>,
    /// Images of differences.
    #[serde(skip)]
    pub pictures: Vec<(String, Vec<u8>)>,
}

/// A summary of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SideShown {
    pub name: String,
    pub run: String,
    pub commit: String,
    pub ok: Option<bool>,
    pub checks: Vec<CheckShown>,
    pub records: u64,
    pub took_ms: Option<u64>,
}

/// A summary of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckShown {
    pub kind: String,
    pub query: String,
    pub ok: bool,
}

/// Something that differs between the sides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Difference {
    pub kind: String,
    pub what: String,
    /// `None` if that side does not have it.
    pub left: Option<String>,
    pub right: Option<String>,
    /// The side on the right, if there are more than two sides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// The image of the difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
}

/// Compares the first side with each of the others.
pub fn compare(sides: &[Side]) -> Comparison {
    let mut all = Comparison { sides: sides.iter().map(shown).collect(), ..Comparison::default() };
    let Some((left, others)) = sides.split_first() else { return all };
    let mut first: Option<BTreeMap<String, u64>> = None;
    for right in others {
        let mut pair = Pair { comparison: Comparison::default() };
        pair.compare(left, right);
        let side = (others.len() > 1).then(|| right.name.clone());
        let Comparison { differences, same, pictures, .. } = pair.comparison;
        let named = differences.into_iter().map(|one| Difference { side: side.clone(), ..one });
        all.differences.extend(named);
        all.same = match &first {
            None => same.clone(),
            // With several comparisons, count what is the same in all of them.
            Some(known) => in_both(known, &same),
        };
        first = Some(all.same.clone());
        all.pictures.extend(pictures);
    }
    all.differences.truncate(MOST);
    all
}

fn in_both(one: &BTreeMap<String, u64>, other: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let both = one.iter().filter_map(|(kind, count)| Some((kind, *count.min(other.get(kind)?))));
    both.map(|(kind, count)| (kind.clone(), count)).collect()
}

fn shown(side: &Side) -> SideShown {
    let outcome = side.outcome.as_ref();
    let checks = outcome.into_iter().flat_map(|outcome| &outcome.checks).map(|check| CheckShown {
        kind: check.kind.clone(),
        query: check.query.clone(),
        ok: check.ok,
    });
    SideShown {
        name: side.name.clone(),
        run: side.run.clone(),
        commit: side.commit.clone(),
        ok: outcome.map(|outcome| outcome.ok),
        checks: checks.collect(),
        records: side.records.len() as u64,
        took_ms: outcome.map(|outcome| outcome.took_ms),
    }
}

struct Pair {
    comparison: Comparison,
}

/// Collects what is replaced in the texts of a side: its names, and the keys in its links.
fn normal_of(side: &Side) -> Normal {
    let mut normal = Normal::new(&side.sandbox, &side.run);
    let page = side.outcome.as_ref().and_then(|outcome| outcome.page.as_ref());
    let urls = page.iter().flat_map(|page| [&page.url, &page.final_url]);
    urls.for_each(|url| normal.learn(url));
    for record in &side.records {
        let texts: &[&str] = match record.kind {
            Kind::Mail => &["/text", "/html"],
            Kind::Request => &["/path", "/query", "/request/text"],
            Kind::Browser => &["/url", "/final_url"],
            _ => &[],
        };
        let texts = texts.iter().filter_map(|place| record.body.pointer(place)?.as_str());
        texts.for_each(|text| normal.learn(text));
    }
    normal
}

impl Pair {
    fn compare(&mut self, left: &Side, right: &Side) {
        let normals = (normal_of(left), normal_of(right));
        let lists = (items::of(&left.records, &normals.0), items::of(&right.records, &normals.1));
        self.records(lists.0, lists.1);
        self.times(left, right, &normals);
        let outcomes = (left.outcome.as_ref(), right.outcome.as_ref());
        if let (Some(one), Some(other)) = (&left.fixtures, &right.fixtures) {
            self.fixtures(one, other);
        }
        if let (Some(one), Some(other)) = outcomes {
            self.declared(one, other);
            self.rows(one, other, &normals);
            if let (Some(one), Some(other)) = (&one.page, &other.page) {
                self.pages(one, other, &normals);
            }
        }
        self.screenshots(left, right);
    }

    fn add(&mut self, kind: &str, what: String, left: Option<String>, right: Option<String>) {
        let shown = |text: String| cut(&flat(&text));
        let (left, right) = (left.map(shown), right.map(shown));
        let kind = kind.to_owned();
        self.comparison.differences.push(Difference {
            kind,
            what: cut(&what),
            left,
            right,
            ..Difference::default()
        });
    }

    fn same(&mut self, kind: &str) {
        *self.comparison.same.entry(kind.to_owned()).or_default() += 1;
    }

    /// Counts a value as the same, or adds a difference.
    fn value(&mut self, kind: &str, what: &str, left: &str, right: &str) {
        match left == right {
            true => self.same(kind),
            false => {
                let (left, right) = differing(left, right);
                self.add(kind, what.to_owned(), Some(left), Some(right));
            }
        }
    }

    fn records(&mut self, left: Vec<Item>, right: Vec<Item>) {
        let (pairs, left, right) = align(left, right, |item| item.key.clone());
        pairs.into_iter().for_each(|(one, other)| self.item(&one, &other));
        let (near, left, right) = align(left, right, |item| item.loose.clone());
        near.into_iter().for_each(|(one, other)| self.item(&one, &other));
        for (key, kind, count) in counted(left) {
            self.add(kind, key, Some(times(count)), None);
        }
        for (key, kind, count) in counted(right) {
            self.add(kind, key, None, Some(times(count)));
        }
    }

    fn item(&mut self, one: &Item, other: &Item) {
        let differing = one.facts.iter().zip(&other.facts).filter(|(one, other)| one != other);
        let differing: Vec<_> = differing.collect();
        if differing.is_empty() {
            return self.same(one.kind);
        }
        let has_text = differing.iter().any(|((name, _), _)| *name == "text");
        for ((name, left), (_, right)) in differing {
            // The HTML of a mail differs wherever its text does.
            if *name == "html" && has_text {
                continue;
            }
            let (left, right) = self::differing(left, right);
            self.add(one.kind, format!("{}: {name}", one.key), Some(left), Some(right));
        }
    }

    fn queries(&mut self, left: &Spans, right: &Spans, (one, other): &(Normal, Normal)) {
        let lists = (items::queries(left, one), items::queries(right, other));
        for (name, count) in &lists.0 {
            let Some(now) = lists.1.get(name) else { continue };
            let (left, right) = (count.to_string(), now.to_string());
            self.value("queries", &format!("queries of {name}"), &left, &right);
        }
    }

    /// Reports what got slower or faster. A query has its own entry; what waits for it is not reported again.
    fn times(&mut self, left: &Side, right: &Side, normals: &(Normal, Normal)) {
        let spans = (Spans::of(&left.records), Spans::of(&right.records));
        self.queries(&spans.0, &spans.1, normals);
        let (one, other) = normals;
        let times = (items::query_times(&spans.0, one), items::query_times(&spans.1, other));
        let mut asked = (0.0, 0.0);
        let names: BTreeSet<&String> = times.0.keys().chain(times.1.keys()).collect();
        for name in names {
            // A query that only one side makes is counted above; here it is reported if it is slow.
            let [before, now] = [&times.0, &times.1].map(|times| times.get(name).copied());
            if self.time("query", name, before.unwrap_or(0.0), now.unwrap_or(0.0)) {
                asked = (asked.0 + before.unwrap_or(0.0), asked.1 + now.unwrap_or(0.0));
            }
        }
        let times = (items::durations(&spans.0, one), items::durations(&spans.1, other));
        for (name, before) in &times.0 {
            let Some(now) = times.1.get(name) else { continue };
            self.time("timing", name, *before, *now);
        }
        let page = |side: &Side| {
            let page = side.outcome.as_ref().and_then(|outcome| outcome.page.as_ref());
            #[expect(clippy::cast_precision_loss, reason = "milliseconds are far below 2^53")]
            page.map(|page| page.duration_ms as f64)
        };
        if let (Some(before), Some(now)) = (page(left), page(right)) {
            // The extra time of its slow queries is already reported.
            let (more, quicker) = (asked.1 - asked.0, before.min(now));
            let without = |page: f64, more: f64| (page - more.max(0.0)).max(quicker);
            self.time("timing", "the page", without(before, -more), without(now, more));
        }
    }

    /// Reports a large difference in time; returns whether there is one.
    fn time(&mut self, kind: &str, what: &str, before: f64, now: f64) -> bool {
        let (low, high) = (before.min(now), before.max(now));
        let differs = high >= low * SLOWER && high - low >= SLOWER_MS;
        if differs {
            let told = |ms: f64| Some(format!("{ms:.0} ms"));
            self.add(kind, what.to_owned(), told(before), told(now));
        }
        differs
    }

    /// Reports the differences between the scenarios that the sides ran.
    fn declared(&mut self, one: &ScenarioOutcome, other: &ScenarioOutcome) {
        let (Some(old), Some(new)) = (&one.declared, &other.declared) else { return };
        let changes = judge::difference(old, new);
        if changes.is_empty() {
            self.same("scenario");
        }
        for (weaker, how) in changes {
            let now = if weaker { "weaker" } else { "changed" };
            self.add("scenario", how, None, Some(now.to_owned()));
        }
    }

    fn fixtures(&mut self, one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) {
        for name in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
            let told = |side: &BTreeMap<String, String>| {
                side.get(name).map(|hash| hash.chars().take(FINGERPRINT).collect::<String>())
            };
            match one.get(name) == other.get(name) {
                true => self.same("fixture"),
                false => self.add("fixture", name.clone(), told(one), told(other)),
            }
        }
    }

    fn rows(&mut self, one: &ScenarioOutcome, other: &ScenarioOutcome, normals: &(Normal, Normal)) {
        for row in &one.rows {
            let fits = |answer: &&crate::checks::RowAnswer| {
                answer.service == row.service && answer.query == row.query
            };
            let Some(now) = other.rows.iter().find(fits) else { continue };
            let what = format!("{}: {}", row.service, row.query);
            let text = |answer: &crate::checks::RowAnswer, normal: &Normal| {
                let told = normal.text(answer.failure.as_deref().unwrap_or(&answer.rows));
                if told.trim().is_empty() { "no rows".to_owned() } else { told.trim().to_owned() }
            };
            self.value("row", &what, &text(row, &normals.0), &text(now, &normals.1));
        }
    }

    fn pages(&mut self, one: &PageSeen, other: &PageSeen, normals: &(Normal, Normal)) {
        let facts = |page: &PageSeen, normal: &Normal| {
            let list = |all: Vec<String>| normal.text(&all.join("; "));
            [
                ("page", "title", normal.text(&page.title)),
                (
                    "page",
                    "status",
                    page.status.map(|status| status.to_string()).unwrap_or_default(),
                ),
                ("page", "address", normal.text(&page.final_url)),
                ("page", "text", normal.text(&flat(&page.text))),
                ("console", "errors of the page", list(page.console_errors())),
                ("failed", "requests of the page that failed", list(page.failures())),
                ("broken", "pictures that do not show", list(page.broken())),
            ]
        };
        let (left, right) = (facts(one, &normals.0), facts(other, &normals.1));
        for ((kind, what, left), (_, _, right)) in left.into_iter().zip(right) {
            self.value(kind, what, &left, &right);
        }
    }

    fn screenshots(&mut self, left: &Side, right: &Side) {
        let decoded = |side: &Side| -> Vec<Option<Picture>> {
            side.screenshots.iter().map(|bytes| Picture::decode(bytes)).collect()
        };
        let pairs = decoded(left).into_iter().zip(decoded(right)).enumerate();
        for (number, pair) in pairs {
            let (Some(one), Some(other)) = pair else { continue };
            let found = pixels::difference(&one, &other);
            if found.percent() <= PIXELS {
                self.same("screenshot");
                continue;
            }
            let name = format!("difference-{}-{}.png", right.name.replace('/', "-"), number + 1);
            let size = |picture: &Picture| format!("{} × {}", picture.width, picture.height);
            let told = format!("{}, {:.1} % of the pixels differ", size(&other), found.percent());
            self.add(
                "screenshot",
                format!("screenshot {}", number + 1),
                Some(size(&one)),
                Some(told),
            );
            if let Some(last) = self.comparison.differences.last_mut() {
                last.picture = Some(name.clone());
            }
            self.comparison.pictures.push((name, found.shown.encode()));
        }
    }
}

/// Pairs the items of both sides that have the same kind and key, in order; also returns the unpaired ones.
fn align(
    left: Vec<Item>,
    right: Vec<Item>,
    key: impl Fn(&Item) -> String,
) -> (Vec<(Item, Item)>, Vec<Item>, Vec<Item>) {
    let mut waiting: BTreeMap<(&'static str, String), VecDeque<Item>> = BTreeMap::new();
    let mut alone = Vec::new();
    for item in right {
        match key(&item) {
            key if key.is_empty() => alone.push(item),
            key => waiting.entry((item.kind, key)).or_default().push_back(item),
        }
    }
    let (mut pairs, mut without) = (Vec::new(), Vec::new());
    for item in left {
        let found = waiting.get_mut(&(item.kind, key(&item))).and_then(|all| take(all, &item));
        match found {
            Some(other) => pairs.push((item, other)),
            None => without.push(item),
        }
    }
    alone.extend(waiting.into_values().flatten());
    (pairs, without, alone)
}

/// Takes the identical item, or otherwise the first.
fn take(all: &mut VecDeque<Item>, wanted: &Item) -> Option<Item> {
    let same = all.iter().position(|item| item.facts == wanted.facts);
    all.remove(same.unwrap_or(0))
}

fn counted(items: Vec<Item>) -> Vec<(String, &'static str, usize)> {
    let mut all: Vec<(String, &'static str, usize)> = Vec::new();
    for item in items {
        match all.iter_mut().find(|(key, kind, _)| *key == item.key && *kind == item.kind) {
            Some((_, _, count)) => *count += 1,
            None => all.push((item.key, item.kind, 1)),
        }
    }
    all
}

fn times(count: usize) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// Removes the common beginning and end of two texts, so that the difference is visible.
fn differing(left: &str, right: &str) -> (String, String) {
    /// How much of the common text is kept around it.
    const AROUND: usize = 24;
    let start = left.bytes().zip(right.bytes()).take_while(|(one, other)| one == other).count();
    let ends = left.bytes().rev().zip(right.bytes().rev());
    let end = ends.take_while(|(one, other)| one == other).count();
    let part = |text: &str| {
        let from = text.floor_char_boundary(start.saturating_sub(AROUND));
        let end = end.min(text.len().saturating_sub(start.min(text.len())));
        let to = text.ceil_char_boundary((text.len() - end + AROUND).min(text.len())).max(from);
        let before = if from > 0 { "…" } else { "" };
        let after = if to < text.len() { "…" } else { "" };
        format!("{before}{}{after}", &text[from..to])
    };
    (part(left), part(right))
}

#[cfg(test)]
mod tests;
