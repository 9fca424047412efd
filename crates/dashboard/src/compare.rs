//! Runs side by side: their differences, mails and screenshots.

use askama::Template;
use hothouse_model::{
    browse::BrowseReport,
    record::{Record, bodies::MailBody},
};

use crate::{
    detail::relative,
    place::{Part, Place, Subject},
    text::{counted, encoded, short, size},
};

/// The maximum number of mails and screenshots per pair.
const MOST: usize = 20;

/// The maximum number of characters of a mail's text.
const TEXT: usize = 4000;

/// A sandbox or run that can be selected as a side.
#[derive(Clone, Debug)]
pub struct Choice {
    pub value: String,
    pub title: String,
    pub is_chosen: bool,
}

/// A side that was compared.
#[derive(Clone, Debug, Default)]
pub struct SideLine {
    pub name: String,
    pub run: String,
    pub commit: String,
    pub ok: Option<bool>,
    pub held: usize,
    pub checks: usize,
    pub records: u64,
    pub took_ms: Option<u64>,
}

/// A difference.
#[derive(Clone, Debug, Default)]
pub struct DifferenceLine {
    pub kind: String,
    pub what: String,
    pub left: Option<String>,
    pub right: Option<String>,
    pub side: Option<String>,
    /// The URL of its image.
    pub picture: Option<String>,
}

/// A mail on one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailSeen {
    pub subject: String,
    pub to: String,
    /// The URL of its page, for a frame.
    pub frame: Option<String>,
    pub text: String,
}

/// The left and right of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Two<T> {
    pub left: Option<T>,
    pub right: Option<T>,
}

/// A screenshot on one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shot {
    pub title: String,
    pub to: String,
}

/// The first side and another one, side by side.
#[derive(Clone, Debug)]
pub struct Beside {
    pub left: String,
    pub right: String,
    pub mails: Vec<Two<MailSeen>>,
    pub shots: Vec<Two<Shot>>,
}

/// The page.
#[derive(Template, Clone, Debug, Default)]
#[template(path = "compare.html")]
pub struct ComparePage {
    pub choices: Vec<Choice>,
    pub sides: Vec<SideLine>,
    pub same: Vec<(String, u64)>,
    pub differences: Vec<DifferenceLine>,
    pub beside: Vec<Beside>,
    pub problem: Option<String>,
}

/// Returns the URL of a file of a run.
fn file(run: &str, file: String) -> String {
    Place::Of(Subject::Run(run.to_owned()), Part::File(file)).path()
}

/// Reads the mails of a run, only the newest for each subject and recipient; `records` are sorted newest first.
pub fn mails(run: &str, folder: &str, records: &[Record]) -> Vec<MailSeen> {
    let mut seen: Vec<MailSeen> = Vec::new();
    for body in records.iter().filter_map(|record| record.body::<MailBody>().ok()) {
        let html = body.files.html.as_deref().and_then(|html| relative(html, folder));
        let mail = MailSeen {
            subject: body.subject,
            to: body.to.join(", "),
            frame: html.map(|html| file(run, html)),
            text: body.text.unwrap_or_default().chars().take(TEXT).collect(),
        };
        if !seen.iter().any(|known| (&known.subject, &known.to) == (&mail.subject, &mail.to)) {
            seen.push(mail);
        }
    }
    seen.reverse();
    seen
}

/// Reads the screenshots of a run, newest page first; `records` are sorted newest first.
pub fn shots(run: &str, folder: &str, records: &[Record]) -> Vec<Shot> {
    let pages = records.iter().filter_map(|record| record.body::<BrowseReport>().ok());
    let shots = pages.flat_map(|page| {
        let title = page.title.clone();
        page.screenshots.into_iter().filter_map(move |shot| {
            let name = shot.rsplit('/').next().unwrap_or_default();
            let title = format!("{title} {name}");
            Some(Shot { title, to: file(run, relative(&shot, folder)?) })
        })
    });
    shots.take(MOST).collect()
}

/// Pairs mails with the same subject and recipient, then the others in their order.
pub fn paired(left: Vec<MailSeen>, mut right: Vec<MailSeen>) -> Vec<Two<MailSeen>> {
    let (mut pairs, mut alone) = (Vec::new(), Vec::new());
    for mail in left {
        let same = |other: &MailSeen| (&other.subject, &other.to) == (&mail.subject, &mail.to);
        match right.iter().position(same) {
            Some(at) => pairs.push(Two { left: Some(mail), right: Some(right.remove(at)) }),
            None => alone.push(mail),
        }
    }
    pairs.extend(zipped(alone, right));
    pairs.truncate(MOST);
    pairs
}

/// Pairs items in their order.
pub fn zipped<T>(left: Vec<T>, right: Vec<T>) -> Vec<Two<T>> {
    let (mut left, mut right) = (left.into_iter(), right.into_iter());
    let next = || match (left.next(), right.next()) {
        (None, None) => None,
        (left, right) => Some(Two { left, right }),
    };
    std::iter::from_fn(next).collect()
}

/// One side of a race, as shown on its page.
#[derive(Clone, Debug)]
pub struct RaceLine {
    pub side: hothouse_model::agent::RaceSide,
    /// The id of its sandbox, while it exists.
    pub sandbox: Option<String>,
}

/// A race.
#[derive(Clone, Debug)]
pub struct Race {
    pub name: String,
    pub base: String,
    pub sides: Vec<RaceLine>,
    /// Why it has no result: it is running, or it failed.
    pub problem: Option<String>,
    pub is_over: bool,
    /// The URL that compares its sides.
    pub compare: Option<String>,
}

/// All races whose sandboxes exist.
#[derive(Template, Clone, Debug)]
#[template(path = "races.html")]
pub struct Races {
    pub races: Vec<Race>,
}

/// Returns the URL that compares some runs or sandboxes.
pub fn address(sides: &[String]) -> String {
    let sides: Vec<String> = sides.iter().map(|side| format!("side={}", encoded(side))).collect();
    format!("{}?{}", Place::Compare.path(), sides.join("&"))
}

/// Returns both sides of a pair, each with its name.
fn halves<'a>(pair: &'a Beside, two: &'a Two<MailSeen>) -> [(&'a str, Option<&'a MailSeen>); 2] {
    [(&pair.left, two.left.as_ref()), (&pair.right, two.right.as_ref())]
}

fn bytes(bytes: &u64) -> String {
    size(*bytes)
}

fn seconds(seconds: &f64) -> String {
    format!("{seconds:.1} s")
}

fn held(side: &hothouse_model::agent::RaceSide) -> usize {
    side.checks.iter().filter(|check| check.ok).count()
}

fn commit(text: &str) -> String {
    text.chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(subject: &str) -> MailSeen {
        MailSeen { subject: subject.into(), to: "a".into(), frame: None, text: String::new() }
    }

    #[test]
    fn mails_stand_beside_those_with_the_same_subject() {
        let pairs =
            paired(vec![mail("a"), mail("b"), mail("c")], vec![mail("c"), mail("a"), mail("d")]);
        let shown: Vec<_> = pairs
            .iter()
            .map(|pair| {
                let subject =
                    |mail: &Option<MailSeen>| mail.as_ref().map(|mail| mail.subject.clone());
                (subject(&pair.left).unwrap_or_default(), subject(&pair.right).unwrap_or_default())
            })
            .collect();
        let expected = [("a", "a"), ("c", "c"), ("b", "d")];
        assert_eq!(shown, expected.map(|(left, right)| (left.to_owned(), right.to_owned())));
        assert_eq!(zipped(vec![1], vec![]), [Two { left: Some(1), right: None }]);
    }
}
