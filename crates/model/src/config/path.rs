//! Paths and path patterns of the config, each type with its own base folder.

use super::{
    problem::{Complaint, shown},
    text::{check_filled, text_type},
};

text_type! {
    /// A path below the worktree: relative, and never leaving it.
    TreePath: "a path below the repository such as `apps/api`", None, check_tree_path
}
text_type! {
    /// A path of the host: absolute, or below the user's home as `~/…`.
    HostPath: "an absolute path, or one such as `~/.cargo`", Some("^(/|~/|~$)"), check_host_path
}
text_type! {
    /// A file pattern: below the worktree, or on the host if it begins with `/` or `~/`.
    FilePattern: "a file pattern such as `.env.*` or `~/.aws`", None, check_file_pattern
}
text_type! {
    /// A file pattern below the worktree.
    TreePattern: "a file pattern such as `src/**`", None, check_tree_path
}
text_type! {
    /// The path of a URL.
    UrlPath: "a path such as `/health`", Some("^/"), check_url_path
}

text_type! {
    /// The host that an HTTP request names, with its port if it has one.
    HostHeader: "a host such as `shop.example.com` or `localhost:3000`", Some("^[A-Za-z0-9._:\\[\\]-]+$"), check_host_header
}

fn check_host_header(text: &str) -> Result<(), Complaint> {
    check_filled(text)?;
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "._:[]-".contains(c);
    match text.chars().all(is_fine) {
        true => Ok(()),
        false => Err(Complaint::new(format!(
            "must be a host and perhaps a port, unlike `{}`",
            shown(text)
        ))),
    }
}

fn check_tree_path(text: &str) -> Result<(), Complaint> {
    check_filled(text)?;
    if text.starts_with('/') || text.starts_with('~') {
        return Err(Complaint::new(format!(
            "must be relative to the repository, not `{}`",
            shown(text)
        )));
    }
    check_no_climb(text)
}

fn check_host_path(text: &str) -> Result<(), Complaint> {
    check_filled(text)?;
    if !(text.starts_with('/') || text == "~" || text.starts_with("~/")) {
        return Err(Complaint::new(format!(
            "must begin with `/` or `~/`, unlike `{}`",
            shown(text)
        )));
    }
    check_no_climb(text)
}

fn check_file_pattern(text: &str) -> Result<(), Complaint> {
    check_filled(text)?;
    if text.starts_with('~') { check_host_path(text) } else { check_no_climb(text) }
}

fn check_no_climb(text: &str) -> Result<(), Complaint> {
    if text.split('/').any(|part| part == "..") {
        return Err(Complaint::new(format!("cannot hold `..`: `{}`", shown(text))));
    }
    Ok(())
}

fn check_url_path(text: &str) -> Result<(), Complaint> {
    check_filled(text)?;
    if !text.starts_with('/') {
        return Err(Complaint::new(format!("must begin with `/`, unlike `{}`", shown(text))));
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(Complaint::new("cannot hold spaces or control characters"));
    }
    Ok(())
}
