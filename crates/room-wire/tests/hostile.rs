//! Untrusted bytes: the decoder returns a value or an error, and never panics.

use hothouse_room_wire::frame::{BODY_LIMIT, DESCRIPTOR_LIMIT};
use hothouse_room_wire::{
    Answer, Boot, Call, Condition, Elevate, ExecId, ExecSpec, FrameBuffer, LogStart, Need,
    ProbeSpec, Question, Reply, Request, Restart, RestartPolicy, RoomUser, ServiceSpec, Stdio,
    WindowSize, WireError, decode, encode,
};
use std::time::Duration;

use proptest::prelude::*;

fn exec(argv: Vec<Vec<u8>>, rows: u16) -> Request {
    let spec = ExecSpec {
        id: ExecId("e1".into()),
        argv,
        env: vec![b"A=b".to_vec()],
        cwd: b"/".to_vec(),
        user: RoomUser::Agent,
        stdio: Stdio::Pty(WindowSize { rows, cols: 80 }),
        service: Some("db".into()),
    };
    Request { seq: 7, call: Call::Exec(Box::new(spec)) }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let _ = decode::<Request>(&bytes);
        let _ = decode::<Reply>(&bytes);
        let _ = decode::<Boot>(&bytes);
        let _ = decode::<Elevate>(&bytes);
        let mut buffer = FrameBuffer::default();
        buffer.extend(&bytes);
        while let Ok(Some(frame)) = buffer.next_frame() {
            prop_assert!(frame.body.len() <= bytes.len());
        }
    }

    #[test]
    fn a_frame_survives_being_cut_anywhere(
        argv in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8),
        rows in any::<u16>(),
        step in 1_usize..64,
    ) {
        let request = exec(argv, rows);
        let bytes = encode(&request, 3).unwrap();
        let mut buffer = FrameBuffer::default();
        let mut seen = Vec::new();
        for part in bytes.chunks(step) {
            buffer.extend(part);
            while let Some(frame) = buffer.next_frame().unwrap() {
                prop_assert_eq!(frame.descriptors, 3);
                seen.push(decode::<Request>(&frame.body).unwrap());
            }
        }
        prop_assert_eq!(seen, vec![request]);
        prop_assert_eq!(buffer.pending(), 0);
    }

    #[test]
    fn a_service_survives_the_wire(
        name in "[a-z]{1,20}",
        pattern in "\\PC{0,40}",
        port in any::<u16>(),
        grace in any::<u32>(),
    ) {
        let service = ServiceSpec {
            name,
            run: vec![pattern.clone()],
            build: None,
            env: [("NAME".to_owned(), pattern.clone())].into(),
            folder: "/".into(),
            task: false,
            needs: vec![Need { service: "db".into(), condition: Condition::Ready }],
            restart: Restart { policy: RestartPolicy::OnFailure, max: 5 },
            stop_signal: 15,
            stop_grace: Duration::from_millis(grace.into()),
            pty: false,
            watch: vec![],
            probe: Some(ProbeSpec {
                question: Question::Http { port, path: pattern },
                interval: Duration::from_millis(1),
                timeout: Duration::from_millis(2),
                retries: 3,
            }),
        };
        let log = LogStart { segment: 1, offset: 0, index: 0, line: 0 };
        let call = Call::Declare { service: Box::new(service), log };
        let request = Request { seq: 1, call };
        let bytes = encode(&request, 8).unwrap();
        prop_assert_eq!(decode::<Request>(&bytes[5..]).unwrap(), request);
    }

    #[test]
    fn a_cut_or_lengthened_body_is_malformed(cut in 1_usize..20, more in any::<u8>()) {
        let bytes = encode(&exec(vec![b"true".to_vec()], 24), 0).unwrap();
        let body = &bytes[5..];
        prop_assert_eq!(decode::<Request>(&body[..body.len() - cut]), Err(WireError::Malformed));
        let longer = [body, &[more]].concat();
        prop_assert_eq!(decode::<Request>(&longer), Err(WireError::Malformed));
    }
}

