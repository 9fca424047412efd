//! Objects made of named blocks, as in Azure: kept beside uploads until a block list is committed.

use std::{fs::File, path::PathBuf};

use hothouse_host::{FileError, files};
use hothouse_model::id::hex;
use hothouse_sinks::objects::ObjectError;
use serde::{Deserialize, Serialize};

use crate::{About, Digests, Expected, Received, Store, StoreError, UploadRecord, read, write};

/// The maximum number of uncommitted blocks, and the maximum length of a name.
const BLOCKS: usize = 50_000;
const NAME: usize = 128;

/// An uploaded block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Block {
    pub name: String,
    pub size: u64,
}

fn digest(text: &str) -> String {
    hex(&md5::compute(text).0)
}

impl Store {
    /// Stores a block, replacing one with the same name.
    pub fn stage_block(
        &self,
        (bucket, key): (&str, &str),
        name: &str,
        received: Received,
    ) -> Result<(), StoreError> {
        let _turn = self.turn();
        let folder = self.blocks_folder(bucket, key)?;
        if name.is_empty() || name.len() > NAME {
            return Err(ObjectError::new(
                400,
                "InvalidBlockId",
                "the name of the block is not valid",
            )
            .into());
        }
        files::make_private_folder(&folder)?;
        if files::list(&folder)?.len() > 2 * BLOCKS {
            let message = format!("a blob has at most {BLOCKS} blocks that wait for their list");
            return Err(ObjectError::new(409, "BlockCountExceedsLimit", message).into());
        }
        write(
            &folder.join("upload.json"),
            &UploadRecord { key: key.to_owned(), about: About::default() },
        )?;
        let file = folder.join(format!("block-{}", digest(name)));
        let size = received.size;
        self.count(size, 0);
        received.keep_as(&file)?;
        write(&file.with_extension("json"), &Block { name: name.to_owned(), size })
    }

    /// Returns the uncommitted blocks.
    pub fn staged_blocks(&self, (bucket, key): (&str, &str)) -> Result<Vec<Block>, StoreError> {
        let mut found = Vec::new();
        for file in files::list(&self.blocks_folder(bucket, key)?)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with("block-") && name.ends_with(".json") {
                found.extend(read::<Block>(&file)?);
            }
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// Joins blocks in the order of a list.
    pub fn join_blocks(
        &self,
        (bucket, key): (&str, &str),
        names: &[String],
    ) -> Result<Received, StoreError> {
        let folder = self.blocks_folder(bucket, key)?;
        let mut incoming = self.receive(Digests::default())?;
        for name in names {
            let path = folder.join(format!("block-{}", digest(name)));
            let block: Option<Block> = read(&path.with_extension("json"))?;
            let block = block.ok_or_else(|| {
                ObjectError::new(400, "InvalidBlockList", "a block of the list has not come")
            })?;
            let failed = |source| FileError { attempt: "open", path: path.clone(), source };
            incoming.write_part(&File::open(&path).map_err(failed)?, 0, block.size)?;
        }
        incoming.finish(&Expected::default())
    }

    /// Removes the uncommitted blocks of a key.
    pub fn drop_blocks(&self, (bucket, key): (&str, &str)) -> Result<(), StoreError> {
        let _turn = self.turn();
        files::remove_tree(&self.blocks_folder(bucket, key)?)?;
        self.recount();
        Ok(())
    }

    fn blocks_folder(&self, bucket: &str, key: &str) -> Result<PathBuf, StoreError> {
        Ok(self.existing(bucket)?.join("uploads").join(digest(&format!("blocks of {key}"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{now, received};

    #[test]
    fn blocks_become_an_object_in_the_order_of_their_list() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        store.make_bucket("goods", now()).unwrap();
        let at = ("goods", "film");
        for (name, bytes) in [("Yg==", "b"), ("YQ==", "old"), ("YQ==", "a"), ("../..", "x")] {
            store.stage_block(at, name, received(&store, bytes.as_bytes())).unwrap();
        }
        let names: Vec<_> =
            store.staged_blocks(at).unwrap().into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["../..", "YQ==", "Yg=="]);
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let missing = store.join_blocks(at, &list(&["YQ==", "nowhere"])).unwrap_err();
        assert_eq!(missing.told().code, "InvalidBlockList");
        let joined = store.join_blocks(at, &list(&["YQ==", "Yg==", "YQ=="])).unwrap();
        assert_eq!((joined.size, joined.md5.as_str()), (3, &*digest("aba")));
        store.drop_blocks(at).unwrap();
        assert!(
            store.staged_blocks(at).unwrap().is_empty()
                && store.uploads("goods").unwrap().is_empty()
        );
    }
}
