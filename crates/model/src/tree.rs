//! Trees of a sandbox: what to make from what, with every decision made.

use std::{fmt, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{aside::AsidePlace, plan::BranchOrigin, words::word_type};

word_type! {
    /// The ways to make a tree, best first.
    DriverName { Btrfs = "btrfs", Overlay = "overlay", Reflink = "reflink", Copy = "copy" }
}

/// Who made a tree, and so who can remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum TreeMaker {
    Driver(DriverName),
    /// None of our drivers: the worktree was adopted.
    Foreign,
}

impl TreeMaker {
    /// The word for adopted worktrees.
    const FOREIGN: &str = "git";

    /// Returns its word in the store, in plans and in `status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Driver(name) => name.as_str(),
            Self::Foreign => Self::FOREIGN,
        }
    }

    /// Returns the driver, if it is one of ours.
    pub fn driver(self) -> Option<DriverName> {
        match self {
            Self::Driver(name) => Some(name),
            Self::Foreign => None,
        }
    }
}

/// A word that is not a tree driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown tree driver `{0}`")]
pub struct UnknownTreeMaker(String);

impl FromStr for TreeMaker {
    type Err = UnknownTreeMaker;

    fn from_str(text: &str) -> Result<Self, UnknownTreeMaker> {
        match text {
            Self::FOREIGN => Ok(Self::Foreign),
            word => {
                let name = DriverName::parse(word);
                name.map(Self::Driver).ok_or_else(|| UnknownTreeMaker(word.to_owned()))
            }
        }
    }
}

impl TryFrom<String> for TreeMaker {
    type Error = UnknownTreeMaker;

    fn try_from(text: String) -> Result<Self, UnknownTreeMaker> {
        text.parse()
    }
}

impl From<TreeMaker> for &'static str {
    fn from(maker: TreeMaker) -> Self {
        maker.as_str()
    }
}

impl From<DriverName> for TreeMaker {
    fn from(name: DriverName) -> Self {
        Self::Driver(name)
    }
}

impl fmt::Display for TreeMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One tree, and the driver that makes and removes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeOrder {
    /// The folder of sandboxes; the driver keeps its private part beside it.
    pub sandboxes: PathBuf,
    /// Identifies the tree there.
    pub name: String,
    pub path: PathBuf,
    pub driver: TreeMaker,
}

/// A tree to copy to another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeCopy {
    pub from: TreeOrder,
    pub to: TreeOrder,
}

/// A worktree to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeOrder {
    pub common_dir: PathBuf,
    /// The user's checkout, whose dependency folders are copied.
    pub root: PathBuf,
    pub tree: TreeOrder,
    pub branch: String,
    pub origin: BranchOrigin,
    pub commit: String,
    pub source: WorktreeSource,
}

/// Where the files of a worktree come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum WorktreeSource {
    /// The commit, with dependency folders added.
    Commit {
        dependencies: Vec<String>,
        /// The key under which an install with the same inputs is kept, if one is wanted.
        #[serde(default)]
        setup: Option<String>,
    },
    /// Another tree as it is, including uncommitted work, with git's index of it.
    Tree {
        tree: TreeOrder,
        index: PathBuf,
        /// Files that are left out: the user's secrets.
        #[serde(default)]
        without: Vec<PathBuf>,
    },
    /// A tree that was set aside, with its index. Undone by setting it aside again.
    Aside { from: AsidePlace, index: PathBuf },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_written_and_read_with_the_words_of_earlier_releases() {
        for word in ["btrfs", "overlay", "reflink", "copy", "git"] {
            let text =
                format!(r#"{{"sandboxes":"/s","name":"a","path":"/s/a","driver":"{word}"}}"#);
            let order: TreeOrder = serde_json::from_str(&text).unwrap();
            assert_eq!(order.driver.as_str(), word);
            assert_eq!(order.driver == TreeMaker::Foreign, word == "git");
            assert_eq!(serde_json::to_string(&order).unwrap(), text);
        }
        assert!(serde_json::from_str::<TreeMaker>("\"zfs\"").is_err());
    }
}
