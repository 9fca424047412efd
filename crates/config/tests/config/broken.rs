//! Invalid files, each with the complete list of its problems as a person reads it.

use hothouse_config::{MAX_BYTES, parse, parse_bytes};
use hothouse_model::config::Problem;

fn check(text: &str, expected: &str) {
    let problems = parse("hothouse.toml", text).expect_err("the file is broken");
    let shown: Vec<String> = problems.iter().map(Problem::render).collect();
    assert_eq!(
        shown.join("\n") + "\n",
        expected,
        "the problems changed; they are now:\n\n{}\n",
        shown.join("\n")
    );
}

macro_rules! broken {
    ($($(#[$doc:meta])* $test:ident: $file:literal),+ $(,)?) => { $(
        $(#[$doc])*
        #[test]
        fn $test() {
            check(
                include_str!(concat!("../broken/", $file, ".toml")),
                include_str!(concat!("../broken/", $file, ".txt")),
            );
        }
    )+ };
}

broken! {
    what_stands_below_an_unclosed_heading_is_not_another_problem: "unclosed",
    one_mistake_is_one_problem: "once",
    typing_mistakes_get_their_near_miss: "foundation",
    a_wrong_type_says_what_was_expected_and_found: "types",
    values_out_of_range_say_their_range: "ranges",
    unknown_words_list_the_known_ones: "choices",
    references_that_lead_nowhere_are_named: "references",
    circles_are_shown_whole: "circles",
    a_port_or_label_claimed_twice_is_refused: "ports",
    keys_that_do_not_go_together_are_refused: "alternatives",
    hosts_and_rules_are_checked: "hosts",
    a_rule_for_datagrams_names_what_it_must: "transports",
    what_can_be_read_beside_bad_syntax_is_still_checked: "syntax",
    a_profile_must_hold_as_a_whole: "profiles",
    strange_names_and_values_stay_on_one_line: "strange",
}

#[test]
fn a_huge_file_is_one_problem() {
    let text = "#".repeat(MAX_BYTES + 1);
    let problems = parse("hothouse.toml", &text).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].message, "the file has 1048577 bytes, more than the 1048576 allowed");
}

#[test]
fn bytes_that_are_not_text_say_where() {
    let problems = parse_bytes("hothouse.toml", b"[project]\nname = \"a\xff\"\n").unwrap_err();
    let shown: Vec<String> = problems.iter().map(Problem::render).collect();
    assert_eq!(shown, ["hothouse.toml:2:10: the file is not UTF-8 from here on"]);
}

#[test]
fn a_problem_is_plain_json() {
    let problems = parse("hothouse.toml", "[room]\nmemroy = 1\n").unwrap_err();
    let json = serde_json::to_value(&problems[0]).unwrap();
    assert_eq!(json["key"], "room.memroy");
    assert_eq!(json["suggestion"], "memory");
    assert_eq!((&json["line"], &json["column"]), (&2.into(), &1.into()));
    assert_eq!(serde_json::from_value::<Problem>(json).unwrap(), problems[0]);
}

#[test]
fn a_credential_in_a_value_is_not_repeated() {
    let text = r#"
        [service.x]
        run = "sleep 100"
        env = { KEY = "sk_live_51abcdefghijklmnopqrstuvwx{" }
        [secret.TOKEN]
        hosts = ["a.example"]
        from = "sk_live_51abcdefghijklmnopqrstuvwx"
    "#;
    let problems = parse("hothouse.toml", text).unwrap_err();
    assert_eq!(problems.len(), 2);
    assert!(problems.iter().all(|problem| !problem.render().contains("sk_live")), "{problems:?}");
}
