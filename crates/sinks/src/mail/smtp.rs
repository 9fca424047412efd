//! The server side of one SMTP or LMTP session, as a state machine without sockets.
//!
//! Bytes in, [`Action`]s out. While a message is being delivered or TLS is being negotiated nothing
//! is processed: pipelined input waits. A message is acknowledged only after
//! [`Session::on_delivered`].

mod auth;
mod data;
mod faults;

use std::{mem, time::Duration};

use smtp_proto::{Error, Request};

pub use self::faults::{CallVerdict, Fault, FaultRule, Faults, greylist_key};
use self::{
    auth::{Login, Step},
    data::DataReader,
    faults::Verdict,
};

/// The maximum size of a message, in bytes.
pub const MESSAGE_LIMIT: usize = 50 << 20;

/// The maximum length of a command. RFC 4954 allows 12,288 bytes for a login line.
const LINE_LIMIT: usize = 12_288;

/// The maximum number of recipients per message.
const RECIPIENT_LIMIT: usize = 1000;

/// The maximum number of bytes that wait while something else is done.
const WAITING_LIMIT: usize = 1 << 20;

/// How many invalid commands a session may send.
const BAD_LIMIT: u32 = 20;

/// The parameters of a session.
#[derive(Clone, Debug, Default)]
pub struct SessionSpec {
    /// The server's own host name.
    pub hostname: String,
    pub lmtp: bool,
    /// Whether TLS is already active.
    pub encrypted: bool,
    pub can_start_tls: bool,
    pub faults: Faults,
}

/// What the caller has to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Send(Vec<u8>),
    /// Negotiate TLS, then call [`Session::on_encrypted`].
    StartTls,
    /// Make the message durable, then call [`Session::on_delivered`].
    Deliver(Box<Delivery>),
    Wait(Duration),
    Close,
}

/// A message with its envelope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    pub from: String,
    pub to: Vec<String>,
    pub message: Vec<u8>,
    /// Additional parameters, such as `BODY=8BITMIME` or `NOTIFY=FAILURE`.
    pub parameters: Vec<String>,
    /// The login name. With some vendors this is itself a key, so it must not be recorded.
    pub auth_user: Option<String>,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    spec: SessionSpec,
    mode: Mode,
    input: Vec<u8>,
    has_greeted: bool,
    is_logged_in: bool,
    auth_user: Option<String>,
    envelope: Option<Envelope>,
    bad: u32,
    greylisted: Vec<String>,
}

/// The meaning of the next bytes.
#[derive(Debug)]
enum Mode {
    Command,
    /// The rest of a line that was too long.
    LongLine,
    Login(Step),
    Data(DataReader),
    Chunk {
        left: usize,
        is_last: bool,
        is_dropped: bool,
    },
    Delivering {
        recipients: usize,
    },
    Negotiating,
    Closed,
}

/// The envelope of the current message.
#[derive(Debug, Default)]
struct Envelope {
    from: String,
    to: Vec<String>,
    parameters: Vec<String>,
    /// The chunks received so far.
    message: Vec<u8>,
    has_chunks: bool,
}

impl Session {
    /// Starts a session; the actions send the greeting.
    pub fn new(spec: SessionSpec) -> (Self, Vec<Action>) {
        let protocol = if spec.lmtp { "LMTP" } else { "ESMTP" };
        let greeting = format!("220 {} {protocol} Hothouse: nothing is relayed", spec.hostname);
        let session = Self {
            spec,
            mode: Mode::Command,
            input: Vec::new(),
            has_greeted: false,
            is_logged_in: false,
            auth_user: None,
            envelope: None,
            bad: 0,
            greylisted: Vec::new(),
        };
        (session, vec![reply(&greeting)])
    }

