//! The diff of a sandbox, as computed in its own room.
//!
//! A room that requests its diff gets the output of git inside the room, as its agent. On the host
//! git reads with the rights of the user, and an agent could rename files to bypass any exclusion.

use std::time::Duration;

use hothouse_engine::Difference;
use hothouse_model::{Failure, FailureKind, SandboxRecord};

use crate::{
    Keepers,
    in_room::{InRoom, RoomTask},
};

/// The time limit of git.
const PATIENCE: Duration = Duration::from_secs(60);

/// Adds untracked files to a copy of the index, and prints the line counts, an empty field, and the
/// text. Files that the agent cannot read are skipped, because git would fail.
const SCRIPT: &str = r#"
set -e
index=$(mktemp)
trap 'rm -f "$index"' EXIT
cp "$(git rev-parse --git-path index)" "$index"
export GIT_INDEX_FILE="$index" GIT_LITERAL_PATHSPECS=1 GIT_OPTIONAL_LOCKS=0
git ls-files -z --others --exclude-standard |
  xargs -0 sh -c 'for f; do if [ -L "$f" ] || { [ -f "$f" ] && [ -r "$f" ]; }; then printf "%s\0" "$f"; fi; done' sh |
  git add --intent-to-add --pathspec-from-file=- --pathspec-file-nul
git ls-files -z --modified |
  xargs -0 sh -c 'for f; do if [ -f "$f" ] && [ ! -L "$f" ] && [ ! -r "$f" ]; then printf "%s\0" "$f"; fi; done' sh |
  git update-index --skip-worktree -z --stdin
show() { git diff --no-ext-diff --no-textconv --no-color --ignore-submodules=all --no-renames "$@"; }
show --numstat -z "$1" --
printf '\0'
show "$1" --
"#;

/// Diffs the files of a sandbox against a commit, in its room, up to a maximum length of the text.
pub async fn difference(
    keepers: &Keepers,
    sandbox: &SandboxRecord,
    base: &str,
    most: usize,
) -> Result<(Difference, bool), Failure> {
    let inside = InRoom::of(&keepers.engine, &keepers.connections, sandbox).await?;
    let mut task = RoomTask::shell(SCRIPT).with_arguments([base]);
    (task.label, task.timeout, task.keep) = ("diff", PATIENCE, most);
    let output = inside.run(task).await?;
    if !output.is_ok() {
        let said = output.last_lines(3).join(" ");
        let message = format!("git could not compare the files of the room: {}", output.end);
        return Err(Failure::new(FailureKind::Host, format!("{message}: {said}")));
    }
    Ok((read(&output.stdout.head), output.stdout.is_cut()))
}

fn read(printed: &[u8]) -> Difference {
    // A field is never empty, so two terminators mark the end.
    let end = printed.windows(2).position(|two| two == [0, 0]).map_or(0, |at| at + 1);
    let (numbers, text) = printed.split_at(end);
    Difference {
        files: hothouse_engine::parse_numstat(numbers),
        text: text.get(1..).unwrap_or_default().to_vec(),
        closely: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_text_are_told_apart() {
        let all = read(b"3\t1\ta b\0-\t-\tc\0\0diff --git a/a b/a\n\0\0");
        assert_eq!((all.files.len(), all.text.as_slice()), (2, &b"diff --git a/a b/a\n\0\0"[..]));
        let none = read(b"\0");
        assert!(none.files.is_empty() && none.text.is_empty());
        assert!(read(b"").text.is_empty());
    }
}
