//! One module per noun; each sends requests and prints the answers.

mod agent;
mod analytics;
mod ask;
mod audit;
mod browse;
mod completions;
mod config;
mod daemon;
mod doctor;
mod egress;
mod errors;
mod event;
mod exec;
pub(crate) mod explain;
mod flag;
mod given;
pub(crate) mod guard;
mod init;
mod inside;
mod integration;
mod login;
mod logs;
mod mail;
mod maintenance;
mod man;
mod mcp;
mod objects;
mod overview;
mod panel;
mod past;
mod pool;
mod proof;
mod queue;
mod race;
mod recording;
mod request;
mod review;
mod room;
mod routes;
mod run_status;
mod sandbox;
mod secret;
mod seed;
mod service;
mod sign;
mod skills;
mod snapshot;
mod stack;
mod timeline;
mod top;
mod trash;
mod trust;
mod url;
mod waterfall;
mod webhook;

use std::process::ExitCode;

use hothouse_api::service::ServiceAct;
use hothouse_model::Failure;

use crate::{
    Surroundings,
    args::{AuthCommand, Command, ConfigCommand, EgressCommand, IntegrationCommand, PoolCommand},
    next,
    session::Session,
    ui::Ui,
};

/// Runs a command.
pub(crate) fn run(
    command: Option<Command>,
    session: &Session,
    ui: &Ui,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    let Some(command) = command else { return overview::show(session, ui) };
    let after = next::after(&command);
    let done = run_one(command, session, ui, surroundings);
    if let (Ok(code), Some(line)) = (&done, after)
        && *code == ExitCode::SUCCESS
    {
        ui.next(&line);
    }
    done
}

