//! Tests of complete sessions.

use super::*;

fn spec() -> SessionSpec {
    SessionSpec { hostname: "mx.test".into(), ..SessionSpec::default() }
}

/// A session in which every delivery succeeds immediately, with its output.
struct Talk {
    session: Session,
    said: String,
    delivered: Vec<Delivery>,
    is_closed: bool,
    waits: Vec<Duration>,
    handshakes: usize,
}

impl Talk {
    fn new(spec: SessionSpec) -> Self {
        let (session, actions) = Session::new(spec);
        let mut talk = Self {
            session,
            said: String::new(),
            delivered: Vec::new(),
            is_closed: false,
            waits: Vec::new(),
            handshakes: 0,
        };
        talk.obey(actions);
        talk
    }

    fn obey(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(bytes) => self.said.push_str(std::str::from_utf8(&bytes).unwrap()),
                Action::StartTls => {
                    self.handshakes += 1;
                    let more = self.session.on_encrypted();
                    self.obey(more);
                }
                Action::Deliver(delivery) => {
                    self.delivered.push(*delivery);
                    let id = format!("q{}", self.delivered.len());
                    let more = self.session.on_delivered(Ok(id));
                    self.obey(more);
                }
                Action::Wait(time) => self.waits.push(time),
                Action::Close => self.is_closed = true,
            }
        }
    }

    fn say(&mut self, bytes: impl AsRef<[u8]>) -> String {
        self.said.clear();
        let actions = self.session.on_bytes(bytes.as_ref());
        self.obey(actions);
        self.said.clone()
    }

    /// Returns the codes of the replies.
    fn codes(&mut self, bytes: impl AsRef<[u8]>) -> Vec<u16> {
        let said = self.say(bytes);
        said.lines().map(|line| line[..3].parse().unwrap()).collect()
    }
}

const MESSAGE: &str = "Subject: hi\r\n\r\n..dot\r\nend\r\n.\r\n";

#[test]
fn a_pipelined_session_is_the_same_however_it_is_cut() {
    let stream = format!(
        "ehlo [127.0.0.1]\r\nmail FROM:<a@x.example> size=147 BODY=8BITMIME\r\nRCPT TO:<b@y.example> NOTIFY=FAILURE\r\n\
         RCPT TO:<c@y.example>\r\nDATA\r\n{MESSAGE}MAIL FROM:<>\r\nRCPT TO:<d@y.example>\r\nDATA\r\n.\r\nQUIT\r\n"
    );
    let mut whole = Talk::new(spec());
    let said = whole.say(&stream);
    assert!(said.contains("250 2.0.0 Ok: queued as q1\r\n"), "{said}");
    assert!(said.ends_with("250 2.0.0 Ok: queued as q2\r\n221 2.0.0 Bye\r\n"), "{said}");
    let first = &whole.delivered[0];
    assert_eq!(first.from, "a@x.example");
    assert_eq!(first.to, ["b@y.example", "c@y.example"]);
    assert_eq!(first.message, b"Subject: hi\r\n\r\n.dot\r\nend\r\n");
    assert_eq!(first.parameters, ["size=147", "BODY=8BITMIME", "NOTIFY=FAILURE"]);
    assert_eq!((whole.delivered[1].from.as_str(), whole.delivered[1].message.len()), ("", 0));
    assert!(whole.is_closed);
    for piece in [1, 2, 3, 7, 50] {
        let mut cut = Talk::new(spec());
        let parts = stream.as_bytes().chunks(piece).map(|part| cut.say(part)).collect::<String>();
        assert_eq!((&parts, &cut.delivered), (&said, &whole.delivered), "{piece}");
    }
}

