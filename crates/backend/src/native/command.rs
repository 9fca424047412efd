//! Commands that Hothouse itself runs in a room, as the agent and without a terminal.

use std::{os::fd::OwnedFd, path::Path, time::Duration};

use hothouse_host::{random, relay::Pipes};
use hothouse_room::{
    ClientError, ExecStreams, RoomClient,
    wire::{ExecId, ExecSpec, Exit, RoomUser, Stdio},
};

use tokio::{io::AsyncReadExt, net::unix::pipe};

use super::block_on;
use crate::{RoomCommand, RoomError, RoomRun};

/// The maximum output of a command.
const OUTPUT_LIMIT: u64 = 1 << 20;
/// The time limit of a command.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a killed command may take to exit, and its last output to arrive.
const LAST: Duration = Duration::from_secs(5);

/// Starts a command and passes on its pipe ends. It ends when they are closed.
pub(super) fn converse(runtime: &Path, command: &RoomCommand) -> Result<Pipes, RoomError> {
    let spec = spec(command);
    let streams = block_on(async {
        let client = RoomClient::connect(runtime).await?;
        Ok(client.exec(spec).await?.streams)
    })?;
    match streams.map_err(RoomError::Talk)? {
        ExecStreams::Pipes { stdin, stdout, .. } => Ok(Pipes { to: stdin, from: stdout }),
        _ => Err(RoomError::Talk(ClientError::Unexpected)),
    }
}

/// Runs a command to its end. A process that it leaves behind may keep its output open, or write
/// endlessly: neither delays the result.
pub(super) fn run(runtime: &Path, command: &RoomCommand) -> Result<RoomRun, RoomError> {
    let spec = spec(command);
    let conversation = async {
        let client = RoomClient::connect(runtime).await?;
        let exec = spec.id.clone();
        let ExecStreams::Pipes { stdin, stdout, .. } = client.exec(spec).await?.streams else {
            return Err(ClientError::Unexpected);
        };
        drop(stdin);
        let (mut printed, mut is_read) = (Vec::new(), false);
        let exit = {
            let (reading, ending) = (read(stdout, &mut printed), end(&client, exec));
            tokio::pin!(reading, ending);
            let exit = loop {
                tokio::select! {
                    exit = &mut ending => break exit?,
                    () = &mut reading, if !is_read => is_read = true,
                }
            };
            if !is_read {
                tokio::time::timeout(LAST, reading).await.ok();
            }
            exit
        };
        let code = match exit {
            Some(Exit::Code(code)) => Some(code),
            Some(Exit::Signal(_) | Exit::NotStarted { .. }) | None => None,
        };
        Ok(RoomRun { code, stdout: printed })
    };
    block_on(conversation)?.map_err(RoomError::Talk)
}

/// Reads the beginning of a command's output, then closes it.
async fn read(stdout: OwnedFd, printed: &mut Vec<u8>) {
    // Output that was read before an error is returned.
    if let Ok(stdout) = pipe::Receiver::from_owned_fd(stdout) {
        stdout.take(OUTPUT_LIMIT).read_to_end(printed).await.ok();
    }
}

/// Waits for a command's exit, then makes the room close its output; kills it if it takes too long.
/// `None` if even that does not end it.
async fn end(client: &RoomClient, exec: ExecId) -> Result<Option<Exit>, ClientError> {
    let exit = match tokio::time::timeout(PATIENCE, client.wait(exec.clone())).await {
        Ok(exit) => Some(exit?),
        Err(_) => {
            client.signal(exec.clone(), KILL).await?;
            tokio::time::timeout(LAST, client.wait(exec.clone())).await.ok().transpose()?
        }
    };
    client.forget(exec).await.ok();
    Ok(exit)
}

const KILL: i32 = 9;

fn spec(command: &RoomCommand) -> ExecSpec {
    let number = u64::from_ne_bytes(random::bytes());
    let environment = ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/agent", "LC_ALL=C"];
    ExecSpec {
        id: ExecId(format!("hothouse-{number:016x}")),
        argv: command.words.iter().map(|word| word.as_encoded_bytes().to_vec()).collect(),
        env: environment.map(|entry| entry.as_bytes().to_vec()).to_vec(),
        cwd: command.folder.as_os_str().as_encoded_bytes().to_vec(),
        user: RoomUser::Agent,
        stdio: Stdio::Pipes,
        service: None,
    }
}
