//! Requests from agents to their user. The user decides: an approved host is allowed for that sandbox, every other
//! answer is only passed on to the agent.

use hothouse_config::{File, Layers};
use hothouse_host::random;
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    ask::{AskRecord, AskState, KEPT_LIMIT, OPEN_LIMIT, TEXT_LIMIT, Wanted},
    config::Notify,
    id::SandboxKey,
    record::Kind,
};
use hothouse_store::GrantReach;

use crate::{Engine, project::read_file};

impl Engine {
    /// Returns how the user wants to be notified, from their own file only; the default if it cannot be read.
    pub fn notify_settings(&self) -> Notify {
        let name = self.with.user_config.display().to_string();
        let bytes = read_file(&self.with.user_config).ok().flatten();
        let user = bytes.as_deref().map(|bytes| File { name: &name, bytes });
        let layers = Layers { user, ..Layers::default() };
        hothouse_config::resolve(&layers).map(|found| found.config.notify).unwrap_or_default()
    }

    /// Records a request from an agent; returns it, and whether it is new.
    pub fn ask(
        &self,
        sandbox: &SandboxRecord,
        text: String,
        mut wanted: Wanted,
    ) -> Result<(AskRecord, bool), Failure> {
        check(&text, &wanted)?;
        if let Some(host) = &mut wanted.host {
            *host = self.check_egress_rule(sandbox, host)?;
        }
        let open = self.asks(Some(sandbox.key))?;
        let open: Vec<_> = open.iter().filter(|ask| ask.state == AskState::Open).collect();
        if let Some(same) = open.iter().find(|ask| ask.text == text && ask.wanted == wanted) {
            return Ok(((*same).clone(), false));
        }
        if open.len() >= OPEN_LIMIT {
            let message = format!("`{}` has {OPEN_LIMIT} open requests already", sandbox.name);
            return Err(Failure::new(FailureKind::Conflict, message)
                .hint("wait for an answer: `hothouse wait ask id=ID`"));
        }
        let ask = AskRecord {
            id: Kind::Ask.id(random::bytes()),
            sandbox: sandbox.key,
            asked: self.now(),
            text,
            wanted,
            state: AskState::Open,
            answer: None,
            answered: None,
        };
        self.with.store.add_ask(&ask, KEPT_LIMIT).map_err(|error| error.failure())?;
        Ok((ask, true))
    }

    /// Returns the requests of one sandbox, or of all, oldest first.
    pub fn asks(&self, sandbox: Option<SandboxKey>) -> Result<Vec<AskRecord>, Failure> {
        self.with.store.asks(sandbox).map_err(|error| error.failure())
    }

    /// Answers a request, and performs it if approved.
    pub fn answer_ask(
        &self,
        id: &str,
        allowed: bool,
        answer: Option<&str>,
    ) -> Result<(SandboxRecord, AskRecord), Failure> {
        let unknown = || {
            let shown: String = id.chars().take(80).collect();
            Failure::new(FailureKind::NotFound, format!("there is no request `{shown}`"))
                .hint("`hothouse asks` lists them")
        };
        let all = self.asks(None)?;
        let ask = all.into_iter().find(|ask| ask.id == id).ok_or_else(unknown)?;
        let sandbox = self.sandbox(ask.sandbox)?.ok_or_else(unknown)?;
        if ask.state != AskState::Open {
            let message = format!("`{}` was answered already: {}", ask.id, ask.state.as_str());
            return Err(Failure::new(FailureKind::Conflict, message)
                .hint("`hothouse egress allow` and `hothouse secret` change the decision"));
        }
        if let Some(host) = ask.wanted.host.as_ref().filter(|_| allowed) {
            let rules = std::slice::from_ref(host);
            self.allow_egress(&sandbox, GrantReach::Sandbox, rules)?;
        }
        let state = if allowed { AskState::Allowed } else { AskState::Denied };
        let answered = self.with.store.answer_ask(id, state, answer, self.now());
        let answered = answered.map_err(|error| error.failure())?.ok_or_else(unknown)?;
        Ok((sandbox, answered))
    }
}

/// Checks the size and shape of a request.
fn check(text: &str, wanted: &Wanted) -> Result<(), Failure> {
    let usage = |message: String| Err(Failure::new(FailureKind::Usage, message));
    if text.trim().is_empty() {
        return usage("a request needs a reason".into());
    }
    let Wanted { host, secret, limit } = wanted;
    if [host, secret, limit].into_iter().flatten().count() > 1 {
        return usage("a request is about one host, one secret or one limit".into());
    }
    let parts = [host, secret, limit].into_iter().flatten().map(String::as_str);
    if std::iter::once(text).chain(parts).any(|part| part.len() > TEXT_LIMIT) {
        return usage(format!("a request has at most {TEXT_LIMIT} bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_reason_and_one_subject() {
        let wanted = |host: Option<&str>, secret: Option<&str>| Wanted {
            host: host.map(str::to_owned),
            secret: secret.map(str::to_owned),
            limit: None,
        };
        assert!(check("to fetch prices", &wanted(Some("api.example.com"), None)).is_ok());
        assert!(check("to talk", &Wanted::default()).is_ok());
        assert!(check(" \n", &Wanted::default()).is_err());
        assert!(check("both", &wanted(Some("a.example"), Some("TOKEN"))).is_err());
        assert!(check(&"x".repeat(TEXT_LIMIT + 1), &Wanted::default()).is_err());
        assert!(check("x", &wanted(Some(&"x".repeat(TEXT_LIMIT + 1)), None)).is_err());
    }
}
