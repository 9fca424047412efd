use super::*;

/// Stands in for the binary: answers what a release asks it.
const STAND_IN: &str = "#!/bin/sh\ncase $1 in\n\
    completions) echo \"# for $2\" ;;\n\
    man) mkdir -p \"$3\"; echo .TH >\"$3/hothouse.1\" ;;\n\
    --version) echo hothouse 9.9.9 ;;\nesac\n";

fn shell(line: &str, folder: &Path) -> String {
    text(Program::new("sh").folder(folder).args(["-c", line])).unwrap()
}

#[test]
fn two_releases_of_one_commit_are_equal_and_one_installs_without_root() {
    let folder = tempfile::tempdir().unwrap();
    let (binary, root) =
        (folder.path().join("hothouse"), Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    write(&binary, STAND_IN.as_bytes(), 0o755).unwrap();
    let release = |name: &str| {
        let out = folder.path().join(name);
        let order = Order {
            root: &root,
            binary: &binary,
            out: &out,
            version: "9.9.9".into(),
            epoch: 1_700_000_000,
        };
        make(&order).unwrap();
        out
    };
    let (one, other) = (release("one"), release("other"));
    assert_eq!(shell("cat SHA256SUMS", &one), shell("cat SHA256SUMS", &other));
    assert!(shell("sha256sum --check SHA256SUMS", &one).contains(".tar.gz: OK"));

    shell("tar -xzf *.tar.gz", &one);
    let listed = shell("tar -tvzf *.tar.gz", &one);
    assert!(
        listed.lines().all(|line| line.contains(" 0/0 ") && line.contains("2023-11-14")),
        "{listed}"
    );
    let installed = shell("HOME=$PWD/home PATH=/usr/bin:/bin hothouse-9.9.9-*/install.sh", &one);
    assert!(
        installed.contains("Installed hothouse 9.9.9 into") && installed.contains("hint: "),
        "{installed}"
    );
    let found = shell("cd home/.local && find . -type f | sort", &one);
    for file in [
        "./bin/hothouse",
        "./share/man/man1/hothouse.1",
        "./share/zsh/site-functions/_hothouse",
        "./share/doc/hothouse/sbom.cdx.json",
    ] {
        assert!(found.lines().any(|line| line == file), "{file}: {found}");
    }
    let licences = shell("cat home/.local/share/doc/hothouse/LICENSES-OF-DEPENDENCIES.txt", &one);
    assert!(licences.contains("\nserde ") && licences.contains("Permission is hereby granted"));
    shell("HOME=$PWD/home hothouse-9.9.9-*/install.sh --remove", &one);
    assert_eq!(shell("find home -type f", &one), "");
}

#[test]
fn the_package_has_the_files_of_the_tarball_for_everybody() {
    if hothouse_host::programs::look_up("dpkg-deb", &search_path()).is_none() {
        return hothouse_testkit::skip("the Debian package", "dpkg-deb");
    }
    let folder = tempfile::tempdir().unwrap();
    let (binary, root) =
        (folder.path().join("hothouse"), Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    write(&binary, STAND_IN.as_bytes(), 0o755).unwrap();
    let out = folder.path().join("out");
    let order = Order {
        root: &root,
        binary: &binary,
        out: &out,
        version: "9.9.9".into(),
        epoch: 1_700_000_000,
    };
    let made = make(&order).unwrap();
    assert_eq!(made.len(), 4, "{made:?}");
    let listed = shell("dpkg-deb -c *.deb", &out);
    assert!(
        listed.contains("-rwxr-xr-x root/root") && listed.contains("./usr/bin/hothouse"),
        "{listed}"
    );
    assert!(shell("dpkg-deb -f *.deb Depends", &out).contains("git"));
}
