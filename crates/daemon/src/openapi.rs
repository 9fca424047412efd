//! The OpenAPI document, generated from the routes.

use utoipa::OpenApi;

use crate::routes;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Hothouse",
        description = "The daemon's API on its unix socket.",
        license(name = "MIT OR Apache-2.0")
    ),
    paths(
        routes::daemon::show,
        routes::daemon::stop,
        routes::sandbox::list,
        routes::sandbox::find,
        routes::sandbox::fork,
        routes::sandbox::up,
        routes::sandbox::down,
        routes::sandbox::pause,
        routes::sandbox::resume,
        routes::sandbox::delete,
        routes::sandbox::setup,
        routes::sandbox::nuke,
        routes::service::act,
        routes::service::command,
        routes::service::logs,
        routes::ask::list,
        routes::ask::ask,
        routes::ask::answer,
        routes::workspace::adopt,
        routes::workspace::diff,
        routes::workspace::log,
        routes::workspace::promote,
        routes::workspace::promoted_grants,
        routes::workspace::sizes,
        routes::workspace::clean,
        routes::workspace::runs,
        routes::snapshot::list,
        routes::snapshot::take,
        routes::snapshot::restore,
        routes::snapshot::forget,
        routes::pool::list,
        routes::pool::create,
        routes::port::list,
        routes::port::release,
        routes::port::expose,
        routes::ui::link,
        routes::ui::authority,
        routes::egress::log,
        routes::egress::why,
        routes::egress::learned,
        routes::egress::allow,
        routes::egress::pending,
        routes::egress::approve,
        routes::secret::list,
        routes::secret::set,
        routes::secret::remove,
        routes::timeline::list,
        routes::timeline::mark,
        routes::exec_note::note,
        routes::timeline::wait,
        routes::timeline::since,
        routes::timeline::verify,
        routes::proof::verify,
        routes::proof::scenarios,
        routes::proof::smoke,
        routes::proof::prove,
        routes::proof::compare,
        routes::proof::summary,
        routes::artifact::one,
        routes::request::one,
        routes::request::archive,
        routes::flag::list,
        routes::flag::set,
        routes::webhook::send,
        routes::browse::open,
        routes::browse::link,
        routes::app_route::list,
        routes::queue::list,
        routes::queue::act,
        routes::queue::crons,
        routes::queue::run_cron,
        routes::seed::list,
        routes::seed::seed,
        routes::integration::list,
        routes::operation::wait,
        routes::event::follow,
        routes::doctor::look,
        routes::doctor::fix,
    )
)]
struct Document;

/// Returns the document as JSON text.
pub fn document() -> String {
    let mut text = Document::openapi().to_pretty_json().expect("the document is plain data");
    text.push('\n');
    text
}