    /// Processes bytes from the client.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Vec<Action> {
        match self.mode {
            // Input before the handshake was not encrypted, and must not be treated as if it were.
            Mode::Closed | Mode::Negotiating => return Vec::new(),
            Mode::Delivering { .. } if self.input.len() + bytes.len() > WAITING_LIMIT => {
                return self.close("421 4.7.0 Too much at once");
            }
            _ => self.input.extend_from_slice(bytes),
        }
        self.advance()
    }

    /// Continues after TLS was negotiated. The client starts over.
    pub fn on_encrypted(&mut self) -> Vec<Action> {
        if !matches!(self.mode, Mode::Negotiating) {
            return Vec::new();
        }
        self.spec.encrypted = true;
        self.mode = Mode::Command;
        self.has_greeted = false;
        self.is_logged_in = false;
        self.auth_user = None;
        self.envelope = None;
        self.advance()
    }

    /// Continues after a message was stored with an id, or failed.
    pub fn on_delivered(&mut self, outcome: Result<String, String>) -> Vec<Action> {
        let Mode::Delivering { recipients } = self.mode else { return Vec::new() };
        let line = match outcome {
            Ok(id) => format!("250 2.0.0 Ok: queued as {}", one_line(&id)),
            Err(why) => format!("451 4.3.0 {}", one_line(&why)),
        };
        // LMTP answers for each recipient.
        let times = if self.spec.lmtp { recipients } else { 1 };
        let mut actions = vec![reply(&vec![line; times].join("\r\n"))];
        self.mode = Mode::Command;
        actions.extend(self.advance());
        actions
    }

    /// Returns how many bytes from the client are held: a message in progress, and waiting input.
    pub fn held(&self) -> usize {
        let chunks = self.envelope.as_ref().map_or(0, |envelope| envelope.message.len());
        let data = match &self.mode {
            Mode::Data(reader) => reader.held(),
            _ => 0,
        };
        self.input.len() + chunks + data
    }

    /// Returns what was greylisted in this session, for [`Faults::known`] of the next.
    pub fn greylisted(&self) -> &[String] {
        &self.greylisted
    }

    /// Processes received input, as far as possible.
    fn advance(&mut self) -> Vec<Action> {
        let input = mem::take(&mut self.input);
        let (mut at, mut actions) = (0, Vec::new());
        while at < input.len() {
            let Some(used) = self.step(&input[at..], &mut actions) else { break };
            at += used;
        }
        // STARTTLS and QUIT drop what was pipelined after them.
        if !matches!(self.mode, Mode::Negotiating | Mode::Closed) {
            self.input = input[at..].to_vec();
        }
        joined(actions)
    }

    /// Processes one piece; returns its length, or `None` if more input is needed.
    fn step(&mut self, input: &[u8], actions: &mut Vec<Action>) -> Option<usize> {
        match &mut self.mode {
            Mode::Data(_) => Some(self.take_data(input, actions)),
            Mode::Chunk { .. } => Some(self.take_chunk(input, actions)),
            Mode::Delivering { .. } | Mode::Negotiating | Mode::Closed => None,
            Mode::Command | Mode::LongLine | Mode::Login(_) => self.take_line(input, actions),
        }
    }

    fn take_line(&mut self, input: &[u8], actions: &mut Vec<Action>) -> Option<usize> {
        let end = input.iter().take(LINE_LIMIT).position(|byte| *byte == b'\n');
        let Some(end) = end else {
            if input.len() < LINE_LIMIT {
                return None;
            }
            self.mode = Mode::LongLine;
            return Some(LINE_LIMIT);
        };
        match mem::replace(&mut self.mode, Mode::Command) {
            Mode::LongLine => actions.extend(self.complain("500 5.5.6 Line too long")),
            Mode::Login(step) => {
                let line = String::from_utf8_lossy(&input[..end]);
                let login = auth::answer(step, line.trim());
                actions.extend(self.log_in(login));
            }
            _ => {
                let mut line = input[..end].to_vec();
                line.truncate(line.trim_ascii_end().len());
                actions.extend(self.on_line(&line));
            }
        }
        Some(end + 1)
    }

    fn on_line(&mut self, line: &[u8]) -> Vec<Action> {
        let text = String::from_utf8_lossy(line);
        let verb = text.split_ascii_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        match verb.as_str() {
            // A page made a browser connect here: nothing that follows is a command.
            "GET" | "POST" | "PUT" | "HEAD" | "OPTIONS" | "CONNECT" if text.contains("HTTP/") => {
                return self.close("421 4.7.0 This is a mail server");
            }
            // Any mechanism is accepted, even unknown ones.
            "AUTH" => return self.on_auth(text.trim_start().get(4..).unwrap_or_default()),
            _ => {}
        }
        let mut whole = line.to_vec();
        whole.extend_from_slice(b"\r\n");
        let request = Request::parse(&mut whole.iter()).map(Request::into_owned);
        match request {
            Ok(request) => self.on_request(request, &text),
            Err(error) => self.complain(&complaint(&error)),
        }
    }

    fn on_request(&mut self, request: Request<String>, line: &str) -> Vec<Action> {
        match request {
            Request::Ehlo { host } if !self.spec.lmtp => self.on_hello(&host, true),
            Request::Lhlo { host } if self.spec.lmtp => self.on_hello(&host, true),
            Request::Helo { host } if !self.spec.lmtp => self.on_hello(&host, false),
            Request::Mail { from } => self.on_mail(from.address, from.size, line),
            Request::Rcpt { to } => self.on_recipient(to.address, line),
            Request::Data => self.on_data(),
            Request::Bdat { chunk_size, is_last } => self.on_chunk(chunk_size, is_last),
            Request::StartTls => self.on_start_tls(),
            Request::Rset => {
                self.envelope = None;
                vec![reply("250 2.0.0 Ok")]
            }
            Request::Noop { .. } => vec![reply("250 2.0.0 Ok")],
            Request::Vrfy { .. } => vec![reply("252 2.5.0 Send it and see")],
            Request::Help { .. } => {
                vec![reply("214 2.0.0 RFC 5321; mail is kept and never relayed")]
            }
            Request::Quit => self.close("221 2.0.0 Bye"),
            _ => self.complain("502 5.5.1 Command not implemented"),
        }
    }

    fn on_hello(&mut self, host: &str, is_extended: bool) -> Vec<Action> {
        self.has_greeted = true;
        self.envelope = None;
        let name = &self.spec.hostname;
        if !is_extended {
            return vec![reply(&format!("250 {name} hello {}", one_line(host)))];
        }
        let size = format!("SIZE {MESSAGE_LIMIT}");
        let mut lines = vec![
            format!("{name} hello {}", one_line(host)),
            "PIPELINING".to_owned(),
            "8BITMIME".to_owned(),
            "SMTPUTF8".to_owned(),
            size,
            "CHUNKING".to_owned(),
            "DSN".to_owned(),
            "ENHANCEDSTATUSCODES".to_owned(),
            "AUTH PLAIN LOGIN CRAM-MD5 XOAUTH2 OAUTHBEARER".to_owned(),
        ];
        if self.spec.can_start_tls && !self.spec.encrypted {
            lines.push("STARTTLS".to_owned());
        }
        let last = lines.len() - 1;
        let line = |(at, text): (usize, &String)| match at == last {
            true => format!("250 {text}"),
            false => format!("250-{text}"),
        };
        let lines: Vec<String> = lines.iter().enumerate().map(line).collect();
        vec![reply(&lines.join("\r\n"))]
    }

    fn on_auth(&mut self, arguments: &str) -> Vec<Action> {
        if !self.has_greeted || self.envelope.is_some() || self.is_logged_in {
            return self.complain("503 5.5.1 AUTH does not come here");
        }
        if arguments.trim().is_empty() {
            return self.complain("501 5.5.4 AUTH mechanism [initial-response]");
        }
        let login = auth::begin(arguments, &self.spec.hostname);
        self.log_in(login)
    }

    fn log_in(&mut self, login: Login) -> Vec<Action> {
        match login {
            Login::Ask(challenge, step) => {
                self.mode = Mode::Login(step);
                vec![reply(&format!("334 {challenge}"))]
            }
            Login::Accepted { user } => {
                self.is_logged_in = true;
                self.auth_user = user;
                vec![reply("235 2.7.0 Authentication succeeded")]
            }
            Login::Cancelled => self.complain("501 5.7.0 Authentication cancelled"),
        }
    }

    fn on_start_tls(&mut self) -> Vec<Action> {
        if !self.spec.can_start_tls || self.spec.encrypted {
            return self.complain("502 5.5.1 STARTTLS is not available");
        }
        self.mode = Mode::Negotiating;
        vec![reply("220 2.0.0 Ready to start TLS"), Action::StartTls]
    }

    fn on_mail(&mut self, from: String, size: usize, line: &str) -> Vec<Action> {
        if !self.has_greeted {
            return self.complain("503 5.5.1 Say hello first");
        }
        if self.envelope.is_some() {
            return self.complain("503 5.5.1 A message has begun already");
        }
        if size > MESSAGE_LIMIT {
            return self.complain("552 5.3.4 Message too large");
        }
        self.envelope =
            Some(Envelope { from, parameters: parameters(line), ..Envelope::default() });
        vec![reply("250 2.1.0 Ok")]
    }

    fn on_recipient(&mut self, to: String, line: &str) -> Vec<Action> {
        let Some(envelope) = &mut self.envelope else {
            return self.complain("503 5.5.1 MAIL comes first");
        };
        if to.is_empty() {
            return self.complain("501 5.1.3 RCPT needs an address");
        }
        if envelope.to.len() == RECIPIENT_LIMIT {
            return self.complain("452 4.5.3 Too many recipients");
        }
        match self.spec.faults.decide(&envelope.from, &to) {
            Verdict::Refuse(why) => vec![reply(why)],
            Verdict::Greylist { key } => {
                if self.greylisted.len() < RECIPIENT_LIMIT {
                    self.greylisted.push(key);
                }
                vec![reply("451 4.7.1 Greylisted, try again (fault: greylist)")]
            }
            Verdict::Accept { after } => {
                envelope.to.push(to);
                envelope.parameters.extend(parameters(line));
                let wait = (!after.is_zero()).then_some(Action::Wait(after));
                wait.into_iter().chain([reply("250 2.1.5 Ok")]).collect()
            }
        }
    }

    fn on_data(&mut self) -> Vec<Action> {
        match &self.envelope {
            None => self.complain("503 5.5.1 MAIL comes first"),
            Some(envelope) if envelope.has_chunks => {
                self.complain("503 5.5.1 DATA does not come after BDAT")
            }
            Some(envelope) if envelope.to.is_empty() => {
                self.complain("554 5.5.1 There are no valid recipients")
            }
            Some(_) => {
                self.mode = Mode::Data(DataReader::new(MESSAGE_LIMIT));
                vec![reply("354 End data with <CR><LF>.<CR><LF>")]
            }
        }
    }

    fn take_data(&mut self, input: &[u8], actions: &mut Vec<Action>) -> usize {
        let Mode::Data(reader) = &mut self.mode else { return 0 };
        let (used, ended) = reader.take(input);
        if ended && let Mode::Data(reader) = mem::replace(&mut self.mode, Mode::Command) {
            actions.extend(match reader.is_too_large {
                true => self.drop_message(),
                false => self.deliver(reader.into_message()),
            });
        }
        used
    }

    /// Starts a chunk. The client sends its bytes in any case, so they are read even if it is
    /// refused.
    fn on_chunk(&mut self, size: usize, is_last: bool) -> Vec<Action> {
        let fits = |envelope: &Envelope| {
            !envelope.to.is_empty() && envelope.message.len().saturating_add(size) <= MESSAGE_LIMIT
        };
        let is_dropped = !self.envelope.as_ref().is_some_and(fits);
        self.mode = Mode::Chunk { left: size, is_last, is_dropped };
        let mut actions = Vec::new();
        if size == 0 {
            self.take_chunk(b"", &mut actions);
        }
        actions
    }

    fn take_chunk(&mut self, input: &[u8], actions: &mut Vec<Action>) -> usize {
        let Mode::Chunk { left, is_last, is_dropped } = &mut self.mode else { return 0 };
        let used = input.len().min(*left);
        *left -= used;
        let (ended, is_last, is_dropped) = (*left == 0, *is_last, *is_dropped);
        if let Some(envelope) = &mut self.envelope
            && !is_dropped
        {
            envelope.has_chunks = true;
            envelope.message.extend_from_slice(&input[..used]);
        }
        if ended {
            self.mode = Mode::Command;
            actions.extend(self.end_chunk(is_last, is_dropped));
        }
        used
    }

    fn end_chunk(&mut self, is_last: bool, is_dropped: bool) -> Vec<Action> {
        match &mut self.envelope {
            None => self.complain("503 5.5.1 MAIL comes first"),
            Some(envelope) if envelope.to.is_empty() => {
                self.complain("554 5.5.1 There are no valid recipients")
            }
            Some(_) if is_dropped => self.drop_message(),
            Some(envelope) if is_last => {
                let message = mem::take(&mut envelope.message);
                self.deliver(message)
            }
            Some(_) => vec![reply("250 2.0.0 Chunk taken")],
        }
    }

    fn drop_message(&mut self) -> Vec<Action> {
        self.envelope = None;
        vec![reply("552 5.3.4 Message too large")]
    }

    fn deliver(&mut self, message: Vec<u8>) -> Vec<Action> {
        let Some(envelope) = self.envelope.take() else { return Vec::new() };
        self.mode = Mode::Delivering { recipients: envelope.to.len() };
        let Envelope { from, to, parameters, .. } = envelope;
        let auth_user = self.auth_user.clone();
        vec![Action::Deliver(Box::new(Delivery { from, to, message, parameters, auth_user }))]
    }

    /// Reports an invalid command; after too many the session ends.
    fn complain(&mut self, line: &str) -> Vec<Action> {
        self.bad += 1;
        if self.bad < BAD_LIMIT {
            return vec![reply(line)];
        }
        self.close("421 4.7.0 Too many errors")
    }

    fn close(&mut self, line: &str) -> Vec<Action> {
        self.mode = Mode::Closed;
        self.input = Vec::new();
        vec![reply(line), Action::Close]
    }
}

