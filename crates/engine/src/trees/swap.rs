//! Replaces trees: copied aside first, then only renamed.

use hothouse_host::{FileError, files};
use hothouse_model::{
    SandboxRecord,
    tree::{TreeCopy, TreeOrder},
};
use hothouse_workspace::{
    TreePlace,
    places::{self, FORMER},
    tree::TreeDriver,
};

use super::{PLAIN, copy, driver, place, remove};
use crate::StepError;

/// Copies trees beside their targets.
pub(crate) fn stage(copies: &[TreeCopy]) -> Result<(), StepError> {
    // An earlier attempt may have left some.
    unstage(copies)?;
    let whole = copies.iter().filter(|copy| files::exists(&copy.to.path));
    remove(&whole.map(|copy| former(&copy.to)).collect::<Vec<_>>())?;
    let staged = |TreeCopy { from, to }: &TreeCopy| TreeCopy { from: from.clone(), to: staged(to) };
    copy(&copies.iter().map(staged).collect::<Vec<_>>())
}

/// Removes staged copies.
pub(crate) fn unstage(copies: &[TreeCopy]) -> Result<(), StepError> {
    remove(&copies.iter().map(|copy| staged(&copy.to)).collect::<Vec<_>>())
}

/// The three places of a tree that is replaced. Between them trees are only renamed, the files of a
/// tree last: that needs no disk space, and shows how far it got.
struct Swap {
    driver: Box<dyn TreeDriver>,
    staged: TreePlace,
    target: TreePlace,
    former: TreePlace,
}

impl Swap {
    fn of(tree: &TreeOrder) -> Result<Self, StepError> {
        Ok(Self {
            driver: driver(tree)?,
            staged: place(&staged(tree))?.1,
            target: place(tree)?.1,
            former: place(&former(tree))?.1,
        })
    }

    /// Replaces a tree with the staged one, and sets it aside.
    fn replace(&self) -> Result<(), StepError> {
        let Self { driver, staged, target, former } = self;
        if exists(staged) {
            // If only its private part exists, the swap has begun.
            let is_there = files::exists(&target.path)
                || files::exists(&target.private) && files::exists(&staged.private);
            if is_there && !files::exists(&former.path) {
                driver.relocate(target, former)?;
            }
            if let Some(parent) = target.path.parent() {
                files::make_private_folder(parent)?;
            }
            driver.relocate(staged, target)?;
        }
        driver.restore(target)?;
        Ok(())
    }

    /// Restores the tree that was set aside, if there is one; the one in its place is staged again.
    fn bring_back(&self) -> Result<(), StepError> {
        let Self { driver, staged, target, former } = self;
        if !exists(former) {
            return Ok(());
        }
        let is_replaced = !files::exists(&staged.path)
            || !files::exists(&staged.private) && files::exists(&former.private);
        if files::exists(&former.path) && is_replaced {
            driver.relocate(target, staged)?;
        }
        driver.relocate(former, target)?;
        driver.restore(target)?;
        Ok(())
    }
}

fn exists(place: &TreePlace) -> bool {
    files::exists(&place.path) || files::exists(&place.private)
}

/// Replaces trees with their staged copies. After an interruption it is simply repeated: a tree
/// that is no longer staged is already in place.
pub(crate) fn swap(copies: &[TreeCopy]) -> Result<(), StepError> {
    copies.iter().try_for_each(|copy| Swap::of(&copy.to)?.replace())
}

/// Undoes [`swap`], even if partially done.
pub(crate) fn swap_back(copies: &[TreeCopy]) -> Result<(), StepError> {
    copies.iter().try_for_each(|copy| Swap::of(&copy.to)?.bring_back())
}

/// Returns the trees that were set aside.
pub(crate) fn formers(copies: &[TreeCopy]) -> Vec<TreeOrder> {
    copies.iter().map(|copy| former(&copy.to)).collect()
}

/// Whether an interrupted swap left staged copies of a sandbox's trees.
pub(crate) fn is_half_restored(sandbox: &SandboxRecord) -> Result<bool, FileError> {
    let names = places::all_staged(&sandbox.sandboxes, sandbox.name.as_str())?;
    Ok(names.iter().any(|name| !name.ends_with(FORMER)))
}

/// Returns the staged copies of a sandbox's trees, and the trees that were set aside.
pub(crate) fn all_staged(sandbox: &SandboxRecord) -> Result<Vec<TreeOrder>, FileError> {
    let names = places::all_staged(&sandbox.sandboxes, sandbox.name.as_str())?;
    let worktree = format!("{}~", sandbox.name);
    let order = |name: String| TreeOrder {
        driver: match name.strip_suffix(FORMER).unwrap_or(&name) == worktree {
            true => sandbox.tree_driver,
            false => PLAIN.into(),
        },
        path: places::staged(&sandbox.sandboxes, &name),
        sandboxes: sandbox.sandboxes.clone(),
        name,
    };
    Ok(names.into_iter().map(order).collect())
}

/// Returns the path of a tree's staged copy.
fn staged(tree: &TreeOrder) -> TreeOrder {
    waiting(tree, "")
}

/// Returns the path of a tree that was set aside.
fn former(tree: &TreeOrder) -> TreeOrder {
    waiting(tree, FORMER)
}

fn waiting(tree: &TreeOrder, end: &str) -> TreeOrder {
    let name = format!("{}~{end}", tree.name);
    let path = places::staged(&tree.sandboxes, &name);
    TreeOrder { name, path, ..tree.clone() }
}
