//! Tests of host patterns and of mask reports.

use super::*;

#[test]
fn a_pattern_of_the_host_finds_what_a_shell_would_and_its_own_spelling() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a1.pem", "a2.pem", "ab.pub", "k[1]"] {
        files::replace(&folder.path().join(name), b"", 0o600).unwrap();
    }
    for (pattern, expected) in [
        ("a*m", "a1.pem a2.pem"),
        ("a?.p*", "a1.pem a2.pem ab.pub"),
        ("a*x*m", ""),
        ("k[1]", "k[1]"),
        ("ab.pub", "ab.pub"),
        ("none", ""),
    ] {
        let found = matches_of(&folder.path().join(pattern)).unwrap();
        let names = found.iter().filter_map(|path| path.file_name()?.to_str());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        assert_eq!(names.join(" "), expected, "{pattern}");
    }
}

#[test]
fn what_is_seen_to_be_empty_is_reported() {
    let worktree = Path::new("/w");
    let told = |files: &[&str]| {
        let masks: Vec<_> = files.iter().map(PathBuf::from).collect();
        masked(worktree, &masks).map(|caveat| caveat.to_string())
    };
    assert_eq!(told(&[]), None);
    assert_eq!(told(&["/home/me/.npmrc"]), None, "what is not in the worktree is no news");
    let text = told(&["/w/.env", "/w/a\n/.env"]).unwrap();
    assert!(text.contains(r"`.env`, `a\n/.env`; `unmask`"), "{text}");
    let text = told(&["/w/.env"; 7]).unwrap();
    assert!(text.contains(" and 2 more; "), "{text}");
}
