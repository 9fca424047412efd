use hothouse_model::policy::{ReasonCode, Transport};

use super::*;
use crate::{
    book,
    fixture::{policy, wall_of},
    ledger,
};

/// Creates a wall whose resolver is a socket that records questions, and answers with `address`.
async fn wall(
    text: &str,
    address: &str,
) -> (Arc<RoomEdge>, Arc<std::sync::Mutex<Vec<String>>>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = socket.local_addr().unwrap();
    let asked: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let (notes, address) = (asked.clone(), address.parse::<IpAddr>().unwrap());
    tokio::spawn(async move {
        let mut buffer = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let question = Question::read(&buffer[..length]).unwrap();
            notes.lock().unwrap().push(format!("{:?}", question.claim));
            let answer = question.addresses(&[address], 30);
            socket.send_to(&answer, from).await.unwrap();
        }
    });
    let edge = wall_of(policy(text, &[]), folder.path(), vec![at], None);
    (edge, asked, folder)
}

/// Asks as a room would; returns the code and the addresses.
async fn ask_for(edge: &RoomEdge, name: &str, kind: u16) -> (u8, Vec<String>) {
    let bytes = dns::ask(7, name, kind).unwrap();
    let answer = match read(edge, &bytes) {
        Work::Silence => panic!("no answer"),
        Work::Answer(answer) => answer,
        Work::Ask(question) => ask(edge, &question).await,
    };
    let answered = dns::read_answer(&bytes, &answer).unwrap();
    (answered.code, answered.addresses.iter().map(ToString::to_string).collect())
}

#[tokio::test]
async fn a_name_outside_the_policy_never_leaves_the_host() {
    let (edge, asked, folder) =
        wall("mode = \"allowlist\"\nallow = [\"good.example\"]\n", "1.2.3.4").await;
    let (code, addresses) = ask_for(&edge, "secret-data.evil.example", TYPE_A).await;
    assert_eq!((code, addresses.len()), (0, 1));
    assert!(book::is_synthetic(addresses[0].parse().unwrap()), "{addresses:?}");
    let (_, v6) = ask_for(&edge, "secret-data.evil.example", TYPE_AAAA).await;
    assert!(book::is_synthetic(v6[0].parse().unwrap()), "{v6:?}");
    for kind in [16, 15, 33, 65, 255] {
        assert_eq!(ask_for(&edge, "x.evil.example", kind).await.1, Vec::<String>::new());
    }
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
    assert_eq!(ask_for(&edge, "GOOD.example", TYPE_A).await, (0, vec!["1.2.3.4".to_owned()]));
    assert_eq!(edge.names_of("1.2.3.4".parse().unwrap()), ["good.example".parse().unwrap()]);
    let records = ledger::read(folder.path());
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!(records[0].host.as_deref(), Some("secret-data.evil.example"));
    assert_eq!(records[0].code, Some(ReasonCode::NotListed.into()));
}

#[tokio::test]
async fn own_names_lead_to_the_rooms_loopback() {
    let (edge, asked, _folder) = wall("mode = \"web\"\n", "1.2.3.4").await;
    for name in ["db", "localhost", "web.a.shop.localhost"] {
        assert_eq!(ask_for(&edge, name, TYPE_A).await, (0, vec!["127.0.0.1".to_owned()]));
        assert_eq!(ask_for(&edge, name, TYPE_AAAA).await, (0, vec!["::1".to_owned()]));
    }
    assert_eq!(ask_for(&edge, "unknown", TYPE_A).await.0, Code::NoName as u8);
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
    edge.set_own_names(vec!["cache".into()]);
    assert_eq!(ask_for(&edge, "cache", TYPE_A).await.1, ["127.0.0.1"]);
    assert_eq!(ask_for(&edge, "db", TYPE_A).await.0, Code::NoName as u8);
}

