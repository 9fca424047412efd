//! One command from its request to its exit code, through as many daemons as it takes.

use std::{io, os::fd::OwnedFd};

use hothouse_api::exec::{Ask, Ended, Hello, RunAsk, Say};
use hothouse_host::{framed::Framed, terminal};
use hothouse_model::{Failure, FailureKind};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use super::plumbing::{Cut, CutSender, Leave, Plumbing, Pumps, StreamKind};
use crate::reach::Reach;

/// How often the daemon may die during one command.
const ATTEMPTS: usize = 100;

/// Signals that are passed on to the command.
const PASSED_ON: [i32; 4] = [1, 2, 3, 15];

/// Sent to a command whose terminal can no longer be written to.
const HANGUP: i32 = 1;

const TERMINATE: i32 = 15;

/// Sent to a command whose output cannot be written.
pub(super) const BROKEN_PIPE: i32 = 13;

/// One command, which may outlive several daemons.
pub(super) struct Conversation {
    reach: Reach,
    ask: Ask,
    pumps: Option<Pumps>,
    /// Set once the command is running.
    streams: Option<StreamKind>,
    /// Whether a daemon was asked to run the command and died before it answered, so the command may be running.
    may_have_begun: bool,
    cut_tx: CutSender,
    cut_rx: mpsc::UnboundedReceiver<Cut>,
    /// Our outputs that can no longer be written to.
    cuts: Vec<Cut>,
    /// keyboard --leave--> conversation
    pub(super) leave_rx: Option<mpsc::UnboundedReceiver<Leave>>,
    /// Whether the user has left a command that is still running.
    pub(super) left: bool,
}

/// How one connection ended.
enum Broken {
    /// Try the next daemon.
    Off,
    Outdated,
    Refused(Failure),
}

impl Conversation {
    pub(super) fn new(reach: Reach, ask: Ask) -> Self {
        let (cut_tx, cut_rx) = mpsc::unbounded_channel();
        let (pumps, streams, cuts, leave_rx) = (None, None, Vec::new(), None);
        let (may_have_begun, left) = (false, false);
        Self { reach, ask, pumps, streams, may_have_begun, cut_tx, cut_rx, cuts, leave_rx, left }
    }

    pub(super) async fn run(&mut self, plumbing: &mut impl Plumbing) -> Result<Ended, Failure> {
        for _ in 0..ATTEMPTS {
            match self.once(plumbing).await {
                Ok(ended) => return self.finish(ended),
                Err(Broken::Refused(failure)) => return Err(failure),
                Err(Broken::Outdated) => self.reach.replace().await?,
                Err(Broken::Off) => {}
            }
        }
        Err(Failure::new(
            FailureKind::Internal,
            "the daemon died repeatedly while this command was running",
        )
        .hint("`hothouse daemon status` shows where the log is"))
    }

    /// Drains the rest of the output. If a write failed, the command fails.
    fn finish(&mut self, ended: Ended) -> Result<Ended, Failure> {
        if let Some(pumps) = self.pumps.take() {
            pumps.drain();
        }
        while let Ok(cut) = self.cut_rx.try_recv() {
            self.cuts.push(cut);
        }
        match self.cuts.iter().find(|cut| !cut.is_departure()) {
            Some(cut) => Err(cut.failure()),
            None => Ok(ended),
        }
    }

    /// Follows the command through one daemon until the command or the connection ends.
    async fn once(&mut self, plumbing: &mut impl Plumbing) -> Result<Ended, Broken> {
        let framed = self.connect()?;
        self.converse(framed, plumbing).await
    }