#[test]
fn nothing_is_acknowledged_or_processed_before_a_message_is_durable() {
    let (mut session, _) = Session::new(spec());
    session.on_bytes(b"EHLO x\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\n");
    let actions = session.on_bytes(format!("DATA\r\n{MESSAGE}QUIT\r\n").as_bytes());
    assert!(matches!(&actions[..], [Action::Send(_), Action::Deliver(_)]));
    assert_eq!(session.on_bytes(b"NOOP\r\n"), []);
    let after = session.on_delivered(Err("the disk\r\n250 is full".into()));
    let [Action::Send(bytes), ..] = &after[..] else { panic!("{after:?}") };
    assert_eq!(bytes, b"451 4.3.0 the disk250 is full\r\n");
    assert_eq!(after.last(), Some(&Action::Close));
    assert_eq!(session.on_delivered(Ok("again".into())), []);

    let (mut session, _) = Session::new(spec());
    session.on_bytes(b"EHLO x\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n.\r\n");
    let actions = session.on_bytes(&vec![b'a'; WAITING_LIMIT + 1]);
    assert_eq!(actions.last(), Some(&Action::Close));
}

#[test]
fn commands_come_in_their_order() {
    let mut talk = Talk::new(spec());
    assert_eq!(talk.codes("MAIL FROM:<a@x>\r\n"), [503]);
    assert_eq!(talk.codes("HELO x\r\n"), [250]);
    assert_eq!(talk.codes("RCPT TO:<b@y>\r\nDATA\r\n"), [503, 503]);
    assert_eq!(talk.codes("MAIL FROM:<a@x>\r\nDATA\r\nMAIL FROM:<a@x>\r\n"), [250, 554, 503]);
    assert_eq!(
        talk.codes("RCPT TO:<>\r\nRCPT TO:b\r\nRSET\r\nRCPT TO:<b@y>\r\n"),
        [501, 501, 250, 503]
    );
    assert_eq!(
        talk.codes("VRFY a\r\nNOOP\r\nHELP\r\nEXPN x\r\nLHLO x\r\n"),
        [252, 250, 214, 502, 502]
    );
    assert_eq!(talk.codes("MAIL FROM:<a@x> SIZE=99999999999\r\n"), [552]);
}

#[test]
fn tls_starts_over_and_drops_what_was_pipelined() {
    let mut talk = Talk::new(SessionSpec { can_start_tls: true, ..spec() });
    assert!(talk.say("EHLO x\r\n").ends_with("250 STARTTLS\r\n"));
    let said = talk.say("STARTTLS\r\nEHLO evil\r\nMAIL FROM:<evil@x>\r\n");
    assert_eq!((said.as_str(), talk.handshakes), ("220 2.0.0 Ready to start TLS\r\n", 1));
    assert_eq!(talk.codes("MAIL FROM:<a@x>\r\n"), [503]);
    assert!(!talk.say("EHLO x\r\n").contains("STARTTLS"));
    assert_eq!(talk.codes("STARTTLS\r\n"), [502]);
}

#[test]
fn any_login_is_accepted() {
    for stream in [
        "AUTH PLAIN AGFubgBwdw==\r\n",
        "AUTH PLAIN\r\nAGFubgBwdw==\r\n",
        "AUTH LOGIN\r\nYW5u\r\ncHc=\r\n",
        "auth login YW5u\r\ncHc=\r\n",
        "AUTH CRAM-MD5\r\nYW5uIDAxMjM=\r\n",
    ] {
        let mut talk = Talk::new(spec());
        talk.say("EHLO x\r\n");
        let said = talk.say(stream);
        assert!(said.ends_with("235 2.7.0 Authentication succeeded\r\n"), "{stream}: {said}");
        talk.say(format!("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n{MESSAGE}"));
        assert_eq!(talk.delivered[0].auth_user.as_deref(), Some("ann"), "{stream}");
    }
    let mut talk = Talk::new(spec());
    assert_eq!(talk.codes("AUTH PLAIN x\r\n"), [503]);
    talk.say("EHLO x\r\n");
    assert_eq!(
        talk.codes("AUTH\r\nAUTH LOGIN\r\n*\r\nAUTH NEW\r\nabc\r\n"),
        [501, 334, 501, 334, 235]
    );
}