#[test]
fn an_announced_length_above_the_limit_is_refused_before_it_is_stored() {
    let mut buffer = FrameBuffer::default();
    let length = BODY_LIMIT + 1;
    buffer.extend(&[&u32::try_from(length).unwrap().to_le_bytes()[..], &[0]].concat());
    assert_eq!(buffer.next_frame(), Err(WireError::TooLong { length }));
}

#[test]
fn a_message_above_the_limit_is_not_encoded() {
    let request = exec(vec![vec![b'x'; BODY_LIMIT]], 24);
    assert!(matches!(encode(&request, 0), Err(WireError::TooLong { .. })));
}

#[test]
fn too_many_descriptors_are_refused_at_both_ends() {
    let count = DESCRIPTOR_LIMIT + 1;
    let reply = Reply { seq: 0, answer: Answer::Done };
    assert_eq!(encode(&reply, count), Err(WireError::TooManyDescriptors { count }));
    let mut buffer = FrameBuffer::default();
    buffer.extend(&[0, 0, 0, 0, count]);
    assert_eq!(buffer.next_frame(), Err(WireError::TooManyDescriptors { count }));
}

#[test]
fn a_body_that_claims_a_huge_list_allocates_no_more_than_it_holds() {
    // `Exec` with an argv that claims 2^60 entries.
    let body = [7, 1, 2, b'e', b'1', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert_eq!(decode::<Request>(&body), Err(WireError::Malformed));
}

/// The service format of rooms of earlier builds, which must match ours.
#[derive(serde::Serialize)]
struct EarlierService {
    name: String,
    run: Vec<Vec<u8>>,
    build: Option<Vec<Vec<u8>>>,
    env: Vec<Vec<u8>>,
    cwd: Vec<u8>,
    task: bool,
    needs: Vec<(String, Condition)>,
    policy: RestartPolicy,
    restarts: u32,
    stop_signal: i32,
    grace_ms: u32,
    pty: bool,
    watch: Vec<Vec<u8>>,
    probe: Option<(Question, u32, u32, u32)>,
}

#[test]
fn a_room_of_an_earlier_build_understands_a_service() {
    let words = |all: &[&str]| all.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let question = Question::Exec { words: vec!["true".into()] };
    let earlier = EarlierService {
        name: "api".into(),
        run: words(&["sh", "-c", "x"]),
        build: Some(words(&["make"])),
        env: words(&["A=1", "B=x=y"]),
        cwd: b"/src".to_vec(),
        task: true,
        needs: vec![("db".into(), Condition::Completed)],
        policy: RestartPolicy::Always,
        restarts: 7,
        stop_signal: 15,
        grace_ms: 10_000,
        pty: true,
        watch: words(&["/src/*.js"]),
        probe: Some((question.clone(), 250, 2_000, 3)),
    };
    let now = ServiceSpec {
        name: "api".into(),
        run: ["sh", "-c", "x"].map(str::to_owned).to_vec(),
        build: Some(vec!["make".into()]),
        env: [("A", "1"), ("B", "x=y")].map(|(n, v)| (n.to_owned(), v.to_owned())).into(),
        folder: "/src".into(),
        task: true,
        needs: vec![Need { service: "db".into(), condition: Condition::Completed }],
        restart: Restart { policy: RestartPolicy::Always, max: 7 },
        stop_signal: 15,
        stop_grace: Duration::from_secs(10),
        pty: true,
        watch: vec!["/src/*.js".into()],
        probe: Some(ProbeSpec {
            question,
            interval: Duration::from_millis(250),
            timeout: Duration::from_secs(2),
            retries: 3,
        }),
    };
    let bytes = encode(&earlier, 0).unwrap();
    assert_eq!(encode(&now, 0).unwrap(), bytes);
    assert_eq!(decode::<ServiceSpec>(&bytes[5..]).unwrap(), now);
}