fn complaint(error: &Error) -> String {
    match error {
        Error::UnknownCommand => "500 5.5.1 Command not known".to_owned(),
        Error::InvalidSenderAddress => "501 5.1.7 The sender's address is not valid".to_owned(),
        Error::InvalidRecipientAddress => {
            "501 5.1.3 The recipient's address is not valid".to_owned()
        }
        Error::SyntaxError { syntax } => format!("501 5.5.2 Syntax: {syntax}"),
        Error::InvalidParameter { param } => format!("501 5.5.4 {param} is not valid"),
        Error::UnsupportedParameter { param } => {
            format!("555 5.5.4 {} is not supported", one_line(param))
        }
        _ => "500 5.5.2 Syntax error".to_owned(),
    }
}

/// Returns the parameters of a MAIL or RCPT command. `AUTH=` names a mailbox, which is not used.
fn parameters(line: &str) -> Vec<String> {
    let Some((_, rest)) = line.rsplit_once('>') else { return Vec::new() };
    let words = rest.split_ascii_whitespace().map(str::to_owned);
    words.filter(|word| !word.to_ascii_uppercase().starts_with("AUTH=")).take(8).collect()
}

fn reply(line: &str) -> Action {
    Action::Send(format!("{line}\r\n").into_bytes())
}

/// Formats text for one line of a reply: it cannot end the line.
fn one_line(text: &str) -> String {
    text.chars().filter(|c| (' '..='~').contains(c)).take(200).collect()
}

/// Joins consecutive replies, so that a pipelined batch gets one write.
fn joined(actions: Vec<Action>) -> Vec<Action> {
    let mut all: Vec<Action> = Vec::with_capacity(actions.len());
    for action in actions {
        match (all.last_mut(), action) {
            (Some(Action::Send(before)), Action::Send(bytes)) => before.extend(bytes),
            (_, action) => all.push(action),
        }
    }
    all
}

#[cfg(test)]
mod tests;
