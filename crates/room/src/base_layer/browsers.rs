//! Browser policies in the base layer of every room.

use super::write::Job;
use crate::browsers::{
    CHROMIUM, CHROMIUM_FOLDERS, CHROMIUM_NAME, FIREFOX, FIREFOX_SETTINGS, FIREFOX_SETTINGS_TEXT,
    chromium, firefox,
};
use hothouse_host::files;
use hothouse_host::system_error::{Context, SystemError};
use std::path::Path;

impl Job<'_> {
    pub(super) fn write_browser_policies(&self) -> Result<(), SystemError> {
        let etc = self.fresh.join("etc");
        let folders = CHROMIUM_FOLDERS.map(|folder| etc.join(folder));
        let hosts = folders.iter().flat_map(|folder| files::list(folder).unwrap_or_default());
        let hosts: Vec<String> = hosts.filter_map(|file| files::read_text(&file).ok()).collect();
        self.file(&format!("etc/{CHROMIUM}"), chromium(&hosts).as_bytes(), 0o644)?;
        for folder in folders {
            let link = folder.join(CHROMIUM_NAME);
            self.parents(&link)?;
            files::remove_file(&link).context("write the base layer")?;
            rustix::fs::symlink(Path::new("/etc").join(CHROMIUM), &link)
                .context_at("link", &link)?;
        }
        let hosts = files::read_text(&etc.join(FIREFOX)).ok();
        if let Some(policies) = firefox(hosts.as_deref()) {
            self.file(&format!("etc/{FIREFOX}"), policies.as_bytes(), 0o644)?;
        }
        for settings in FIREFOX_SETTINGS {
            self.file(&format!("etc/{settings}"), FIREFOX_SETTINGS_TEXT.as_bytes(), 0o644)?;
        }
        Ok(())
    }
}
