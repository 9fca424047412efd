//! The bodies of records, by kind.
//!
//! Field names are API: `--json` of the kind's own command prints them, and queries name them.

mod agent;
mod error;
mod mail;
mod network;
mod sandbox;
mod sunk;

pub use self::{
    agent::{AgentBody, AskBody, AuditBody},
    error::{Breadcrumb, ErrorBody, ErrorCause, ErrorFile, ErrorGroup, ErrorRequest, Frame},
    mail::{Attachment, MailBody, MailCheck, MailEnvelope, MailFiles, MailTemplate},
    network::{BlobRef, ConnectionBody, Message, RequestBody, Transport, WebhookBody},
    sandbox::{
        CommitBody, ExecBody, GapKind, LogBody, MarkBody, Party, PolicyAction, PolicyArea,
        PolicyBody, RestoreBody, SeedBody, SeedStep, ServiceBody, SnapshotBody, TestBody, TestFile,
        TestOutcome, TestStatus,
    },
    sunk::{
        EventBody, FlagBody, JobBody, LlmBody, MediaSize, ObjectBody, ObjectOperation, Prompt,
        SpanStatus, TraceBody,
    },
};

use serde::Serialize;

use super::Kind;

/// A body that belongs to one kind of record.
pub trait Body: Serialize {
    const KIND: Kind;
}

macro_rules! bodies {
    ($($body:ident => $kind:ident),* $(,)?) => {
        $(impl Body for $body { const KIND: Kind = Kind::$kind; })*
    };
}

bodies! {
    MailBody => Mail,
    ErrorBody => Error,
    RequestBody => Request,
    ConnectionBody => Connection,
    ServiceBody => Service,
    MarkBody => Mark,
    SnapshotBody => Snapshot,
    RestoreBody => Restore,
    PolicyBody => Policy,
    CommitBody => Commit,
    ExecBody => Exec,
    LogBody => Log,
    WebhookBody => Webhook,
    EventBody => Event,
    ObjectBody => Object,
    FlagBody => Flag,
    LlmBody => Llm,
    TraceBody => Trace,
    SeedBody => Seed,
    JobBody => Job,
    TestBody => Test,
    AskBody => Ask,
    AgentBody => Agent,
    AuditBody => Audit,
}
