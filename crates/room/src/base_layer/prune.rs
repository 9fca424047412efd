//! Removes old base layers once no room uses them.
//!
//! room-init holds a shared lock on a file beside its layer for as long as the room is running. So
//! the kernel knows which layers are in use, whatever happened to the daemon that started the room.

use super::{in_namespace, word};
use hothouse_host::files;
use hothouse_host::ids::Mode;
use hothouse_host::system_error::{Context, SystemError};
use hothouse_host::walls::Wall;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode as FileMode, OFlags};
use std::path::{Path, PathBuf};

/// Marks a layer as in use until the descriptor and all its copies are closed.
pub(super) fn hold(layer: &Path) -> Result<OwnedFd, SystemError> {
    let used = open_lock(layer)?;
    rustix::fs::flock(&used, FlockOperation::LockShared).context_at("hold", layer)?;
    Ok(used)
}

fn open_lock(layer: &Path) -> Result<OwnedFd, SystemError> {
    let path = layer.with_added_extension("used");
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(&path, flags, FileMode::from_raw_mode(0o600)).context_at("open", path)
}

/// Removes the unused layers of `mode` in `folder`, except `kept`. Failures are ignored: a leftover
/// layer only costs disk space.
pub(super) fn prune(folder: &Path, kept: Option<&Path>, mode: Mode, wall: &Wall) {
    for layer in layers(&files::list(folder).unwrap_or_default(), kept, mode) {
        if let Err(error) = remove(folder, &layer, mode, wall) {
            tracing::warn!(%error, "an old base layer stays");
        }
    }
}

/// Removes a layer unless it is in use. The lock file stays: otherwise a waiting process would lock
/// a file that nobody else can find.
fn remove(folder: &Path, layer: &Path, mode: Mode, wall: &Wall) -> Result<(), SystemError> {
    let used = open_lock(layer)?;
    if rustix::fs::flock(&used, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(());
    }
    match mode {
        Mode::Root => take_away(layer),
        Mode::Range | Mode::Single => in_namespace(mode, wall, folder, || {
            take_away(Path::new(layer.file_name().unwrap_or_default()))
        }),
    }
}

/// Renames a layer before its removal, so that what a crash leaves behind is not mistaken for a
/// complete layer.
fn take_away(layer: &Path) -> Result<(), SystemError> {
    let step = "remove an old base layer";
    let name = layer.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let gone = layer.with_file_name(format!(".{name}"));
    files::remove_tree(&gone).context(step)?;
    std::fs::rename(layer, &gone).context_at(step, layer)?;
    files::remove_tree(&gone).context(step)
}

/// Selects the layers of a mode, except the one to keep.
fn layers(all: &[PathBuf], kept: Option<&Path>, mode: Mode) -> Vec<PathBuf> {
    let is_layer = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let hash = name.strip_prefix(word(mode)).and_then(|rest| rest.strip_prefix('-'));
        hash.is_some_and(|hash| {
            hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    all.iter().filter(|path| Some(path.as_path()) != kept).filter(is_layer).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_layers_of_the_same_mode_are_old() {
        let at = |name: &str| PathBuf::from("/b").join(name);
        let all = [
            at("root-0123456789abcdef"),
            at("root-0123456789abcdef.used"),
            at("root-1123456789abcdef"),
            at("range-0123456789abcdef"),
            at(".root-2123456789abcdef"),
            at("lock"),
        ];
        assert_eq!(layers(&all, Some(&all[0]), Mode::Root), [at("root-1123456789abcdef")]);
        assert_eq!(layers(&all, Some(&all[3]), Mode::Range), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_layer_in_use_stays_and_goes_when_it_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let layer = folder.path().join("root-1123456789abcdef");
        files::make_folder(&layer.join("etc")).unwrap();
        let used = hold(&layer).unwrap();
        let wall = Wall { uids: Vec::new(), gids: Vec::new() };
        let prune = || prune(folder.path(), None, Mode::Root, &wall);
        prune();
        assert!(files::exists(&layer));
        drop(used);
        prune();
        assert!(!files::exists(&layer));
    }
}
