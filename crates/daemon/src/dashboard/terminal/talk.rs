//! A connection between a page and a terminal.

use std::{io, os::fd::OwnedFd, sync::Arc, time::Duration};

use futures_util::{SinkExt, StreamExt};
use hothouse_backend::{
    RoomConnection,
    connection::{ExecId, Exit, WindowSize},
};
use hothouse_ingress::activity::{Activity, Use};
use hothouse_model::Failure;
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    time::Instant,
};
use tokio_tungstenite::tungstenite::Message;

use super::Socket;

/// How many bytes may be sent to a page before it has drawn them.
const WINDOW: usize = 256 << 10;

/// How much is read at once.
const PIECE: usize = 32 << 10;

/// How long a page may lag. A terminal, and so its agent, waits for the slowest viewer.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long typed input waits for a command that does not read it.
const TYPE_TIME: Duration = Duration::from_secs(2);

/// How often the size, and whether the page is still there, is checked.
const LOOK: Duration = Duration::from_secs(2);

/// The default size of a terminal.
const USUAL: WindowSize = WindowSize { rows: 24, cols: 80 };

/// The maximum size that a page may set.
const LARGEST: u16 = 500;

/// A message from a page.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Word {
    Hello {
        token: String,
    },
    /// Enables input: from now on keys are sent to the command.
    Type {
        rows: u16,
        columns: u16,
    },
    Look {},
    Size {
        rows: u16,
        columns: u16,
    },
    /// How many bytes it has drawn since its last report.
    Drawn(usize),
}

impl Word {
    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// A message to a page, besides the output.
pub(super) enum Said {
    Size(WindowSize),
    Typing(bool),
    Ended(String),
}

impl Said {
    pub(super) fn message(self) -> Message {
        let value = match self {
            Self::Size(size) => {
                serde_json::json!({ "size": { "rows": size.rows, "columns": size.cols } })
            }
            Self::Typing(typing) => serde_json::json!({ "typing": typing }),
            Self::Ended(why) => serde_json::json!({ "ended": why }),
        };
        Message::text(value.to_string())
    }
}

/// A page that shows a command.
pub(super) struct Talk<'a> {
    room: Arc<dyn RoomConnection>,
    exec: ExecId,
    activity: &'a Arc<Activity>,
    input: pipe::Sender,
    output: pipe::Receiver,
    /// Marks the sandbox as in use while the user types.
    typing: Option<Use>,
    /// The number of bytes that were sent but not drawn yet.
    ahead: usize,
    /// When something was last sent or drawn.
    moved: Instant,
    size: WindowSize,
}

impl<'a> Talk<'a> {
    pub(super) fn new(
        room: Arc<dyn RoomConnection>,
        exec: ExecId,
        activity: &'a Arc<Activity>,
        input: OwnedFd,
        output: OwnedFd,
        size: Option<WindowSize>,
    ) -> io::Result<Self> {
        let input = pipe::Sender::from_owned_fd(input)?;
        let output = pipe::Receiver::from_owned_fd(output)?;
        Ok(Self {
            room,
            exec,
            activity,
            input,
            output,
            typing: None,
            ahead: 0,
            moved: Instant::now(),
            size: size.unwrap_or(USUAL),
        })
    }

    /// Relays bytes until the command ends or the page leaves.
    pub(super) async fn run(mut self, socket: &mut Socket) -> Result<(), Failure> {
        let (size, mut buffer) = (self.size, vec![0; PIECE]);
        let (room, exec) = (self.room.clone(), self.exec.clone());
        let wait = room.wait(exec);
        tokio::pin!(wait);
        let mut send = say(socket, Said::Size(size).message()).await
            && say(socket, Said::Typing(false).message()).await;
        let mut open = true;
        while send {
            tokio::select! {
                biased;
                message = socket.next() => match message {
                    Some(Ok(message)) => send = self.hear(message, socket).await,
                    _ => return Ok(()),
                },
                count = self.output.read(&mut buffer), if open && self.ahead < WINDOW => match count {
                    Ok(count @ 1..) => {
                        self.ahead += count;
                        self.moved = Instant::now();
                        send = say(socket, Message::binary(buffer[..count].to_vec())).await;
                    }
                    _ => open = false,
                },
                exit = &mut wait, if !open || self.ahead < WINDOW => {
                    let said = exit.map_or_else(|_| "The room has ended.".to_owned(), |exit| ended(&exit));
                    self.drain(socket, &mut buffer).await;
                    say(socket, Said::Ended(said).message()).await;
                    return Ok(());
                }
                () = tokio::time::sleep_until(self.moved + PATIENCE), if self.ahead >= WINDOW => {
                    let said = "This page fell behind. Load it again to go on.".to_owned();
                    say(socket, Said::Ended(said).message()).await;
                    return Ok(());
                }
                () = tokio::time::sleep(LOOK) => send = self.look(socket).await,
            }
        }
        Ok(())
    }

