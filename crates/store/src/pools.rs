//! Pools: the folders for which one was requested.

use std::path::{Path, PathBuf};

use crate::{Store, StoreError};

impl Store {
    /// Returns the folders for which a pool was requested.
    pub fn pools(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.read("list the pools", |connection| {
            connection
                .prepare_cached("SELECT folder FROM pools ORDER BY folder")?
                .query_map([], |row| row.get::<_, String>(0).map(PathBuf::from))?
                .collect()
        })
    }

    /// Records that a pool is about to be made for a folder. Idempotent.
    pub fn remember_pool(&self, folder: &Path) -> Result<(), StoreError> {
        let folder = folder.to_string_lossy();
        self.change("note the pool", |transaction| {
            transaction.execute("INSERT OR IGNORE INTO pools VALUES (?1)", [&folder])
        })?;
        Ok(())
    }

    /// Removes the record of a pool. Idempotent.
    pub fn forget_pool(&self, folder: &Path) -> Result<(), StoreError> {
        let folder = folder.to_string_lossy();
        self.change("forget the pool", |transaction| {
            transaction.execute("DELETE FROM pools WHERE folder = ?1", [&folder])
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_remembered_once_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        for _ in 0..2 {
            store.remember_pool(Path::new("/r-sandboxes")).unwrap();
        }
        assert_eq!(store.pools().unwrap(), [PathBuf::from("/r-sandboxes")]);
        for _ in 0..2 {
            store.forget_pool(Path::new("/r-sandboxes")).unwrap();
        }
        assert_eq!(store.pools().unwrap(), Vec::<PathBuf>::new());
    }
}