    async fn converse(
        &mut self,
        mut framed: Framed,
        plumbing: &mut impl Plumbing,
    ) -> Result<Ended, Broken> {
        let hello = Hello { build: self.reach.build.to_string() };
        // An older daemon answers the first message and closes the connection: its answer counts
        // even if the second message cannot be sent.
        let ask = self.next_ask();
        if framed.send(&hello, &[]).await.is_ok() {
            framed.send(&ask, &[]).await.ok();
        }
        let mut signals = Signals::new()
            .map_err(|error| Broken::Refused(Failure::of(FailureKind::Host, &error)))?;
        loop {
            tokio::select! {
                said = framed.receive::<Say>() => {
                    let Ok(Some((said, streams))) = said else {
                        self.may_have_begun |= matches!(&ask, Ask::Run(run) if !run.fresh);
                        return Err(Broken::Off);
                    };
                    match said {
                        Say::Started { terminal, joined } => {
                            self.started(plumbing, streams, terminal, joined);
                            // The viewer that attached last determines the size of the terminal.
                            if let (true, Ask::Attach(_), Some((rows, columns))) = (terminal, &self.ask, terminal::size()) {
                                framed.send(&Ask::Resize { rows, columns }, &[]).await.ok();
                            }
                            // The daemon may have died before it forwarded them.
                            for cut in &self.cuts {
                                self.tell(&framed, cut).await;
                            }
                        }
                        Say::Exited(ended) => return Ok(ended),
                        Say::Outdated => return Err(Broken::Outdated),
                        // The command was never started.
                        Say::Refused(failure) if self.may_have_begun && failure.kind == FailureKind::NotFound => {
                            self.may_have_begun = false;
                            return Err(Broken::Off);
                        }
                        Say::Refused(failure) => return Err(Broken::Refused(failure)),
                    }
                }
                Some(Leave) = next_of(&mut self.leave_rx) => {
                    framed.send(&Ask::Leave, &[]).await.ok();
                    // Dropped without waiting: the command keeps running and printing.
                    self.pumps = None;
                    self.left = true;
                    return Ok(Ended::Code(0));
                }
                Some(cut) = self.cut_rx.recv() => {
                    // A client that has only attached must not end the command.
                    if matches!(self.ask, Ask::Attach(_)) {
                        self.cuts.push(cut);
                        // The other output may stay open for as long as the command.
                        self.pumps = None;
                        return Ok(Ended::Signal(BROKEN_PIPE));
                    }
                    self.tell(&framed, &cut).await;
                    self.cuts.push(cut);
                }
                word = signals.next() => {
                    // A viewer whose terminal is closed leaves; the command keeps running.
                    if let (Ask::Attach(_), Ask::Signal { number: number @ (HANGUP | TERMINATE) }) =
                        (&self.ask, &word)
                    {
                        self.pumps = None;
                        return Ok(Ended::Signal(*number));
                    }
                    // If the daemon is gone, the next iteration notices.
                    framed.send(&word, &[]).await.ok();
                }
            }
        }
    }

    fn connect(&self) -> Result<Framed, Broken> {
        let stream = self.reach.connect_exec().map_err(Broken::Refused)?;
        Framed::from_std(stream)
            .map_err(|error| Broken::Refused(Failure::of(FailureKind::Host, &error)))
    }

    /// Returns the next request: to run the command or, once it is running, for its end. A command that may be running
    /// is looked up first, so that it does not run twice.
    fn next_ask(&self) -> Ask {
        match &self.ask {
            Ask::Run(RunAsk { target, .. }) if self.streams.is_none() && self.may_have_begun => {
                Ask::Attach(target.clone())
            }
            Ask::Run(RunAsk { target, .. }) | Ask::Attach(target) if self.streams.is_some() => {
                Ask::Rejoin(target.clone())
            }
            ask => ask.clone(),
        }
    }

    fn started(
        &mut self,
        plumbing: &mut impl Plumbing,
        streams: Vec<OwnedFd>,
        terminal: bool,
        joined: bool,
    ) {
        if self.streams.is_some() {
            return;
        }
        let kind = match (terminal, joined) {
            (true, _) => StreamKind::Terminal,
            (false, true) => StreamKind::JoinedPipes,
            (false, false) => StreamKind::Pipes,
        };
        if kind == StreamKind::JoinedPipes && self.may_have_begun && has_input() {
            self.reach.ui.say(
                "warning: the daemon died while it started the command, which got no input from here",
            );
        }
        self.streams = Some(kind);
        self.pumps = Some(plumbing.connect(streams, kind, &self.cut_tx));
    }

    /// Ends a command whose output cannot be written, using a signal. If only the reader is gone,
    /// the command notices at its next write.
    async fn tell(&self, framed: &Framed, cut: &Cut) {
        let terminal = self.streams == Some(StreamKind::Terminal);
        let close = Ask::Close { output: cut.output.number() };
        let words = match (terminal, cut.is_departure()) {
            (true, _) => vec![Ask::Signal { number: HANGUP }],
            (false, true) => vec![close],
            (false, false) => vec![close, Ask::Signal { number: BROKEN_PIPE }],
        };
        for word in words {
            // If the daemon is gone, the next one gets the message.
            framed.send(&word, &[]).await.ok();
        }
    }
}

/// Whether our standard input is a pipe or a file, so that it is expected to be read.
fn has_input() -> bool {
    terminal::stdin().metadata().is_ok_and(|about| {
        about.is_file() || std::os::unix::fs::FileTypeExt::is_fifo(&about.file_type())
    })
}

/// Receives the next value. Waits forever if there is no sender.
async fn next_of<T>(from: &mut Option<mpsc::UnboundedReceiver<T>>) -> Option<T> {
    match from {
        Some(from) => from.recv().await,
        None => std::future::pending().await,
    }
}