#[tokio::test]
async fn records_that_could_hide_names_are_not_given() {
    let (edge, asked, _folder) = wall("mode = \"web\"\n", "1.2.3.4").await;
    for kind in [dns::TYPE_HTTPS, dns::TYPE_SVCB] {
        assert_eq!(ask_for(&edge, "a.example", kind).await, (0, Vec::new()));
    }
    assert_eq!(ask_for(&edge, "a.example", 252).await.0, Code::Refused as u8);
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_loopback_address_that_a_rule_opens_is_that_of_the_host() {
    let opened = "mode = \"allowlist\"\nallow = [\"a.example\", \"127.0.0.1:8443\"]\n";
    let (edge, _, _folder) = wall(opened, "127.0.0.1").await;
    let (_, addresses) = ask_for(&edge, "a.example", TYPE_A).await;
    assert!(book::is_synthetic(addresses[0].parse().unwrap()), "{addresses:?}");
    // Without such a rule it means the room itself.
    let (edge, _, _folder) = wall("mode = \"web\"\n", "127.0.0.1").await;
    assert_eq!(ask_for(&edge, "a.example", TYPE_A).await.1, ["127.0.0.1"]);
}

#[tokio::test]
async fn a_new_rule_opens_a_name_immediately() {
    let (edge, _, _folder) = wall("mode = \"allowlist\"\nallow = []\n", "1.2.3.4").await;
    let (_, addresses) = ask_for(&edge, "a.example", TYPE_A).await;
    assert!(book::is_synthetic(addresses[0].parse().unwrap()));
    edge.set_policy(policy("mode = \"allowlist\"\nallow = [\"a.example\"]\n", &[]).into());
    assert_eq!(ask_for(&edge, "a.example", TYPE_A).await.1, ["1.2.3.4"]);
}

#[tokio::test]
async fn a_datagram_to_an_address_that_an_earlier_daemon_told_finds_its_name_again() {
    use crate::datagram::Facts;
    let text = "mode = \"allowlist\"\nallow = [\"time.example:123/udp\", \"ping.example/icmp\"]";
    let (edge, asked, _folder) = wall(text, "93.184.216.34").await;
    let of = |transport, address: &str, port| {
        Facts::of(&edge, transport, address.parse().unwrap(), port)
    };
    let mut known = of(Transport::Udp, "93.184.216.34", Some(123));
    assert!(!known.decide(&edge).allowed, "nobody has looked the name up");
    assert!(known.settle(&edge).await.allowed);
    assert_eq!(known.name().map(ToString::to_string).as_deref(), Some("time.example"));
    assert!(
        of(Transport::Udp, "93.184.216.34", Some(123)).decide(&edge).allowed,
        "and remembers it"
    );
    let before = asked.lock().unwrap().len();
    for (address, port) in [("93.184.216.35", 123), ("93.184.216.34", 124), ("10.0.0.1", 123)] {
        let mut other = of(Transport::Udp, address, Some(port));
        assert!(!other.settle(&edge).await.allowed, "{address}:{port}");
    }
    assert_eq!(asked.lock().unwrap().len(), before, "the answer is remembered, too");
    assert!(of(Transport::Icmp, "93.184.216.34", None).settle(&edge).await.allowed);
}

#[tokio::test]
async fn a_name_that_leads_inside_takes_no_datagrams_there() {
    use crate::{datagram::Facts, room::DialError};
    let (edge, _, _folder) =
        wall("mode = \"web\"\nallow = [\"time.example:123/udp\"]", "10.0.0.1").await;
    let name = "time.example".parse().unwrap();
    let [synthetic, _] = edge.book().synthesize(&name);
    let facts = Facts::of(&edge, Transport::Udp, synthetic, Some(123));
    assert!(facts.decide(&edge).allowed);
    assert!(matches!(facts.place(&edge).await, Err(DialError::Denied(_))));
}

#[tokio::test]
async fn a_name_that_leads_to_a_synthetic_address_gets_one_of_its_own() {
    let (edge, _, _folder) = wall("mode = \"web\"\n", "55.233.64.9").await;
    let first = ask_for(&edge, "odd.example", TYPE_A).await;
    assert_eq!(first, (0, vec!["55.233.64.0".to_owned()]));
    assert_eq!(edge.names_of("55.233.64.0".parse().unwrap()), ["odd.example".parse().unwrap()]);
    assert!(edge.names_of("55.233.64.9".parse().unwrap()).is_empty());
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_in_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let answer = Question::read(&buffer[..length]).unwrap().empty(Code::NoName);
            socket.send_to(&answer, from).await.unwrap();
        }
    });
    let edge = wall_of(policy("mode = \"web\"\n", &[]), folder.path(), vec![at], None);
    assert_eq!(ask_for(&edge, "gone.example", TYPE_A).await.0, Code::NoName as u8);
    let records = ledger::read(folder.path());
    assert_eq!(records[0].host.as_deref(), Some("gone.example"));
    assert_eq!(records[0].error.as_deref(), Some("the name does not exist"));
}

