//! Trees as overlays that exist only inside rooms, for ordinary users.
//!
//! The host has a folder with a note at the tree's path. Changes go to `upper` in the tree's
//! private folder, as with [`Overlay`](super::Overlay). Each room mounts the tree for itself, and
//! the host reads it through a [`View`](hothouse_host::view::View).

use std::path::{Path, PathBuf};

use hothouse_host::{
    FileError,
    copy::{Content, Tree},
    files, hands,
    usage::Blocks,
    view::ViewSpec,
};

use super::{
    DriverName, Inodes, Restored, STORE_FOLDER, Seen, Sources, TreeDriver, TreeError, TreePlace,
    TreeSizes,
    overlay::{has_nothing, keep_all, layers, prepare},
    set_aside,
};

/// The file that marks the private folder of such a tree.
const MARK: &str = "in-the-room-alone";

/// The note at the tree's path.
pub const NOTE: &str = "HOTHOUSE-NOTE.txt";

const NOTE_TEXT: &str = "\
The files of this sandbox are an overlay that exists only inside its room (`--tree overlay`).

  hothouse exec -- ls        lists them
  hothouse diff              shows what changed
  hothouse shell             opens a shell among them

What you write here is not seen in the room.
";

/// Overlays that rooms mount: fast for any size, and without root.
#[derive(Clone, Copy, Debug)]
pub struct Hidden;

impl TreeDriver for Hidden {
    fn name(&self) -> DriverName {
        DriverName::Overlay
    }

    fn sources(&self) -> Sources {
        Sources::Several
    }

    fn inodes(&self) -> Inodes {
        Inodes::AsInSource
    }

    fn is_seen_by_the_host(&self) -> bool {
        false
    }

    fn make(&self, sources: &[&Path], tree: &TreePlace) -> Result<(), TreeError> {
        let make = || -> Result<(), FileError> {
            prepare(tree, sources, None)?;
            files::make_folder(&tree.private.join("upper"))?;
            finish(tree)
        };
        make().map_err(|source| TreeError::Make { path: tree.path.clone(), source })
    }

    fn snapshot(&self, tree: &TreePlace, snapshot: &TreePlace) -> Result<(), TreeError> {
        let make = || -> Result<(), FileError> {
            let lowers = layers(tree)?.lowers;
            let sources: Vec<_> = lowers.iter().map(PathBuf::as_path).collect();
            prepare(snapshot, &sources, None)?;
            let (from, to) = (tree.private.join("upper"), snapshot.private.join("upper"));
            files::sync_file_system(&from)?;
            files::make_folder(&to)?;
            hands::copy_tree(&from, &to, Content::Reflink, Tree::OverlayUpper)?;
            finish(snapshot)
        };
        make().map_err(|source| TreeError::Snapshot { path: tree.path.clone(), source })
    }

    fn delete(&self, tree: &TreePlace) -> Result<(), TreeError> {
        let delete = || -> Result<(), FileError> {
            set_aside(&tree.path, &tree.trash)?;
            set_aside(&tree.private, &tree.trash)
        };
        delete().map_err(|source| TreeError::Delete { path: tree.path.clone(), source })
    }

    fn keep_sources(&self, tree: &TreePlace) -> Result<(), TreeError> {
        keep_all(tree).map_err(|source| TreeError::Restore { path: tree.path.clone(), source })
    }

    fn is_untouched(&self, tree: &TreePlace) -> bool {
        has_nothing(&tree.private.join("upper"))
    }

    fn sizes(&self, tree: &TreePlace) -> Result<TreeSizes, TreeError> {
        let measure = || -> Result<TreeSizes, FileError> {
            let own = hands::measure(&tree.private.join("upper"), Blocks::AreOwn)?.total;
            let mut shared = 0;
            for lower in layers(tree)?.lowers {
                shared += hands::measure(&lower, Blocks::AreOwn)?.total;
            }
            Ok(TreeSizes { own, shared, total: own + shared })
        };
        measure().map_err(|source| TreeError::Measure { path: tree.path.clone(), source })
    }

    fn settle_owners(
        &self,
        _tree: &TreePlace,
        _skip: &[PathBuf],
        _seen: &mut Seen,
    ) -> Result<u64, TreeError> {
        // The user creates nothing in it.
        Ok(0)
    }

    fn restore(&self, tree: &TreePlace) -> Result<Restored, TreeError> {
        self.keep_sources(tree)?;
        Ok(Restored::WasThere)
    }
}

/// Creates the work folder, the note, and last the mark.
fn finish(tree: &TreePlace) -> Result<(), FileError> {
    files::make_folder(&tree.private.join("work"))?;
    files::write(&tree.path.join(NOTE), NOTE_TEXT)?;
    files::write(&tree.private.join(MARK), "")
}

/// The layers of a tree that rooms mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenTree {
    /// Contains `upper` and `work`.
    pub private: PathBuf,
    /// The lower layers, uppermost first.
    pub lowers: Vec<PathBuf>,
    path: PathBuf,
}

impl HiddenTree {
    /// Returns the tree at a path, if it is hidden.
    pub fn at(path: &Path) -> Option<Self> {
        let (sandboxes, name) = (path.parent()?, path.file_name()?);
        let private = sandboxes.join(STORE_FOLDER).join("trees").join(name);
        if !files::exists(&private.join(MARK)) {
            return None;
        }
        let place = TreePlace { path: path.to_owned(), private, trash: PathBuf::new() };
        let lowers = layers(&place).ok()?.lowers;
        Some(Self { private: place.private, lowers, path: place.path })
    }

    /// Returns the folder with its changes. Only valid while no room has mounted it.
    pub fn upper(&self) -> PathBuf {
        self.private.join("upper")
    }

    /// Returns the view for reading it.
    pub fn view(&self) -> ViewSpec {
        let layers = std::iter::once(self.upper()).chain(self.lowers.iter().cloned()).collect();
        ViewSpec { layers, at: self.path.clone() }
    }
}
