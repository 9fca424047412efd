//! No text makes the reader panic, and its result is always consistent.

use hothouse_config::{parse, parse_bytes};
use hothouse_model::config::{MAX_PROBLEMS, Problem};
use proptest::prelude::*;

use crate::good::FULL;

fn assert_orderly(problems: &[Problem]) -> Result<(), TestCaseError> {
    prop_assert!(!problems.is_empty());
    prop_assert!(problems.windows(2).all(|pair| pair[0].line <= pair[1].line), "{problems:?}");
    prop_assert!(problems.windows(2).all(|pair| pair[0] != pair[1]), "{problems:?}");
    let unproved = problems.iter().find(|problem| problem.message.contains("passed every check"));
    prop_assert!(unproved.is_none(), "{unproved:?}");
    Ok(())
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    match parse_bytes("hothouse.toml", bytes) {
        Ok(resolved) => {
            let _ = resolved.show();
            prop_assert!(resolved.config.for_profile(None).is_ok());
            Ok(())
        }
        Err(problems) => assert_orderly(&problems),
    }
}

const SECTIONS: &[&str] = &[
    "[project]",
    "[room]",
    "[service.a]",
    "[service.b]",
    "[profile.e2e.service.a]",
    "[egress]",
    "[[room]]",
    "[seed.radius]",
    "[scenario.x]",
];
const KEYS: &[&str] = &[
    "name", "run", "recipe", "port", "needs", "ready", "env", "mode", "allow", "z", "s", "seed",
    "host", "task", "zzz",
];
const VALUES: &[&str] = &[
    "1",
    "\"a\"",
    "\"postgres\"",
    "[\"a\", \"b\"]",
    "{ http = \"/\" }",
    "{ A = \"{b.url}\" }",
    "true",
    "",
    "[",
    "{",
    "1979-05-27",
    "nan",
    "[\"z\"]",
];

/// Generates fragments of a config, for texts that get further than the first line.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(SECTIONS).prop_map(str::to_owned),
        (proptest::sample::select(KEYS), proptest::sample::select(VALUES))
            .prop_map(|(k, v)| format!("{k} = {v}")),
    ]
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes)?;
    }

    #[test]
    fn any_text_gets_an_answer(text in "\\PC{0,200}") {
        check(text.as_bytes())?;
    }

    #[test]
    fn pieces_of_configs_in_any_order_get_an_answer(pieces in proptest::collection::vec(piece(), 0..20)) {
        check(pieces.join("\n").as_bytes())?;
    }

    #[test]
    fn a_good_file_with_a_piece_changed_gets_an_answer(
        start in 0..FULL.len(), length in 0..40_usize, instead in "[\\]\\[{}=\"'#a-z0-9.\n*-]{0,6}",
    ) {
        let mut bytes = FULL.as_bytes().to_vec();
        let end = (start + length).min(bytes.len());
        bytes.splice(start..end, instead.bytes());
        check(&bytes)?;
    }
}

#[test]
fn deep_nesting_is_a_problem_and_not_a_crash() {
    for text in [
        format!("a = {}", "[".repeat(100_000)),
        format!("a = {}", "{a=".repeat(100_000)),
        format!("[{}]", vec!["a"; 100_000].join(".")),
        format!("[service.{}]", "a".repeat(500_000)),
    ] {
        assert!(parse("hothouse.toml", &text).is_err());
    }
}

#[test]
fn a_file_of_nothing_but_problems_has_an_end() {
    let text: String = (0..20_000).map(|number| format!("key{number} = {number}\n")).collect();
    let problems = parse("hothouse.toml", &text).unwrap_err();
    assert_eq!(problems.len(), MAX_PROBLEMS + 1);
    assert_eq!(problems[MAX_PROBLEMS].message, "19000 more problems are not shown");
}

#[test]
fn many_services_and_profiles_are_read_in_good_time() {
    let services: String = (0..256)
        .map(|n| format!("[service.s{n}]\nrun = \"x\"\nneeds = [\"s{}\"]\n", (n + 1) % 256))
        .collect();
    let profiles: String = (0..30)
        .map(|n| {
            format!(
                "[profile.p{n}]\nfiles = \"live\"\n[profile.p{n}.service.s1]\nport = {}\n",
                n + 1
            )
        })
        .collect();
    let problems = parse("hothouse.toml", &(services + &profiles)).unwrap_err();
    assert_eq!(problems.len(), 1, "one circle, found once");
}
