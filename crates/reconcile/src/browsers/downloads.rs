//! Downloads of pages: copied out of the room, and never opened.

use hothouse_browser::launch::DOWNLOADS;
use hothouse_model::{
    SandboxRecord,
    browse::{BrowseReport, DownloadState},
};

use super::Browsers;
use crate::in_room::{InRoom, RoomTask};

/// The size limit of a file, and the maximum number per page.
const FILE_MOST: usize = 32 << 20;
const FILES_MOST: usize = 10;

impl Browsers {
    /// Reads the downloads of a page, by their index in its report. What cannot be read stays in
    /// the room.
    pub(super) async fn downloads(
        &self,
        sandbox: &SandboxRecord,
        report: &BrowseReport,
    ) -> Vec<(usize, Vec<u8>)> {
        let whole = |bytes: u64| usize::try_from(bytes).is_ok_and(|bytes| bytes <= FILE_MOST);
        let done = report.downloads.iter().enumerate().filter(|(_, download)| {
            download.state == DownloadState::Completed
                && whole(download.bytes)
                && is_guid(&download.guid)
        });
        let done: Vec<(usize, String)> =
            done.map(|(at, download)| (at, download.guid.clone())).take(FILES_MOST).collect();
        if done.is_empty() {
            return Vec::new();
        }
        let Ok(room) = InRoom::of(&self.engine, &self.connections, sandbox).await else {
            return Vec::new();
        };
        let mut read = Vec::new();
        for (at, guid) in done {
            let task = RoomTask::shell("exec cat -- \"$1\"");
            let mut task = task.with_arguments([format!("{DOWNLOADS}/{guid}")]);
            (task.label, task.keep) = ("download", FILE_MOST);
            match room.run(task).await {
                Ok(output) if output.is_ok() && !output.stdout.is_cut() => {
                    read.push((at, output.stdout.head));
                }
                _ => {}
            }
        }
        read
    }
}

/// Whether this is the GUID of a download, and not a path.
fn is_guid(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

/// Turns a name suggested by a page into a safe file name: letters and digits, without path
/// components.
pub(super) fn plain(name: &str) -> String {
    let keep =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    let name: String = name.chars().map(keep).take(80).collect();
    match name.trim_start_matches('.') {
        "" => "file".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_folder() {
        for (name, expected) in [
            ("report.csv", "report.csv"),
            ("../../etc/passwd", "_.._etc_passwd"),
            ("..", "file"),
            ("", "file"),
            ("a b\u{202e}.pdf", "a_b_.pdf"),
        ] {
            assert_eq!(plain(name), expected);
        }
        assert!(is_guid("0f3c-9A") && !is_guid("../x") && !is_guid(""));
    }
}
