//! One host name for all sandboxes, in real browsers.

use crate::{
    dashboard::{browse, has_browser},
    url::{app, apps, curl},
};

#[test]
fn two_browsers_with_two_choices_see_two_sandboxes() {
    if !has_browser() {
        return;
    }
    let Some((env, repository)) = apps() else { return };
    let url =
        |name: &str, kind: &str| app(&env, &repository, name)[kind].as_str().unwrap().to_owned();
    let shared = url("a", "shared");
    let seen = "document.body.innerText";
    for (name, other) in [("a", "b"), ("b", "a")] {
        let link = format!(
            "[...document.links].find((link) => link.querySelector('b').innerText == '{name}')"
        );
        let said = browse(
            &env,
            name,
            &[
                // The page asks which sandbox, and the answer redirects to the requested URL.
                &format!("go {shared}/deep?x=1"),
                "document.title",
                &format!("{link}.click()"),
                &format!("until {seen}.startsWith('i am')"),
                seen,
                "document.cookie",
                // The choice is kept until another one is made.
                &format!("go {shared}/again"),
                seen,
                // The hosts of sandboxes take precedence.
                &format!("go {}", url(other, "url")),
                seen,
            ],
        );
        let lines: Vec<_> = said.lines().collect();
        assert_eq!((lines.len(), lines[0]), (6, "\"Which sandbox?\""), "{said}");
        assert!(lines[2].starts_with(&format!("\"i am {name}\\n/deep?x=1\\n")), "{said}");
        assert_eq!(lines[3], "\"session=1\"", "the choice is not for script: {said}");
        assert!(lines[4].starts_with(&format!("\"i am {name}\\n/again\\n")), "{said}");
        assert!(lines[5].starts_with(&format!("\"i am {other}\\n")), "{said}");
        for page in [lines[2], lines[4], lines[5]] {
            assert!(!page.contains("hothouse-sandbox"), "the app does not see it: {page}");
        }
    }
}

#[test]
fn nothing_of_one_sandbox_stays_in_a_browser_and_answers_for_another() {
    if !has_browser() {
        return;
    }
    let Some((env, repository)) = apps() else { return };
    let of =
        |name: &str, kind: &str| app(&env, &repository, name)[kind].as_str().unwrap().to_owned();
    let shared = of("a", "shared");
    let choose = |name: &str| {
        let status = env.json(&repository, &["status", "-w", name, "--json"]);
        format!("go {shared}/?hothouse-sandbox={}", status["id"].as_str().unwrap())
    };
    let kept = "fetch('/kept').then((got) => got.text()).then((text) => text.slice(0, 6))";
    let register = "navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready)\
                    .then(() => 'registered', () => 'refused')";
    let seen = "document.body.innerText.split('\\n')[0]";
    let said = browse(
        &env,
        "kept",
        &[
            &choose("a"),
            kept,
            register,
            &choose("b"),
            seen,
            kept,
            // On its own host a sandbox may do as it likes; this is also the control.
            &format!("go {}", of("a", "url")),
            register,
            &format!("go {}/again", of("a", "url")),
            seen,
        ],
    );
    let lines: Vec<_> = said.lines().collect();
    let expected = [
        "\"i am a\"",
        "\"refused\"",
        "\"i am b\"",
        "\"i am b\"",
        "\"registered\"",
        "\"worker of i am a\"",
    ];
    assert_eq!(lines, expected, "{said}");
}

#[test]
fn a_choice_leads_to_no_other_site() {
    let Some((env, repository)) = apps() else { return };
    let shared = app(&env, &repository, "a")["shared"].as_str().unwrap().to_owned();
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    let asked =
        format!("{shared}//evil.example/?hothouse-sandbox={}", status["id"].as_str().unwrap());
    let said = curl(&["-i", "--path-as-is", &asked]).to_lowercase();
    assert!(said.contains("location: /.//evil.example/\r\n"), "{said}");
}
