//! Real models: the cost of their calls is recorded and capped, and only the wall has their key.

use std::path::Path;

use hothouse_testkit::{TestEnv, wait_until};
use serde_json::Value;

use super::{internet::walled_after, py};

const CONFIG: &str = "mode = \"allowlist\"\nallow = [\"ADDRESS\"]\n\
    [integration.model]\nclass = \"test-mode\"\nvendor = \"openai\"\nhosts = [\"good.example\"]\n\
    caps = { calls = 3, cost = 0.05 }\n\
    [secret.OPENAI_API_KEY]\nhosts = [\"good.example\"]\nfrom = \"env:MY_KEY\"\n";

/// Asks the model; prints the status and the answer.
const CALL: &str = "
def call(path='chat/completions', key=None, model='gpt-4o-mini', said='hello', **more):
    body = {'model': model, 'messages': [{'role': 'user', 'content': said}], 'max_tokens': 1000, **more}
    headers = {'Authorization': 'Bearer ' + (key or os.environ['OPENAI_API_KEY']), 'Content-Type': 'application/json'}
    request = u.Request('https://good.example/v1/' + path, data=json.dumps(body).encode(), headers=headers)
    try:
        with u.urlopen(request, timeout=20) as answer:
            return f'{answer.status} {answer.read().decode()}'
    except urllib.error.HTTPError as error:
        return f'{error.code} {error.read().decode()}'
";

fn call(env: &TestEnv, repository: &Path, arguments: &str) -> String {
    let ran = py(env, repository, &format!("{CALL}\nprint(call({arguments}))"));
    assert_eq!(ran.code, 0, "{ran}");
    ran.stdout
}

fn calls(env: &TestEnv, repository: &Path, query: &str) -> Vec<Value> {
    let listed = env.json(repository, &["llm", "-w", "a", "--json", query]);
    listed.as_array().unwrap().clone()
}

#[test]
fn calls_of_a_real_model_are_recorded_and_end_at_their_caps() {
    let real = format!("sk-{}-{}", "proj", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6");
    let own = real.replace("a1B2", "zZ99");
    let before = |env: &mut TestEnv, _: &_| env.set("MY_KEY", real.clone());
    walled_after(CONFIG, before, |env, repository, internet| {
        let whole = call(env, repository, "");
        assert!(whole.starts_with("200 ") && whole.contains("completion_tokens"), "{whole}");
        let streamed = call(env, repository, "stream=True");
        assert!(streamed.starts_with("200 ") && streamed.contains("[DONE]"), "{streamed}");
        for (arguments, told) in [
            (format!("key='{own}'"), "a key of the room's own"),
            (format!("said='use {own}'"), "live OpenAI"),
            ("path='fine_tuning/jobs'".to_owned(), "nobody here can tell what this request costs"),
            ("model='gpt-5-pro'".to_owned(), "may cost $0.6"),
            ("n=100".to_owned(), "may cost $0.06"),
        ] {
            let refused = call(env, repository, &arguments);
            assert!(
                refused.starts_with("403 ") && refused.contains(told),
                "{arguments}: {refused}"
            );
        }
        assert!(call(env, repository, "").starts_with("200 "));
        // A daemon started later knows what was spent.
        wait_until("the calls are recorded", || calls(env, repository, "matched=true").len() == 3);
        env.ok(repository, &["daemon", "stop"]);
        let refused = call(env, repository, "");
        assert!(refused.starts_with("403 ") && refused.contains("all 3 calls"), "{refused}");
        assert!(refused.contains("[integration.model.caps]"), "{refused}");
        let log = internet.log();
        assert_eq!(log.matches(&format!("model Bearer {real}")).count(), 3, "{log}");
        assert!(!log.contains(&own), "{log}");
        let made = calls(env, repository, "matched=true");
        assert_eq!(made.len(), 3, "{made:?}");
        for one in &made {
            assert_eq!((&one["input_tokens"], &one["output_tokens"]), (&1000.into(), &500.into()));
            assert_eq!((&one["status"], &one["matched"]), (&200.into(), &true.into()), "{one}");
            assert!((one["cost"].as_f64().unwrap() - 0.00045).abs() < 1e-9, "{one}");
        }
        assert_eq!(made.iter().filter(|one| one["stream"] == true).count(), 1, "{made:?}");
        wait_until("refusals are recorded", || {
            let refused = calls(env, repository, "matched=false");
            refused.iter().filter(|one| one["refused"].is_string()).count() == 3
        });
    });
}

#[test]
fn a_call_that_the_end_of_the_daemon_interrupts_is_recorded() {
    let real = format!("sk-{}-{}", "proj", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6");
    let before = |env: &mut TestEnv, _: &_| env.set("MY_KEY", real.clone());
    walled_after(CONFIG, before, |env, repository, internet| {
        let alone = "if os.fork() == 0:\n    nothing = os.open(os.devnull, os.O_RDWR)\n    \
            [os.dup2(nothing, stream) for stream in range(3)]\n    os.setsid()\n    call(said='stall')";
        let ran = py(env, repository, &format!("{CALL}\n{alone}"));
        assert_eq!(ran.code, 0, "{ran}");
        wait_until("the model has begun its answer", || {
            internet.log().contains(&format!("model Bearer {real}"))
        });
        env.ok(repository, &["daemon", "stop"]);
        let made = calls(env, repository, "matched=true");
        assert_eq!(made.len(), 1, "{made:?}");
        // Its cost is unknown, so the whole reservation counts against the cap.
        assert!(made[0]["cost"].as_f64().unwrap() > 0.0005, "{made:?}");
    });
}
