//! The expectations of a scenario as a flat list: one entry for each check.

use std::time::Duration;

use hothouse_model::{
    config::{Effect, Expectation, Line, QueueExpectation, RowExpectation, Scenario},
    record::Kind,
};

/// Whether something must be present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Wanted,
    Unwanted,
}

/// Something that a page may have only a limited amount of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    Console,
    Failed,
    Broken,
}

/// One expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The page was opened with this status; `None` for any that is not an error.
    Status(Option<u16>),
    Page(String, Presence),
    Limit(Limited, u32),
    Cookie(String, Presence),
    Service(String),
    Row(RowExpectation),
    Queue(QueueExpectation),
    /// A number of matching records.
    Records {
        kind: Kind,
        query: String,
        least: u32,
        most: Option<u32>,
    },
    /// No matching record.
    NoRecord {
        kind: Kind,
        query: String,
    },
    Errors(u32),
    Unmatched(u32),
    /// The maximum number of queries per request.
    Queries(u32),
    SlowestQuery(Duration),
}

/// A check to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub wanted: Wanted,
    /// How long to wait for it.
    pub within: Duration,
}

impl Wanted {
    /// Returns whether it requires something to happen, rather than not to happen.
    pub fn asks_for_an_effect(&self) -> bool {
        match self {
            Self::Page(_, presence) | Self::Cookie(_, presence) => *presence == Presence::Wanted,
            Self::Records { least, .. } => *least > 0,
            Self::Row(_) => true,
            _ => false,
        }
    }

    /// Returns whether waiting can make it pass. Waiting never removes something unwanted.
    pub fn is_awaited(&self) -> bool {
        match self {
            Self::Records { least, .. } => *least > 0,
            Self::Row(_) | Self::Queue(_) | Self::Service(_) => true,
            // Traces are sent in batches.
            Self::Queries(_) | Self::SlowestQuery(_) => true,
            _ => false,
        }
    }

    /// Returns whether a failed check could still pass. A slow query stays slow.
    pub fn can_come_true(&self, found: u64) -> bool {
        match self {
            Self::Queries(_) | Self::SlowestQuery(_) => found == 0,
            _ => self.is_awaited(),
        }
    }

    /// Returns whether later events can make it fail.
    pub fn can_break(&self) -> bool {
        match self {
            Self::Records { most, .. } => most.is_some(),
            Self::NoRecord { .. } | Self::Errors(_) | Self::Unmatched(_) => true,
            Self::Queries(_) | Self::SlowestQuery(_) => true,
            _ => false,
        }
    }
}

/// Lists the expectations of a scenario.
pub fn of(scenario: &Scenario) -> Vec<Expected> {
    let within = scenario.within;
    let expect = &scenario.expect;
    let mut all: Vec<Expected> = Vec::new();
    let mut add = |wanted| all.push(Expected { wanted, within });
    add(Wanted::Status(expect.status));
    of_page(expect).into_iter().for_each(&mut add);
    expect.service.iter().for_each(|name| add(Wanted::Service(name.to_string())));
    for row in &expect.row {
        let within = row.within.unwrap_or(within);
        all.push(Expected { wanted: Wanted::Row(row.clone()), within });
    }
    for queue in &expect.queue {
        let within = queue.within.unwrap_or(within);
        all.push(Expected { wanted: Wanted::Queue(queue.clone()), within });
    }
    for (kind, effects, absent) in records(expect) {
        all.extend(effects.iter().map(|effect| effect_of(kind, effect, within)));
        all.extend(absent.iter().map(|query| Expected {
            wanted: Wanted::NoRecord { kind, query: query.to_string() },
            within,
        }));
    }
    let limits = [
        expect.errors.map(Wanted::Errors),
        expect.unmatched.map(Wanted::Unmatched),
        expect.queries.map(Wanted::Queries),
        expect.slowest_query.map(Wanted::SlowestQuery),
    ];
    all.extend(limits.into_iter().flatten().map(|wanted| Expected { wanted, within }));
    all
}

/// Returns whether there are expectations about jobs, so that queues must be read.
pub fn is_about_jobs(expect: &Expectation) -> bool {
    !(expect.queue.is_empty() && expect.job.is_empty() && expect.no_job.is_empty())
}

fn of_page(expect: &Expectation) -> Vec<Wanted> {
    let texts = |lines: &[Line], make: fn(String, Presence) -> Wanted, presence| {
        lines.iter().map(|line| make(line.to_string(), presence)).collect::<Vec<_>>()
    };
    let limits = [
        (Limited::Console, expect.console),
        (Limited::Failed, expect.failed),
        (Limited::Broken, expect.broken),
    ];
    let limits = limits.map(|(what, most)| Wanted::Limit(what, most.unwrap_or(0)));
    [
        texts(&expect.page, Wanted::Page, Presence::Wanted),
        texts(&expect.no_page, Wanted::Page, Presence::Unwanted),
        limits.to_vec(),
        texts(&expect.cookie, Wanted::Cookie, Presence::Wanted),
        texts(&expect.no_cookie, Wanted::Cookie, Presence::Unwanted),
    ]
    .concat()
}

fn effect_of(kind: Kind, effect: &Effect, within: Duration) -> Expected {
    let exact = effect.count;
    let least = exact.or(effect.at_least).unwrap_or(match effect.at_most {
        Some(_) => 0,
        None => 1,
    });
    let query = effect.query.to_string();
    Expected {
        wanted: Wanted::Records { kind, query, least, most: exact.or(effect.at_most) },
        within: effect.within.unwrap_or(within),
    }
}

/// Returns the effects on the timeline by kind, wanted and unwanted.
pub fn records(expect: &Expectation) -> [(Kind, &[Effect], &[Line]); 9] {
    [
        (Kind::Mail, &expect.mail, &expect.no_mail),
        (Kind::Event, &expect.event, &expect.no_event),
        (Kind::Error, &expect.error, &expect.no_error),
        (Kind::Request, &expect.request, &expect.no_request),
        (Kind::Webhook, &expect.webhook, &expect.no_webhook),
        (Kind::Object, &expect.object, &expect.no_object),
        (Kind::Job, &expect.job, &expect.no_job),
        (Kind::Llm, &expect.llm, &expect.no_llm),
        (Kind::Log, &expect.log, &expect.no_log),
    ]
}