#[test]
fn chunks_are_taken_as_they_are() {
    let mut talk = Talk::new(spec());
    talk.say("EHLO x\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\n");
    assert_eq!(talk.codes("BDAT 5\r\n.\r\n.\rBDAT 3\r\nab"), [250]);
    assert_eq!(talk.codes("cDATA\r\n"), [250, 503]);
    assert_eq!(talk.codes("BDAT 0 LAST\r\nNOOP\r\n"), [250, 250]);
    assert_eq!(talk.delivered[0].message, b".\r\n.\rabc");
    assert_eq!(talk.codes("BDAT 4 LAST\r\nQUITNOOP\r\n"), [503, 250]);
}

#[test]
fn too_much_is_refused_and_the_session_lives() {
    let mut talk = Talk::new(spec());
    talk.say("EHLO x\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\n");
    let size = MESSAGE_LIMIT + 1;
    assert_eq!(talk.codes(format!("BDAT {size} LAST\r\n")), [0u16; 0]);
    assert_eq!(talk.codes(vec![b'a'; size]), [552]);
    assert_eq!(talk.codes("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n"), [250, 250, 354]);
    assert_eq!(talk.codes(vec![b'a'; size]), [0u16; 0]);
    assert_eq!(talk.codes("\r\n.\r\n"), [552]);
    assert_eq!(talk.codes(vec![b'a'; 3 * LINE_LIMIT]), [0u16; 0]);
    assert!(talk.session.input.len() <= LINE_LIMIT);
    assert_eq!(talk.codes("\r\nNOOP\r\n"), [500, 250]);
    talk.say("MAIL FROM:<a@x>\r\n");
    let many = "RCPT TO:<b@y>\r\n".repeat(RECIPIENT_LIMIT + 1);
    assert_eq!(talk.codes(many).last(), Some(&452));
}

#[test]
fn garbage_and_other_protocols_are_turned_away() {
    let mut talk = Talk::new(spec());
    talk.say("\u{16}\u{3}garbage\r\n".repeat(30));
    assert!(talk.is_closed);
    assert_eq!(talk.say("NOOP\r\n"), "");
    let mut talk = Talk::new(spec());
    talk.say("POST / HTTP/1.1\r\nHost: x\r\n\r\nEHLO x\r\nMAIL FROM:<a@x>\r\n");
    assert!(talk.is_closed && talk.said.starts_with("421 "));
}

#[test]
fn lmtp_answers_for_each_recipient() {
    let mut talk = Talk::new(SessionSpec { lmtp: true, ..spec() });
    assert_eq!(talk.codes("EHLO x\r\n"), [502]);
    talk.say("LHLO x\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nRCPT TO:<c@y>\r\n");
    assert_eq!(talk.codes(format!("DATA\r\n{MESSAGE}")), [354, 250, 250]);
}

#[test]
fn faults_are_per_recipient() {
    let rule = |recipient: &str, fault| FaultRule { recipient: recipient.into(), fault };
    let rules = vec![
        rule("bad@*", Fault::Reject),
        rule("later@*", Fault::Defer),
        rule("grey@*", Fault::Greylist),
        rule("slow@*", Fault::Slow(Duration::from_secs(2))),
    ];
    let mut faults = Faults { rules, ..Faults::default() };
    let stream = "EHLO x\r\nMAIL FROM:<a@x>\r\nRCPT TO:<bad@y>\r\nRCPT TO:<later@y>\r\nRCPT TO:<grey@y>\r\nRCPT TO:<slow@y>\r\n";
    let mut talk = Talk::new(SessionSpec { faults: faults.clone(), ..spec() });
    assert!(talk.codes(stream).ends_with(&[250, 550, 451, 451, 250]));
    assert_eq!(talk.waits, [Duration::from_secs(2)]);
    faults.known.extend(talk.session.greylisted().iter().cloned());
    let mut talk = Talk::new(SessionSpec { faults, ..spec() });
    assert!(talk.codes(stream).ends_with(&[250, 550, 451, 250, 250]));
}