/// Events of this process that are forwarded to the command.
struct Signals {
    window: Signal,
    passed_on: Vec<(i32, Signal)>,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let passed_on =
            PASSED_ON.iter().map(|number| Ok((*number, signal(SignalKind::from_raw(*number))?)));
        Ok(Self {
            window: signal(SignalKind::window_change())?,
            passed_on: passed_on.collect::<io::Result<_>>()?,
        })
    }

    async fn next(&mut self) -> Ask {
        let passed_on = std::future::poll_fn(|context| {
            for (number, signal) in &mut self.passed_on {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(Ask::Signal { number: *number });
                }
            }
            if self.window.poll_recv(context).is_ready()
                && let Some((rows, columns)) = terminal::size()
            {
                return std::task::Poll::Ready(Ask::Resize { rows, columns });
            }
            std::task::Poll::Pending
        });
        passed_on.await
    }
}

#[cfg(test)]
mod tests {
    use hothouse_api::{Build, exec::Target};
    use hothouse_host::{Folders, folders::FolderVariables};

    use super::{
        super::plumbing::{Kept, Plain},
        *,
    };
    use crate::{args::Global, ui::Ui};

    fn conversation(ask: Ask) -> Conversation {
        let variables = FolderVariables { home: Some("/nowhere".into()), ..Default::default() };
        let folders = Folders::decide(&variables).unwrap();
        let ui = Ui::new(&Global::default(), true, true, false);
        Conversation::new(Reach { folders, build: Build::current(1), ui, inside: false }, ask)
    }

    fn target() -> Target {
        Target { sandbox: None, folder: "/".into(), exec: "x".into() }
    }

    /// Converses with a daemon that receives the request, sends these answers and disconnects.
    async fn with_daemon(
        conversation: &mut Conversation,
        answers: &[Say],
    ) -> (Result<Ended, Broken>, Ask) {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let daemon = async {
            let mut theirs = Framed::from_std(theirs).unwrap();
            theirs.receive::<Hello>().await.unwrap().unwrap();
            let (ask, _) = theirs.receive::<Ask>().await.unwrap().unwrap();
            for answer in answers {
                theirs.send(answer, &[]).await.unwrap();
            }
            ask
        };
        let (framed, mut kept) = (Framed::from_std(ours).unwrap(), Kept::default());
        tokio::join!(conversation.converse(framed, &mut kept), daemon)
    }

    #[tokio::test]
    async fn a_daemon_that_calls_itself_outdated_and_leaves_is_replaced() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let theirs = Framed::from_std(theirs).unwrap();
        theirs.send(&Say::Outdated, &[]).await.unwrap();
        drop(theirs);
        let framed = Framed::from_std(ours).unwrap();
        let (leave_tx, _) = mpsc::unbounded_channel();
        let mut conversation = conversation(Ask::Attach(target()));
        let answer = conversation.converse(framed, &mut Plain { leave_tx }).await;
        assert!(matches!(answer, Err(Broken::Outdated)));
    }

    #[tokio::test]
    async fn a_command_that_may_be_running_is_not_started_again() {
        let run = |fresh| {
            Ask::Run(RunAsk {
                target: target(),
                words: vec![b"true".to_vec()],
                root: false,
                fresh,
                service: None,
                folder: None,
                database: None,
                terminal: None,
            })
        };
        let mut conversation = conversation(run(false));
        let (ended, asked) = with_daemon(&mut conversation, &[]).await;
        assert!(matches!((ended, asked), (Err(Broken::Off), Ask::Run(_))));
        // The next daemon is asked for the command, which is requested again only if no room knows it.
        let unknown = Say::Refused(Failure::new(FailureKind::NotFound, "unknown"));
        let (ended, asked) = with_daemon(&mut conversation, &[unknown]).await;
        assert!(matches!((ended, asked), (Err(Broken::Off), Ask::Attach(_))));
        let (_, asked) = with_daemon(&mut conversation, &[]).await;
        assert!(matches!(asked, Ask::Run(_)));
        let found = [Say::Started { terminal: false, joined: true }, Say::Exited(Ended::Code(7))];
        let (ended, asked) = with_daemon(&mut conversation, &found).await;
        assert!(matches!((ended, asked), (Ok(Ended::Code(7)), Ask::Attach(_))));
        // A fresh room ends with its daemon, so there is nothing to find.
        let mut conversation = self::conversation(run(true));
        for _ in 0..2 {
            let (_, asked) = with_daemon(&mut conversation, &[]).await;
            assert!(matches!(asked, Ask::Run(_)));
        }
    }
}
