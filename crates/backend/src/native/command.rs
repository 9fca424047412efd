//! Commands that Hothouse itself runs in a room, as the agent and without a terminal.

use std::{io::Read, path::Path, time::Duration};

use hothouse_host::{random, relay::Pipes};
use hothouse_room::{
    ClientError, ExecStreams, RoomClient,
    wire::{ExecId, ExecSpec, Exit, RoomUser, Stdio},
};

use super::block_on;
use crate::{RoomCommand, RoomError, RoomRun};

/// How much of a command's output is kept.
const OUTPUT_LIMIT: u64 = 1 << 20;
/// How long a command of ours may take.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// Runs a command to its end.
pub(super) fn run(runtime: &Path, command: &RoomCommand) -> Result<RoomRun, RoomError> {
    let spec = spec(command);
    let conversation = async {
        let client = RoomClient::connect(runtime).await?;
        let exec = spec.id.clone();
        let ExecStreams::Pipes { stdin, stdout, .. } = client.exec(spec).await?.streams else {
            return Err(ClientError::Unexpected);
        };
        drop(stdin);
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = Vec::new();
            // What could be read is returned.
            std::fs::File::from(stdout).take(OUTPUT_LIMIT).read_to_end(&mut bytes).ok();
            bytes
        });
        let ended = tokio::time::timeout(PATIENCE, client.wait(exec.clone())).await;
        let exit = match ended {
            Ok(exit) => exit?,
            Err(_) => {
                client.signal(exec.clone(), KILL).await?;
                client.wait(exec.clone()).await?
            }
        };
        let stdout = read.await.unwrap_or_default();
        client.forget(exec).await.ok();
        let code = match exit {
            Exit::Code(code) => Some(code),
            Exit::Signal(_) | Exit::NotStarted { .. } => None,
        };
        Ok(RoomRun { code, stdout })
    };
    block_on(conversation)?.map_err(RoomError::Talk)
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
