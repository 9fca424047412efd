//! Controls rooms manually and for the tests: start, exec, shell, attach, stop.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool for developers"
)]

mod relay;
mod words;

use hothouse_host::hands::{HANDS_ARGUMENT, hands_main};
use hothouse_room::wire::{ExecId, ExecSpec, Exit, ListenSpec, Proto, RoomUser, Stdio, WindowSize};
use hothouse_room::{
    Access, Attached, Bind, ExecStreams, LAUNCHER_ARGUMENT, Launcher, Limits, Mode, RoomClient,
    RoomSpec, Started, room_launcher_main, stop,
};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use words::Words;

type Outcome = Result<u8, Box<dyn Error>>;

const USAGE: &str = "usage: roomctl start|fresh|exec|shell|attach|wait|signal|list|status|connect|listen|egress|datagrams|freeze|thaw|suspend|resume|shutdown|stop|remove|identity STATE ...";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().map(String::as_str) == Some(LAUNCHER_ARGUMENT) {
        return room_launcher_main();
    }
    if arguments.first().map(String::as_str) == Some(HANDS_ARGUMENT) {
        return hands_main();
    }
    match run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprint!("roomctl: {error}");
            let mut cause = error.source();
            while let Some(inner) = cause {
                eprint!("\n  caused by: {inner}");
                cause = inner.source();
            }
            eprintln!();
            ExitCode::from(125)
        }
    }
}

fn run(arguments: &[String]) -> Outcome {
    let mut words = Words::new(arguments);
    let verb = words.next().ok_or(USAGE)?;
    let state = PathBuf::from(words.next().ok_or(USAGE)?);
    let state = State(std::path::absolute(state)?);
    match verb.as_str() {
        "start" => {
            let started = Launcher::default().start(&spec(&state, &mut words)?)?;
            state.save(&started)?;
            println!("{}", serde_json::to_string_pretty(&started)?);
            Ok(0)
        }
        "fresh" => fresh(&state, &mut words),
        "stop" => {
            stop(&state.load()?, &state.runtime())?;
            Ok(0)
        }
        "remove" => {
            Launcher::default().remove_storage(&state.storage(), None)?;
            Ok(0)
        }
        "freeze" => {
            state.load()?.groups.freeze()?;
            Ok(0)
        }
        "thaw" => {
            state.load()?.groups.thaw()?;
            Ok(0)
        }
        "identity" => Ok(u8::from(!state.load()?.identity.is_alive())),
        verb => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(talk(verb, &state, &mut words))
        }
    }
}

/// The folder that contains everything of one room.
struct State(PathBuf);

impl State {
    fn runtime(&self) -> PathBuf {
        self.0.join("runtime")
    }

    fn storage(&self) -> PathBuf {
        self.0.join("storage")
    }

    fn save(&self, started: &Started) -> Outcome {
        hothouse_host::files::write(&self.0.join("room.json"), serde_json::to_vec(started)?)?;
        Ok(0)
    }

    fn load(&self) -> Result<Started, Box<dyn Error>> {
        Ok(serde_json::from_slice(&hothouse_host::files::read_capped(
            &self.0.join("room.json"),
            1 << 20,
        )?)?)
    }
}

