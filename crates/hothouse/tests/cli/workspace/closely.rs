//! What bites whoever takes an agent's work is named: in `diff`, `status` and `promote`.

use super::*;

#[test]
fn what_can_bite_is_named_before_it_is_taken() {
    rooms(|env, repository| {
        agent(
            env,
            repository,
            "git init -q sub; git -C sub -c user.name=a -c user.email=b commit -q --allow-empty -m sub; \
             git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub; \
             ln -s ../../outside away; ln -s README near; git add away near; git commit -qm bites; \
             git init -q nest; git -C nest -c user.name=a -c user.email=b commit -q --allow-empty -m nest; \
             ln -s /etc/passwd \"$(printf 'esc\\033ape')\"; mkfifo pipe",
        );
        let diff = env.json(repository, &["diff", "-w", "a", "--json"]);
        let found = |view: &serde_json::Value| {
            let all = view["look_closely"].as_array().unwrap().iter();
            all.map(|one| {
                format!("{} {}", one["kind"].as_str().unwrap(), one["path"].as_str().unwrap())
            })
            .collect::<Vec<_>>()
        };
        let all = found(&diff);
        for expected in [
            "gitlink sub",
            "link-out away",
            "link-out esc\\u{1b}ape",
            "repository nest/",
            "special pipe",
        ] {
            assert!(all.contains(&expected.to_owned()), "{expected}: {all:?}");
        }
        assert!(!all.iter().any(|one| one.ends_with(" near")), "{all:?}");
        let shown = env.run(repository, &["diff", "-w", "a", "--stat"]);
        assert!(shown.stderr.contains("Look closely:"), "{shown}");
        assert!(!shown.stderr.contains('\u{1b}'), "{shown}");
        let status = status(env, repository, "a");
        let caveats = status["caveats"].as_array().unwrap().iter();
        let mut told = caveats.filter(|caveat| caveat["class"] == "look-closely");
        let text = told.next().unwrap()["text"].as_str().unwrap();
        assert!(text.contains("`sub` is a submodule") && text.contains("`away`"), "{text}");
        let promoted = env.json(repository, &["promote", "a", "--merge", "--json"]);
        assert_eq!(found(&promoted), ["gitlink sub", "link-out away"]);
    });
}