    /// Sends a command's last output, which is already in the pipe.
    async fn drain(&mut self, socket: &mut Socket, buffer: &mut [u8]) {
        let mut left = WINDOW;
        while left > 0 {
            match self.output.try_read(buffer) {
                Ok(count @ 1..) => {
                    left = left.saturating_sub(count);
                    if !say(socket, Message::binary(buffer[..count].to_vec())).await {
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    /// Tells the page about a size that someone else has set, and checks whether it is still there.
    async fn look(&mut self, socket: &mut Socket) -> bool {
        let now = self.room.size(self.exec.clone()).await.ok().flatten().unwrap_or(self.size);
        if now == self.size {
            return say(socket, Message::Ping(Vec::new().into())).await;
        }
        self.size = now;
        say(socket, Said::Size(now).message()).await
    }

    async fn hear(&mut self, message: Message, socket: &mut Socket) -> bool {
        match message {
            Message::Binary(bytes) if self.typing.is_some() => self.enter(&bytes).await,
            Message::Text(text) => match Word::read(&text) {
                Some(Word::Type { rows, columns }) => {
                    self.typing = Some(self.activity.enter());
                    self.resize(rows, columns).await;
                    return say(socket, Said::Typing(true).message()).await;
                }
                Some(Word::Look {}) => {
                    self.typing = None;
                    return say(socket, Said::Typing(false).message()).await;
                }
                Some(Word::Size { rows, columns }) if self.typing.is_some() => {
                    self.resize(rows, columns).await;
                }
                Some(Word::Drawn(count)) => {
                    self.ahead = self.ahead.saturating_sub(count);
                    self.moved = Instant::now();
                }
                _ => {}
            },
            Message::Close(_) => return false,
            _ => {}
        }
        true
    }

    async fn enter(&mut self, bytes: &[u8]) {
        let typed = self.input.write_all(bytes);
        if tokio::time::timeout(TYPE_TIME, typed).await.is_err() {
            tracing::debug!(exec = self.exec.0, "a command does not read what is typed");
        }
    }

    async fn resize(&mut self, rows: u16, columns: u16) {
        let size = WindowSize { rows: rows.clamp(2, LARGEST), cols: columns.clamp(2, LARGEST) };
        self.size = size;
        self.room.resize(self.exec.clone(), size).await.ok();
    }
}

/// Sends a message to a page; `false` if the page does not accept it in time.
async fn say(socket: &mut Socket, message: Message) -> bool {
    tokio::time::timeout(PATIENCE, socket.send(message)).await.is_ok_and(|sent| sent.is_ok())
}

fn ended(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("It ended with code {code}."),
        Exit::Signal(number) => format!("It was ended by signal {number}."),
        Exit::NotStarted { message, .. } => format!("It did not start: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_one_of_five_things() {
        let drawn = Word::read(r#"{"drawn":7}"#);
        assert_eq!(drawn, Some(Word::Drawn(7)));
        let typed = Word::read(r#"{"type":{"rows":2,"columns":3}}"#);
        assert_eq!(typed, Some(Word::Type { rows: 2, columns: 3 }));
        assert_eq!(Word::read(r#"{"look":{}}"#), Some(Word::Look {}));
        for other in ["", "[]", r#"{"type":{"rows":-1,"columns":3}}"#, r#"{"run":"sh"}"#] {
            assert_eq!(Word::read(other), None, "{other}");
        }
    }
}