fn spec(state: &State, words: &mut Words) -> Result<RoomSpec, Box<dyn Error>> {
    let worktree = std::path::absolute(words.next().ok_or("start STATE WORKTREE [options]")?)?;
    let id = state.0.file_name().and_then(|name| name.to_str()).unwrap_or("room");
    let id: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let mut spec = RoomSpec {
        id: format!("{id}-{}", std::process::id()),
        hostname: "room".into(),
        names: Vec::new(),
        worktree,
        aliases: vec![],
        storage: state.storage(),
        base_layer: state.0.parent().unwrap_or(Path::new("/")).join("base"),
        runtime: state.runtime(),
        tools: vec![],
        mounts: vec![],
        readonly_binds: vec![],
        masks: vec![],
        limits: Limits::default(),
        ephemeral: false,
        mode: None,
        shifted_base: RoomSpec::DEFAULT_SHIFTED_BASE,
        ca: None,
        claim: None,
        layers: None,
        stack: vec![],
    };
    while let Some(option) = words.option() {
        let mut value = || words.next().ok_or(format!("{option} wants a value"));
        match option.as_str() {
            "--ephemeral" => spec.ephemeral = true,
            "--mode" => spec.mode = Some(mode(&value()?)?),
            "--hostname" => spec.hostname = value()?,
            "--base" => spec.base_layer = value()?.into(),
            "--alias" => spec.aliases.push(value()?.into()),
            "--tool" => spec.tools.push(value()?.into()),
            "--mask" => spec.masks.push(value()?.into()),
            "--readonly" => spec.readonly_binds.push(bind(&value()?, Access::Read)?),
            "--mount" => spec.mounts.push(bind(&value()?, Access::Write)?),
            "--memory" => spec.limits.memory = Some(value()?.parse()?),
            "--cpus" => spec.limits.cpus = Some(value()?.parse()?),
            "--pids" => spec.limits.pids = Some(value()?.parse()?),
            "--disk" => spec.limits.disk = Some(value()?.parse()?),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    Ok(spec)
}

fn mode(word: &str) -> Result<Mode, String> {
    match word {
        "root" => Ok(Mode::Root),
        "range" => Ok(Mode::Range),
        "single" => Ok(Mode::Single),
        other => Err(format!("no mode `{other}`")),
    }
}

fn bind(text: &str, access: Access) -> Result<Bind, String> {
    let (source, target) = text.split_once(':').ok_or("a bind is SOURCE:TARGET")?;
    Ok(Bind { source: source.into(), target: target.into(), access })
}

/// Runs one command in a new room.
fn fresh(state: &State, words: &mut Words) -> Outcome {
    let mut spec = spec(state, words)?;
    spec.ephemeral = true;
    let started = Launcher::default().start(&spec)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(talk("exec", state, words));
    stop(&started, &state.runtime())?;
    code
}

async fn talk(verb: &str, state: &State, words: &mut Words) -> Outcome {
    let mut client = RoomClient::connect(&state.runtime()).await?;
    match verb {
        "exec" => exec(&client, words, None).await,
        "shell" => {
            exec(&client, words, Some(relay::window().unwrap_or(WindowSize { rows: 24, cols: 80 })))
                .await
        }
        "attach" => attach(&client, ExecId(words.next().ok_or("attach STATE ID")?)).await,
        "wait" => {
            let exit = client.wait(ExecId(words.next().ok_or("wait STATE ID")?)).await?;
            Ok(code(&exit))
        }
        "signal" => {
            let id = ExecId(words.next().ok_or("signal STATE ID NUMBER")?);
            client.signal(id, words.next().ok_or("signal STATE ID NUMBER")?.parse()?).await?;
            Ok(0)
        }
        "list" => {
            for record in client.execs().await? {
                println!("{} {} {:?}", record.id.0, record.pid, record.exit);
            }
            Ok(0)
        }
        "status" => {
            let (pids, taken) = client.status().await?;
            println!("pids {pids:?} egress taken {taken} protocol {}", client.protocol());
            Ok(0)
        }
        "connect" => {
            let port = words.next().ok_or("connect STATE PORT")?.parse()?;
            let mut socket = std::net::TcpStream::from(client.connect_inside(port).await?);
            socket.set_nonblocking(false)?;
            std::io::copy(&mut socket, &mut std::io::stdout())?;
            Ok(0)
        }
        "listen" => {
            let port = words.next().ok_or("listen STATE PORT")?.parse()?;
            let address = std::net::Ipv4Addr::LOCALHOST.into();
            let (socket, port) =
                client.listen(ListenSpec { address, port, proto: Proto::Tcp }).await?;
            println!("{port}");
            let (mut peer, _) = std::net::TcpListener::from(socket).accept()?;
            std::io::copy(&mut peer, &mut std::io::stdout())?;
            Ok(0)
        }
        "egress" => {
            // Takes over the room's traffic and prints the destination of the first connection.
            let egress = client.take_egress().await?;
            println!(
                "{} {} {}",
                egress.tcp.len(),
                egress.dns_datagram.len(),
                egress.dns_stream.len()
            );
            relay::first_target(egress)?;
            Ok(0)
        }
        "datagrams" => {
            // Opens a port for datagrams, prints the destination of each, and answers it.
            let port = words.next().ok_or("datagrams STATE PORT COUNT")?.parse()?;
            let count = words.next().ok_or("datagrams STATE PORT COUNT")?.parse()?;
            relay::datagrams(client.take_egress().await?, port, count)?;
            Ok(0)
        }
        "suspend" => {
            client.suspend().await?;
            Ok(0)
        }
        "resume" => {
            client.resume().await?;
            Ok(0)
        }
        "shutdown" => {
            client.shutdown(Duration::from_secs(5)).await?;
            client.closed().await;
            Ok(0)
        }
        _ => Err(USAGE.into()),
    }
}

async fn exec(client: &RoomClient, words: &mut Words, terminal: Option<WindowSize>) -> Outcome {
    let mut spec = ExecSpec {
        id: ExecId(format!("e{}", std::process::id())),
        argv: vec![],
        env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]
            .map(|text| text.as_bytes().to_vec())
            .to_vec(),
        cwd: b"/".to_vec(),
        user: RoomUser::Agent,
        stdio: terminal.map_or(Stdio::Pipes, Stdio::Pty),
        service: None,
    };
    while let Some(option) = words.option() {
        let mut value = || words.next().ok_or(format!("{option} wants a value"));
        match option.as_str() {
            "--root" => spec.user = RoomUser::Root,
            "--detach" => spec.stdio = Stdio::Detached,
            "--id" => spec.id = ExecId(value()?),
            "--cwd" => spec.cwd = value()?.into_bytes(),
            "--env" => spec.env.push(value()?.into_bytes()),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let (home, name) = match spec.user {
        RoomUser::Agent => ("HOME=/home/agent", "USER=agent"),
        RoomUser::Root => ("HOME=/root", "USER=root"),
    };
    spec.env.extend([home.as_bytes().to_vec(), name.as_bytes().to_vec()]);
    spec.argv = words.rest().into_iter().map(String::into_bytes).collect();
    let id = spec.id.clone();
    let started = client.exec(spec).await?;
    let relays = match started.streams {
        ExecStreams::Pipes { stdin, stdout, stderr } => {
            relay::Relays::pipes(stdin, stdout, stderr)?
        }
        ExecStreams::Terminal { input, output } => relay::Relays::terminal(input, output)?,
        ExecStreams::Detached => {
            println!("{}", id.0);
            return Ok(0);
        }
    };
    let exit = client.wait(id).await?;
    relays.finish();
    Ok(code(&exit))
}

async fn attach(client: &RoomClient, id: ExecId) -> Outcome {
    let relays = match client.attach(id.clone()).await? {
        Attached::Pipes { stdout, stderr } => relay::Relays::outputs(stdout, stderr)?,
        Attached::Terminal { input, output } => relay::Relays::terminal(input, output)?,
        Attached::Nothing => return Err("nothing is kept of it".into()),
    };
    let exit = client.wait(id).await?;
    relays.finish();
    Ok(code(&exit))
}

fn code(exit: &Exit) -> u8 {
    let code = match exit {
        Exit::Code(code) => *code,
        Exit::Signal(signal) => 128 + signal,
        Exit::NotStarted { code, message } => {
            eprintln!("roomctl: {message}");
            *code
        }
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}