#[tokio::test]
async fn no_kind_of_question_tells_a_name_that_the_policy_does_not_allow() {
    let (edge, asked, _folder) =
        wall("mode = \"allowlist\"\nallow = [\"good.example\"]\n", "1.2.3.4").await;
    let kinds = (0..=300).chain([999, 32_768, 32_769, 65_280, u16::MAX]);
    for (kind, class) in kinds.flat_map(|kind| [1, 3, 4, 0, 254, 255, u16::MAX].map(|c| (kind, c)))
    {
        let mut bytes = dns::ask(7, "secret-data.evil.example", kind).unwrap();
        let at = bytes.len() - 11 - 2;
        bytes[at..at + 2].copy_from_slice(&class.to_be_bytes());
        let answer = match read(&edge, &bytes) {
            Work::Answer(answer) => answer,
            Work::Silence => panic!("{kind} {class} is not answered"),
            Work::Ask(_) => panic!("{kind} {class} leaves the host"),
        };
        let found = dns::read_answer(&bytes, &answer).unwrap();
        let is_address = class == 1 && matches!(kind, TYPE_A | TYPE_AAAA);
        assert_eq!(found.addresses.len(), usize::from(is_address), "{kind} {class}");
        assert!(found.addresses.iter().all(|at| book::is_synthetic(*at)));
    }
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
    // Allowed types are forwarded, and only for the name that was asked.
    for kind in [5, 16, 33, 257] {
        ask_for(&edge, "good.example", kind).await;
    }
    assert!(asked.lock().unwrap().iter().all(|claim| claim.contains("good.example")));
    assert_eq!(asked.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn answers_to_nobodys_question_are_waited_past() {
    let folder = tempfile::tempdir().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let asked = &buffer[..length];
            let good = Question::read(asked).unwrap().addresses(&[[1, 2, 3, 4].into()], 30);
            let bad = |change: fn(&mut Vec<u8>)| {
                let mut answer =
                    Question::read(asked).unwrap().addresses(&[[6, 6, 6, 6].into()], 30);
                change(&mut answer);
                answer
            };
            // Another id, a question, another name, another type, and no question at all.
            for forged in [
                bad(|answer| answer[0] ^= 1),
                bad(|answer| answer[2] &= 0x7f),
                bad(|answer| answer[13] = b'z'),
                bad(|answer| answer[27] = 28),
                bad(|answer| answer[5] = 0),
                bad(Vec::clear),
                good,
            ] {
                socket.send_to(&forged, from).await.unwrap();
            }
        }
    });
    let edge = wall_of(policy("mode = \"web\"\n", &[]), folder.path(), vec![at], None);
    assert_eq!(ask_for(&edge, "good.example", TYPE_A).await, (0, vec!["1.2.3.4".to_owned()]));
}