fn run_one(
    command: Command,
    session: &Session,
    ui: &Ui,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    match command {
        Command::Init(args) => init::run(session, ui, &args, surroundings),
        Command::Fork(args) => sandbox::fork(session, ui, args, surroundings),
        Command::Adopt(args) => maintenance::adopt(session, ui, args),
        Command::Diff(args) => review::diff(session, ui, args),
        Command::Log(args) => review::log(session, ui, args),
        Command::Promote(args) => review::promote(session, ui, args, &surroundings.credentials),
        Command::Snapshot(args) => snapshot::take(session, ui, args),
        Command::Snapshots(named) => snapshot::list(session, ui, named.which()),
        Command::Restore(args) => snapshot::restore(session, ui, args),
        Command::Size(args) => maintenance::size(session, ui, args),
        Command::Clean(args) => maintenance::clean(session, ui, args),
        Command::Runs => maintenance::runs(session, ui),
        Command::Url(args) => url::url(session, ui, args),
        Command::Open(args) => url::open(session, ui, args),
        Command::Edit(args) => url::edit(session, ui, args, surroundings),
        Command::Env(args) => url::env(session, ui, args),
        Command::Ports(args) => url::ports(session, ui, &args),
        Command::Expose(args) => url::expose(session, ui, args),
        Command::Trust(args) => trust::trust(session, ui, &args, &session.folders.home),
        Command::Ui(args) => trust::ui(session, ui, args),
        Command::Stack(command) => stack::run(session, ui, &command),
        Command::Delete(args) => sandbox::delete(session, ui, &args),
        Command::Undelete(args) => trash::undelete(session, ui, args),
        Command::List => sandbox::list(session, ui),
        Command::Status(args) => sandbox::status(session, ui, args),
        Command::Up(args) => {
            init::before_up(session, ui, surroundings)?;
            room::up(session, ui, args)
        }
        Command::Down(named) => room::act(session, ui, named.which(), room::Action::Down),
        Command::Pause(named) => room::act(session, ui, named.which(), room::Action::Pause),
        Command::Resume(named) => room::act(session, ui, named.which(), room::Action::Resume),
        Command::Logs(args) => logs::show(session, ui, &args),
        Command::Start(args) => service::act(session, ui, args, ServiceAct::Start),
        Command::Stop(args) => service::act(session, ui, args, ServiceAct::Stop),
        Command::Restart(args) => service::act(session, ui, args, ServiceAct::Restart),
        Command::Signal(args) => service::signal(session, ui, args),
        Command::Db(args) => exec::database(session, ui, args, &surroundings.terminal),
        Command::Exec(args) => exec::exec(session, ui, args, &surroundings.terminal),
        Command::Shell(args) => exec::shell(session, ui, args, &surroundings.terminal),
        Command::Timeline(args) => timeline::list(session, ui, args),
        Command::Mark(args) => timeline::mark(session, ui, args),
        Command::Since(args) => timeline::since(session, ui, args),
        Command::Wait(args) => timeline::wait(session, ui, args),
        Command::Verify(args) => timeline::verify(session, ui, args),
        Command::Integration(IntegrationCommand::Add(args)) => {
            integration::add(session, ui, &args, &surroundings.variables)
        }
        Command::Integration(IntegrationCommand::Record(args)) => {
            recording::record(session, ui, args)
        }
        Command::Integrations(args) => integration::list(session, ui, args),
        Command::Requests(args) => request::requests(session, ui, args),
        Command::Analytics(args) => analytics::events(session, ui, args),
        Command::Llm(args) => analytics::models(session, ui, args),
        Command::Objects(args) => objects::list(session, ui, args),
        Command::Flags(args) => flag::run(session, ui, args),
        Command::Browse(args) => browse::open(session, ui, args),
        Command::Auth(AuthCommand::Link(args)) => browse::link(session, ui, args),
        Command::Webhook(args) => webhook::run(session, ui, args),
        Command::Webhooks(args) => webhook::list(session, ui, args),
        Command::Emails(args) => mail::list(session, ui, args),
        Command::Email(args) => mail::show(session, ui, args),
        Command::Errors(args) => errors::run(session, ui, args),
        Command::Ask(args) => ask::ask(session, ui, args),
        Command::Asks(args) => ask::run(session, ui, args),
        Command::Events(args) => event::follow(session, ui, args),
        Command::Top(args) => top::watch(session, ui, &args),
        Command::Agent(command) => agent::run(session, ui, command, surroundings),
        Command::Race(args) => race::race(session, ui, args),
        Command::Keep(args) => race::keep(session, ui, &args, &surroundings.credentials),
        Command::Tmux(args) => race::tmux(session, ui, &args, surroundings),
        Command::Guard(args) => guard::run(Some(session), ui, &args, surroundings),
        Command::Audit(args) => audit::show(session, ui, args),
        Command::Mcp(args) => mcp::run(session, ui, args),
        Command::Skills(command) => skills::run(session, ui, command),
        Command::Explain(args) => explain::run(ui, args.code.as_deref()),
        Command::Nuke(args) => sandbox::nuke(session, ui, &args),
        Command::Doctor(args) => doctor::run(session, ui, &args, surroundings),
        Command::Config(ConfigCommand::Check(args)) => {
            config::check(session, ui, &args, &surroundings.variables)
        }
        Command::Config(ConfigCommand::Show(args)) => {
            config::show(session, ui, &args, &surroundings.variables)
        }
        Command::Config(ConfigCommand::Schema) => Ok(config::schema(ui)),
        Command::Config(ConfigCommand::Approve(args)) => config::approve(session, ui, args),
        Command::Egress(EgressCommand::Log(args)) => egress::log(session, ui, args),
        Command::Egress(EgressCommand::Why(args)) => egress::why(session, ui, args),
        Command::Egress(EgressCommand::Learn(args)) => egress::learn(session, ui, args),
        Command::Egress(EgressCommand::Allow(args)) => egress::allow(session, ui, args),
        Command::Pool(PoolCommand::Create(args)) => {
            pool::create(session, ui, &args, &surroundings.variables)
        }
        Command::Pool(PoolCommand::Status) => pool::status(session, ui),
        Command::Queue(command) => queue::queue(session, ui, command),
        Command::Cron(command) => queue::cron(session, ui, command),
        Command::Routes(args) => routes::list(session, ui, args),
        Command::Scenarios(args) => proof::scenarios(session, ui, args),
        Command::Smoke(args) => proof::smoke(session, ui, args),
        Command::Prove(args) => proof::prove(session, ui, args),
        Command::Compare(args) => proof::compare(session, ui, args),
        Command::Summary(args) => proof::summary(session, ui, &args),
        Command::Seeds(args) => seed::list(session, ui, args),
        Command::Seed(args) => seed::seed(session, ui, args),
        Command::Secret(command) => secret::run(session, ui, command),
        Command::Daemon(command) => daemon::run(session, ui, &command, surroundings),
        Command::Version => Ok(version(session, ui)),
        Command::Completions(args) => completions::run(ui, &args, surroundings),
        Command::Man(args) => man::write(ui, &args),
    }
}

fn version(session: &Session, ui: &Ui) -> ExitCode {
    let version = session.build.version();
    if ui.json {
        ui.print_json(
            &serde_json::json!({ "version": version, "build": session.build.to_string() }),
        );
    } else {
        ui.print(&format!("hothouse {version}"));
    }
    ExitCode::SUCCESS
}
