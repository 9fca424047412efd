//! Replays the corpus, and a bounded number of mutations of it, which are the same on every run.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests stop at once")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use hothouse_api::exec::{Ask, Hello, RunAsk, Say, Target, TerminalAsk};
use hothouse_edge::wire::{dns, hello};
use hothouse_fuzz_targets::TARGETS;
use hothouse_room_wire::{
    Answer, Call, CallRefusal, CallRefusalKind, Elevate, Elevated, ExecId, ExecSpec, Exit, Reply,
    Request, RoomUser, Stdio, WindowSize, encode, frame::HEAD,
};

const MUTATIONS: usize = 20_000;

/// A line of a timeline whose hash is valid.
const RECORD: &str = r#"{"seq":1,"id":"log_0123456789abcdef","kind":"log","time":"2026-08-01T12:00:00Z","sandbox":"a","run":"run_1","service":"api","process":{"room_pid":7,"command":"node"},"trace":null,"summary":"hello","prev":"sha256:37ddff8ee13f1e57937fd048fa323f5ea5258c106dfc7be9d5343dd264fadf35","hash":"sha256:bdcd0e7b395c13a4fab983dcc5800bfacaa2aaf0a3a72007d339cbd1315580c4","body":{"source":"api","text":"hello"}}"#;

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target)
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(corpus(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// A small generator: mutations must be the same everywhere, and need not be good.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(below.max(1)).unwrap()).unwrap()
    }

    fn byte(&mut self) -> u8 {
        // Edges are where decoders break.
        match self.roll(4) {
            0 => [0, 1, 0x7f, 0x80, 0xff][self.roll(5)],
            _ => u8::try_from(self.roll(256)).unwrap(),
        }
    }

    fn mutate(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.roll(seeds.len())].clone();
        for _ in 0..=self.roll(6) {
            let at = self.roll(bytes.len() + 1);
            match self.roll(5) {
                0 if at < bytes.len() => bytes[at] = self.byte(),
                1 => bytes.insert(at, self.byte()),
                2 => bytes.truncate(at),
                3 => {
                    let other = &seeds[self.roll(seeds.len())];
                    bytes.splice(at.., other[self.roll(other.len())..].iter().copied());
                }
                _ if at < bytes.len() => drop(bytes.remove(at)),
                _ => {}
            }
        }
        bytes
    }
}

#[test]
fn no_decoder_breaks_its_word() {
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        assert!(seeds.len() >= 2, "{name} has a corpus");
        seeds.iter().for_each(|seed| target(seed));
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        for _ in 0..MUTATIONS {
            target(&dice.mutate(&seeds));
        }
        target(&[]);
    }
}

