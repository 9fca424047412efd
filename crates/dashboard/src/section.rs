//! The sections of a run: one page for each kind of record.

use hothouse_model::record::Kind;

/// A page about a sandbox or a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section {
    Timeline,
    Mail,
    Errors,
    Events,
    Requests,
    Webhooks,
    Objects,
    Flags,
    Models,
    Traces,
    Network,
    Browser,
    Jobs,
    Agents,
    Scenarios,
    Snapshots,
}

impl Section {
    /// Every section, in the order of the navigation.
    pub const ALL: [Self; 16] = [
        Self::Timeline,
        Self::Mail,
        Self::Errors,
        Self::Events,
        Self::Requests,
        Self::Webhooks,
        Self::Objects,
        Self::Flags,
        Self::Models,
        Self::Traces,
        Self::Network,
        Self::Browser,
        Self::Jobs,
        Self::Agents,
        Self::Scenarios,
        Self::Snapshots,
    ];

    /// Returns its part of a URL.
    pub fn word(self) -> &'static str {
        self.about().0
    }

    /// Returns its name in the navigation.
    pub fn title(self) -> &'static str {
        self.about().1
    }

    /// Returns the kind of its records; `None` if it shows every kind, or no records.
    pub fn kind(self) -> Option<Kind> {
        self.about().2
    }

    /// Returns the section for a part of a URL.
    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|section| section.word() == word)
    }

    /// Returns the best section for records of a kind.
    pub fn of_kind(kind: Kind) -> Self {
        let own = Self::ALL.into_iter().find(|section| section.kind() == Some(kind));
        own.unwrap_or(Self::Timeline)
    }

    /// Returns the text of an empty page, which says what would be there.
    pub fn empty(self) -> &'static str {
        match self {
            Self::Mail => {
                "No mail yet. What the apps send by SMTP or to a mail service appears here."
            }
            Self::Errors => {
                "No errors yet. What the apps report to Sentry or Rollbar appears here."
            }
            Self::Events => {
                "No events yet. What the apps send to an analytics service appears here."
            }
            Self::Requests => "No requests yet. Calls to hosts with an integration appear here.",
            Self::Webhooks => "No webhooks yet. `hothouse webhook` sends one to an app.",
            Self::Objects => {
                "No objects yet. Files that the apps upload to S3 and the like appear here."
            }
            Self::Flags => "No flags yet. Flags that the apps ask for appear here.",
            Self::Models => "No calls yet. Calls of the apps to language models appear here.",
            Self::Traces => "No traces yet. Spans that the apps send by OpenTelemetry appear here.",
            Self::Network => "No connections yet. Every connection out of the room appears here.",
            Self::Browser => "No pages yet. `hothouse browse` and scenarios open some.",
            Self::Jobs => "No jobs yet. Jobs of the queues that the apps use appear here.",
            Self::Agents => "No agents yet. `hothouse agent start` starts one.",
            Self::Timeline | Self::Scenarios | Self::Snapshots => "Nothing recorded yet.",
        }
    }

    /// Returns an example of a filter.
    pub fn example(self) -> &'static str {
        match self {
            Self::Mail => "to:buyer subject:receipt",
            Self::Errors => "message:timeout new=true",
            Self::Events => "name:checkout properties.plan=pro",
            Self::Requests => "host:stripe status=500",
            Self::Webhooks => "vendor=stripe status=200",
            Self::Objects => "bucket=uploads key:invoice",
            Self::Flags => "key:checkout value=true",
            Self::Models => "model:claude matched=false",
            Self::Traces => "name:checkout status=error",
            Self::Network => "host:example allowed=false",
            Self::Browser => "status=404 title:order",
            Self::Jobs => "queue:mail state=failed",
            Self::Agents => "state=waiting",
            Self::Timeline | Self::Scenarios | Self::Snapshots => "receipt service=api",
        }
    }

    /// Returns whether it needs a sandbox, because what it shows or changes is not part of a run.
    pub fn needs_sandbox(self) -> bool {
        matches!(self, Self::Scenarios | Self::Snapshots)
    }

    fn about(self) -> (&'static str, &'static str, Option<Kind>) {
        match self {
            Self::Timeline => ("timeline", "Timeline", None),
            Self::Mail => ("mail", "Mail", Some(Kind::Mail)),
            Self::Errors => ("errors", "Errors", Some(Kind::Error)),
            Self::Events => ("events", "Events", Some(Kind::Event)),
            Self::Requests => ("requests", "Requests", Some(Kind::Request)),
            Self::Webhooks => ("webhooks", "Webhooks", Some(Kind::Webhook)),
            Self::Objects => ("objects", "Objects", Some(Kind::Object)),
            Self::Flags => ("flags", "Flags", Some(Kind::Flag)),
            Self::Models => ("models", "Models", Some(Kind::Llm)),
            Self::Traces => ("traces", "Traces", Some(Kind::Trace)),
            Self::Network => ("network", "Network", Some(Kind::Connection)),
            Self::Browser => ("browser", "Browser", Some(Kind::Browser)),
            Self::Jobs => ("queue", "Queue", Some(Kind::Job)),
            Self::Agents => ("agents", "Agents", Some(Kind::Agent)),
            Self::Scenarios => ("scenarios", "Scenarios", None),
            Self::Snapshots => ("snapshots", "Snapshots", None),
        }
    }
}

#[cfg(test)]
mod tests {
    use hothouse_model::query::Query;

    use super::*;

    #[test]
    fn every_example_is_a_filter_of_its_section() {
        for section in Section::ALL {
            let parsed = Query::parse(section.example(), section.kind());
            assert!(parsed.is_ok(), "{section:?}: {parsed:?}");
        }
    }

    #[test]
    fn each_section_has_its_own_word_and_kind() {
        for section in Section::ALL {
            assert_eq!(Section::read(section.word()), Some(section));
            if let Some(kind) = section.kind() {
                assert_eq!(Section::of_kind(kind), section);
            }
        }
        assert_eq!(Section::read("mial"), None);
        assert_eq!(Section::of_kind(Kind::Exec), Section::Timeline);
    }
}
