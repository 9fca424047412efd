//! Secrets: where their values come from. The values are never here.

use std::path::PathBuf;

use hothouse_model::config::{HostPattern, SecretName, SecretSource};
use rusqlite::{params, types::Type};

use crate::{Store, StoreError, sandboxes::parsed};

/// The user's settings for one secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRecord {
    /// The git directory of its project; `None` for every project.
    pub project: Option<PathBuf>,
    pub name: SecretName,
    pub source: SecretSource,
    /// The hosts that may receive it; empty leaves that to the config.
    pub hosts: Vec<HostPattern>,
    pub set: jiff::Timestamp,
}

impl SecretRecord {
    fn project_text(project: Option<&PathBuf>) -> String {
        project.map(|project| project.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

impl Store {
    /// Records where a secret comes from, replacing the previous record.
    pub fn set_secret(&self, record: &SecretRecord) -> Result<(), StoreError> {
        let hosts: Vec<String> = record.hosts.iter().map(ToString::to_string).collect();
        let hosts = serde_json::to_string(&hosts).expect("texts are plain text");
        self.change("note the secret", |transaction| {
            transaction.execute(
                "INSERT OR REPLACE INTO secrets (project, name, source, hosts, set_at) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![
                    SecretRecord::project_text(record.project.as_ref()),
                    record.name.as_str(),
                    record.source.to_string(),
                    hosts,
                    record.set.to_string(),
                ],
            )
        })?;
        Ok(())
    }

    /// Returns all secrets, those for every project first.
    pub fn secrets(&self) -> Result<Vec<SecretRecord>, StoreError> {
        self.read("list the secrets", |connection| {
            connection
                .prepare_cached(
                    "SELECT project, name, source, hosts, set_at FROM secrets ORDER BY project, name",
                )?
                .query_map([], |row| {
                    let project: String = row.get(0)?;
                    let hosts: String = row.get(3)?;
                    let hosts = serde_json::from_str(&hosts).map_err(|error| {
                        rusqlite::Error::FromSqlConversionFailure(3, Type::Text, Box::new(error))
                    })?;
                    Ok(SecretRecord {
                        project: (!project.is_empty()).then(|| project.into()),
                        name: parsed(row, 1)?,
                        source: parsed(row, 2)?,
                        hosts,
                        set: parsed(row, 4)?,
                    })
                })?
                .collect()
        })
    }

    /// Deletes a secret; returns whether it existed.
    pub fn forget_secret(
        &self,
        project: Option<&PathBuf>,
        name: &SecretName,
    ) -> Result<bool, StoreError> {
        let gone = self.change("forget the secret", |transaction| {
            transaction.execute(
                "DELETE FROM secrets WHERE project = ?1 AND name = ?2",
                params![SecretRecord::project_text(project), name.as_str()],
            )
        })?;
        Ok(gone > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_per_project_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        let record = |project: Option<&str>, source: &str| SecretRecord {
            project: project.map(Into::into),
            name: "TOKEN".parse().unwrap(),
            source: source.parse().unwrap(),
            hosts: vec!["*.example.com".parse().unwrap()],
            set: jiff::Timestamp::UNIX_EPOCH,
        };
        let (own, all) = (record(Some("/r/.git"), "file"), record(None, "env:TOKEN"));
        store.set_secret(&record(Some("/r/.git"), "keyring")).unwrap();
        store.set_secret(&own).unwrap();
        store.set_secret(&all).unwrap();
        assert_eq!(store.secrets().unwrap(), [all.clone(), own.clone()]);
        assert!(store.forget_secret(own.project.as_ref(), &own.name).unwrap());
        assert!(!store.forget_secret(own.project.as_ref(), &own.name).unwrap());
        assert_eq!(store.secrets().unwrap(), [all]);
    }
}
