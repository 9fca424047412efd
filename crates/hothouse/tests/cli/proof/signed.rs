//! Signatures of summaries, with keys of SSH and of minisign.

use std::fs;

use hothouse_testkit::skip;

use super::{Shop, is_installed};

#[test]
fn a_summary_is_signed_by_its_user_and_a_stranger_is_told_by_whom() {
    if !is_installed("ssh-keygen") {
        return skip("signatures", "ssh-keygen");
    }
    let Some(shop) = Shop::open(None) else { return };
    shop.up("a");
    let keys = shop.env.root().join("keys");
    fs::create_dir_all(&keys).unwrap();
    for name in ["mine", "other"] {
        let line = format!("ssh-keygen -q -t ed25519 -N '' -C {name} -f {name}");
        assert!(shop.env.shell(&keys, &line).status.success());
    }
    let public = fs::read_to_string(keys.join("mine.pub")).unwrap();
    fs::write(keys.join("signers"), format!("ann@example.com {public}")).unwrap();
    let other = fs::read_to_string(keys.join("other.pub")).unwrap();
    fs::write(keys.join("others"), format!("eve@example.com {other}")).unwrap();
    let path = |name: &str| keys.join(name).display().to_string();

    let (ok, proof) = shop.judge(&["smoke", "buy", "-w", "a", "--json"]);
    assert!(ok, "{proof:#}");
    let folder = proof["artifacts"].as_str().unwrap();
    let unsigned =
        shop.env.run(&shop.repository, &["verify", folder, "--signers", &path("signers")]);
    assert!(unsigned.code == 1 && unsigned.stdout.contains("not signed"), "{unsigned}");

    let signed =
        shop.env.run(&shop.repository, &["summary", "-w", "a", "--md", "--sign", &path("mine")]);
    assert!(signed.code == 0 && signed.stdout.contains("buy: proved"), "{signed}");
    let (ok, found) = shop.judge(&["verify", folder, "--signers", &path("signers"), "--json"]);
    assert!(ok, "{found:#}");
    assert_eq!(found["signature"]["by"], "ann@example.com", "{found:#}");
    let (ok, found) = shop.judge(&["verify", folder, "--signers", &path("others"), "--json"]);
    assert!(!ok, "{found:#}");
    let plain = shop.env.run(&shop.repository, &["verify", folder]);
    assert!(plain.code == 0 && plain.stdout.contains("signed with SHA256:"), "{plain}");

    // A signature of something else.
    let summary = std::path::Path::new(folder).join("summary.json");
    let text = fs::read_to_string(&summary).unwrap();
    fs::write(&summary, text.replace("buy", "bye")).unwrap();
    let (ok, found) = shop.judge(&["verify", folder, "--signers", &path("signers"), "--json"]);
    assert!(!ok && found["problems"].to_string().contains("not one of this summary"), "{found:#}");
    fs::write(&summary, text).unwrap();

    // A new summary is no longer what was signed.
    shop.env.ok(&shop.repository, &["summary", "-w", "a", "--md"]);
    let again = shop.env.run(&shop.repository, &["verify", folder, "--signers", &path("signers")]);
    assert!(again.code == 1 && again.stdout.contains("not signed"), "{again}");

    let inside =
        shop.env.run(&shop.repository, &["exec", "-w", "a", "--", "hothouse", "summary", "--sign"]);
    assert!(inside.code == 6 && inside.stderr.contains("on the host"), "{inside}");

    minisign(&shop, folder, &keys);
}

fn minisign(shop: &Shop, folder: &str, keys: &std::path::Path) {
    if !is_installed("minisign") {
        return skip("signatures of minisign", "minisign");
    }
    assert!(shop.env.shell(keys, "minisign -G -W -p mini.pub -s mini.key").status.success());
    let path = |name: &str| keys.join(name).display().to_string();
    shop.env.ok(&shop.repository, &["summary", "-w", "a", "--md", "--sign", &path("mini.key")]);
    let (ok, found) = shop.judge(&["verify", folder, "--signers", &path("mini.pub"), "--json"]);
    assert!(ok && found["signature"]["kind"] == "minisign", "{found:#}");
}
