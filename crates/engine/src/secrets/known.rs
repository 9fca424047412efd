//! The values fetched since the daemon started, for redaction.
//!
//! A replaced value stays secret, so old ones are remembered for a while.

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use hothouse_model::secret::SecretValue;

/// How many values of one secret are remembered, and in total.
const OF_ONE: usize = 4;
const OF_ALL: usize = 1000;

/// Values by owner; newest last.
#[derive(Default)]
pub(crate) struct KnownValues {
    all: Mutex<Vec<Known>>,
    /// Counts the changes.
    generation: AtomicU64,
}

struct Known {
    /// `None` for all projects.
    project: Option<PathBuf>,
    name: String,
    value: SecretValue,
}

impl KnownValues {
    fn all(&self) -> MutexGuard<'_, Vec<Known>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fetched value.
    pub(super) fn note(&self, project: Option<&Path>, name: &str, value: &SecretValue) {
        let mut all = self.all();
        let is_same = |one: &Known| one.project.as_deref() == project && one.name == name;
        if all.iter().any(|one| is_same(one) && one.value == *value) {
            return;
        }
        let oldest = match all.iter().filter(|one| is_same(one)).count() >= OF_ONE {
            true => all.iter().position(is_same),
            false => (all.len() >= OF_ALL).then_some(0),
        };
        if let Some(oldest) = oldest {
            all.remove(oldest);
        }
        let project = project.map(Path::to_owned);
        all.push(Known { project, name: name.to_owned(), value: value.clone() });
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Returns the known values for a project, with their names, and the current generation.
    pub(super) fn of(&self, project: &Path) -> (u64, Vec<(String, SecretValue)>) {
        let generation = self.generation();
        let all = self.all();
        let ours = |one: &&Known| one.project.as_deref().is_none_or(|of| of == project);
        let named = |one: &Known| (one.name.clone(), one.value.clone());
        (generation, all.iter().filter(ours).map(named).collect())
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> SecretValue {
        SecretValue::new(text.to_owned()).unwrap()
    }

    #[test]
    fn values_are_known_for_their_project_and_old_ones_for_a_while() {
        let known = KnownValues::default();
        let (one, other) = (Path::new("/one"), Path::new("/other"));
        known.note(Some(one), "KEY", &value("first value"));
        known.note(Some(one), "KEY", &value("first value"));
        assert_eq!(known.generation(), 1);
        known.note(None, "ALL", &value("for everybody"));
        let names = |project| -> Vec<String> {
            known.of(project).1.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(
            (names(one), names(other)),
            (vec!["KEY".into(), "ALL".into()], vec!["ALL".into()])
        );
        for number in 0..OF_ONE {
            known.note(Some(one), "KEY", &value(&format!("value number {number}")));
        }
        let values = known.of(one).1;
        assert_eq!(values.len(), OF_ONE + 1);
        assert!(!values.contains(&("KEY".into(), value("first value"))));
    }
}