/// Returns seeds of ordinary input. What fuzzers found is kept next to them.
fn ordinary() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let body = |frame: Vec<u8>| frame[HEAD..].to_vec();
    let words = || vec![b"sh".to_vec(), b"-c".to_vec(), b"true".to_vec()];
    let spec = ExecSpec {
        id: ExecId("ex-1".into()),
        argv: words(),
        env: vec![b"A=b".to_vec()],
        cwd: b"/".to_vec(),
        user: RoomUser::Agent,
        stdio: Stdio::Pty(WindowSize { rows: 24, cols: 80 }),
        service: Some("db".into()),
    };
    let exec = Request { seq: 7, call: Call::Exec(Box::new(spec)) };
    let exited = Reply { seq: 7, answer: Answer::Exited(Exit::Signal(9)) };
    let refusal =
        CallRefusal { kind: CallRefusalKind::System, message: "no".into(), errno: Some(1) };
    let refused = Reply { seq: 8, answer: Answer::Refused(refusal) };
    let run = Elevate::Run { argv: words(), env: vec![b"PATH=/bin".to_vec()], cwd: b"/".to_vec() };
    let target = || Target { sandbox: Some("a".into()), folder: "/r".into(), exec: "ex-1".into() };
    let terminal = TerminalAsk { rows: 24, columns: 80, kind: "xterm".into() };
    let ask = RunAsk {
        target: target(),
        words: words(),
        root: false,
        fresh: true,
        terminal: Some(terminal),
        service: Some("db".into()),
        folder: Some("web".into()),
        database: None,
    };
    let stream = [vec![3], encode(&exec, 0).unwrap(), encode(&exited, 3).unwrap()].concat();
    let question =
        b"\xab\xcd\x01\x20\0\x01\0\0\0\0\0\x01\x02db\x03lan\0\0\x01\0\x01\0\0\x29\x10\0\0\0\0\0\0\0";
    vec![
        ("frames", "two", stream),
        (
            "guard",
            "hook",
            br#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"cd /; rm -rf ~ $(x) <<E\n"}}"#.to_vec(),
        ),
        ("guard", "script", b"for f in {a,b}; do X=$(echo $f | base64 -d | sh) eval \"$X\" > link/../x; done".to_vec()),
        ("frames", "too-long", vec![1, 0xff, 0xff, 0xff, 0xff, 0, 1, 2, 3]),
        ("room_answers", "exec", body(encode(&exec, 0).unwrap())),
        ("room_answers", "exited", body(encode(&exited, 0).unwrap())),
        ("room_answers", "refused", body(encode(&refused, 0).unwrap())),
        ("sudo", "run", body(encode(&run, 3).unwrap())),
        ("sudo", "signal", body(encode(&Elevate::Signal(15), 0).unwrap())),
        ("sudo", "exited", body(encode(&Elevated::Exited(Exit::Code(1)), 0).unwrap())),
        ("exec", "hello", body(encode(&Hello { build: "0.1.0+1".into() }, 0).unwrap())),
        ("exec", "run", body(encode(&Ask::Run(ask), 0).unwrap())),
        ("exec", "attach", body(encode(&Ask::Attach(target()), 0).unwrap())),
        ("exec", "started", {
            body(encode(&Say::Started { terminal: true, joined: false }, 2).unwrap())
        }),
        ("dns", "question", question.to_vec()),
        ("names", "question", question.to_vec()),
        ("names", "asked", dns::ask(7, "api.example", dns::TYPE_AAAA).unwrap()),
        ("names", "answer", {
            let asked = dns::ask(7, "api.example", dns::TYPE_A).unwrap();
            dns::Question::read(&asked).unwrap().addresses(&["1.2.3.4".parse().unwrap()], 60)
        }),
        ("tls_hello", "named", hello::sample(Some("api.example"), false, 0)),
        ("tls_hello", "large", hello::sample(Some("api.example"), true, 17_000)),
        ("tls_hello", "nameless", hello::sample(None, false, 9)),
        (
            "http_head",
            "plain",
            b"GET /a HTTP/1.1\r\nHost: a.example:80\r\nAccept: */*\r\n\r\n".to_vec(),
        ),
        (
            "http_head",
            "absolute",
            b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec(),
        ),
        ("http_head", "connect", b"CONNECT [::1]:443 HTTP/1.1\r\n\r\n".to_vec()),
        ("socks", "greeting", vec![5, 2, 0, 2]),
        ("socks", "named", [&[5, 1, 0, 3, 9][..], b"a.example", &[1, 187]].concat()),
        ("socks", "address", vec![5, 1, 0, 1, 1, 2, 3, 4, 0, 80]),
        ("terminated_requests", "bearer", b"/x?key=ghp_placeholder000000\nauthorization: Bearer ghp_placeholder000000\nx-k: ghp_placeholder000000".to_vec()),
        ("terminated_requests", "basic", b"/a.git/info/refs\nauthorization: Basic eDpnaHBfcGxhY2Vob2xkZXIwMDAwMDA=".to_vec()),
        ("terminated_requests", "signed", b"/k?a=b\nx-amz-date: 20150830T123600Z\nauthorization: AWS4-HMAC-SHA256 Credential=AKID/20150830/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=00".to_vec()),
        ("terminated_answers", "echo", b"\x03{\"t\":\"ghp_the-value-itself1\",\"b\":\"Z2hwX3RoZS12YWx1ZS1pdHNlbGYx\"}".to_vec()),
        ("terminated_answers", "cut", b"\x05xghp_the-value-itself1ghp_the-value-itselfghp_the".to_vec()),
        ("websocket_frames", "whole", b"\x03\x81\x17aghp_the-value-itself1b\x89\x01?\x82\x7e\0\x02ab".to_vec()),
        ("websocket_frames", "split", b"\x05\x01\x09ghp_the-v\x8a\x00\x80\x0dalue-itself1!".to_vec()),
        ("answer_parts", "middle", b"bytes=100-109\nbytes 60-149/500\n\0\0\0\0\x03abc\0\0\0\0\0".to_vec()),
        ("answer_parts", "last", b"bytes=-5\nbytes 455-499/500\n\x02\0\0\0\x01x".to_vec()),
        ("request_paths", "plain", b"/v1/%61dmin/a%20b/b%C3%BCcher".to_vec()),
        ("request_paths", "odd", b"/admin/..;/x%2fy//z\\%252e".to_vec()),
        ("env_files", "plain", b"# c\nexport A='1'\nB=\"two\nlines\"\nC=postgres://u:p@x.neon.tech/db\n".to_vec()),
        ("mock_fixtures", "toml", b"[[fixture]]\nrequest = { method = \"POST\", path = \"/a/{id}\", query = { q = \"1\" }, json = { \"$.a.b\" = { present = true } } }\nanswer = { status = 201, headers = { x = \"{{path.id}}\" }, json = { n = \"{{counter}}\", b = \"{{request.json.a.b | plus 1 | round 2}}\" }, set = { \"k.{{path.id}}\" = \"{{answer}}\" } }\nthen = [{ fault = \"reset\" }, { events = [{ event = \"e\", data = \"{{uid.hex}}\" }] }]\n".to_vec()),
        ("mock_fixtures", "json", b"{\"request\":{\"path\":\"/{rest*}\"},\"answer\":{\"text\":\"{{request.body}}\",\"slow\":{\"bytes\":1,\"every\":\"1ms\"}}}".to_vec()),
        ("lockfiles", "npm", b"{\"packages\":{\"node_modules/stripe\":{\"version\":\"1\"}},\"dependencies\":{\"a\":{\"dependencies\":{\"openai\":{}}}}}".to_vec()),
        ("lockfiles", "lines", b"packages:\n  '@slack/web-api@7.1.0(x@1)':\n\"stripe@npm:^1, stripe@^2\":\n  version \"2\"\n[[package]]\nname = \"sentry\"\nversion = \"1\"\n    stripe (9.0.0)\ngem \"stripe\"\n[\"a@1\"\ngithub.com/stripe/stripe-go/v76 v76.1.0 h1:x\nstripe==1 ; y\n".to_vec()),
        ("mock_templates", "references", b"{{request.json.a.b | default \"x\" | upper}} {{path.id | pad 4}} {{state.k.(path.id).n}}".to_vec()),
        ("mock_templates", "others", b"{{now.http}}{{now.unix | times 1.5}}{{uid}}{{counter.n}}{{request.query.q | url}}{{\"{{\"}}".to_vec()),
        ("mock_requests", "session", b"POST /v1/checkout/sessions\nmode=payment&success_url=https://a.example/{CHECKOUT_SESSION_ID}&line_items[0][price_data][currency]=usd&line_items[0][price_data][unit_amount]=500&line_items[0][price_data][product_data][name]=Mug&expand[]=line_items".to_vec()),
        ("mock_requests", "intent", b"POST /v1/payment_intents\namount=1690&currency=usd&confirm=true&payment_method=pm_card_visa&metadata[a]=1".to_vec()),
        ("mock_requests", "search", b"GET /v1/customers/search?query=metadata['a']:'1' AND -name~'x'&limit=3\n".to_vec()),
        ("mock_requests", "subscription", b"POST /v1/subscriptions\ncustomer=cus_1&items[0][price]=price_1&trial_period_days=3".to_vec()),
        ("mock_descriptions", "pets", br##"{"openapi":"3.1.0","paths":{"/a/{id}":{"get":{"parameters":[{"name":"q","in":"query","schema":{"type":"integer","minimum":1}}],"responses":{"200":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/A"}}}}}},"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/A"}}}},"responses":{"204":{}}}}},"components":{"schemas":{"A":{"type":"object","required":["a"],"properties":{"a":{"type":"integer"},"b":{"type":"array","items":{"$ref":"#/components/schemas/A"}}}}}}}"##.to_vec()),
        ("mock_descriptions", "forms", br##"{"openapi":"3.0.3","servers":[{"url":"https://x.example/"}],"paths":{"/a/{b}.json":{"get":{"responses":{"2XX":{"content":{"application/json":{"schema":{"allOf":[{"properties":{"a":{"type":"string","minLength":5,"pattern":"^a"}}}],"oneOf":[{"enum":[1,2]}]}}}}}}}}}"##.to_vec()),
        ("env_files", "odd", b"=\nA\nA==\n'=\"\nB='\n".to_vec()),
        ("queries", "fields", b"to:buyer subject=\"Your receipt\" -via~^smtp$ properties.plan=pro".to_vec()),
        ("queries", "words", b"\"Checkout Started\" -error header.reply-to:x 'a b' don't".to_vec()),
        ("sunk_analytics", "posthog", br#"us.i.posthog.com/batch/?compression=gzip
    {"api_key":"k","batch":[{"event":"paid","distinct_id":"u","properties":{"plan":"pro","$set":{"a":1}}}]}"#.to_vec()),
        ("sunk_analytics", "lz", b"us.i.posthog.com/e/?compression=lz64\nIY18ZVA=".to_vec()),
        ("sunk_analytics", "segment", br#"api.segment.io/v1/batch
    {"batch":[{"type":"group","userId":"u","groupId":"g","traits":{"a":[1]}},{"type":"page"}]}"#.to_vec()),
        ("sunk_analytics", "google", b"www.google-analytics.com/g/collect?cid=1&en=a&epn.x=1\nen=b&ep.y=2\r\nen=c".to_vec()),
        ("sunk_analytics", "mixpanel", b"api.mixpanel.com/track\ndata=W3siZXZlbnQiOiJQYWlkIn1d".to_vec()),
        ("sunk_flags", "launchdarkly", br#"events.launchdarkly.com/bulk
    [{"kind":"summary","features":{"a":{"counters":[{"value":true,"count":1}]}}},{"kind":"custom","key":"x"}]"#.to_vec()),
        ("sunk_flags", "unleash", br#"x.getunleash.io/api/client/metrics
    {"bucket":{"toggles":{"a":{"yes":1,"no":0,"variants":{"b":1}}}}}"#.to_vec()),
        ("sunk_flags", "statsig", br#"statsigapi.net/v1/rgstr
    {"events":[{"eventName":"statsig::gate_exposure","metadata":{"gate":"a","gateValue":"true"}}]}"#.to_vec()),
        ("sunk_models", "chat", br##"api.openai.com/v1/chat/completions
    {"model":"m","stream":true,"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"$ref":"#"}}}}}],"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"##.to_vec()),
        ("sunk_models", "messages", br#"api.anthropic.com/v1/messages
    {"model":"c","max_tokens":3,"messages":[{"role":"user","content":"hi"}]}"#.to_vec()),
        ("sunk_models", "gemini", br#"generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse
    {"contents":[{"parts":[{"text":"hi"}]}]}"#.to_vec()),
        ("queued_messages", "life", br#"CreateQueue {"QueueName":"q","Attributes":{"VisibilityTimeout":"1","RedrivePolicy":"{\"deadLetterTargetArn\":\"a:d\",\"maxReceiveCount\":1}"}}
SendMessage {"QueueUrl":"x/q","MessageBody":"{}","MessageAttributes":{"a":{"DataType":"Binary","BinaryValue":"e30="}}}
ReceiveMessage {"QueueUrl":"x/q"}
ReceiveMessage {"QueueUrl":"x/q"}
StartMessageMoveTask {"SourceArn":"a:d"}
Action=SendMessageBatch&QueueUrl=x/q.fifo&SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageBody=b"#.to_vec()),
        ("sunk_traces", "protobuf", b"h/v1/traces\n\x0a\x2a\x0a\x0c\x0a\x0a\x0a\x01k\x12\x05\x0a\x03api\x12\x1a\x12\x18\x0a\x02ab\x12\x02cd*\x02GE9\x01\0\0\0\0\0\0\0".to_vec()),
        ("sunk_traces", "json", br#"h/v1/traces
    {"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"ab","spanId":"cd","name":"x","attributes":[{"key":"a","value":{"kvlistValue":{"values":[{"key":"b","value":{"intValue":"1"}}]}}}]}]}]}]}"#.to_vec()),
        ("since", "moment", b"2026-08-01T12:00:00.5Z".to_vec()),
        ("since", "span", b"1h30m".to_vec()),
        ("since", "mark", b"before-checkout".to_vec()),
        ("record_lines", "first", RECORD.as_bytes().to_vec()),
        ("record_lines", "not-a-record", b"{\"seq\":1,\"hash\":\"sha256:\",\"body\":{}}".to_vec()),
        ("redacted_texts", "pairs", b"password=x&a=1 {\"api_key\": \"y\"} {\\\"token\\\":\\\"z\\\"}".to_vec()),
        ("redacted_texts", "shapes", b"Bearer abc.def postgres://u:p@h/db eyJhbGciOiJ9.eyJzdWIi.x the-value-itself -----BEGIN PRIVATE KEY-----".to_vec()),
        ("dns", "pointer", b"\xab\xcd\x01\x20\0\x01\0\0\0\0\0\0\xc0\x0c\0\x01\0\x01".to_vec()),
    ]
}

#[test]
fn the_corpus_holds_ordinary_talk_as_it_is_spoken_now() {
    for (target, name, bytes) in ordinary() {
        let path = corpus(target).join(name);
        if std::env::var_os("HOTHOUSE_WRITE_CORPUS").is_some() {
            fs::create_dir_all(corpus(target)).unwrap();
            fs::write(&path, &bytes).unwrap();
        }
        let kept = fs::read(&path).unwrap_or_default();
        assert!(
            kept == bytes,
            "{target}/{name} is out of date: run this test with HOTHOUSE_WRITE_CORPUS=1"
        );
    }
}
