//! The table of routes: from a host name to an app in one lookup.

use std::{collections::HashMap, sync::Arc};

use crate::{Activity, Address, RoomPort, lookup::Lookup, names::ZONE};

/// One app of one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The sandbox's public id, by which it is picked.
    pub id: String,
    pub sandbox: String,
    /// The label of its project in names.
    pub project: String,
    /// The label of the app in names.
    pub app: String,
    /// The service behind it.
    pub service: String,
    /// Where it answers, while the room is up.
    pub target: Option<RoomPort>,
    /// Whether its user has paused it.
    pub paused: bool,
    /// Marks its sandbox as in use.
    pub activity: Arc<Activity>,
}

impl Route {
    /// Returns its host name.
    pub fn host(&self) -> String {
        let Self { app, sandbox, project, .. } = self;
        format!("{app}.{sandbox}.{project}.{ZONE}")
    }
}

/// A sandbox whose room is not up, so its apps are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppedSandbox {
    pub sandbox: String,
    /// The label of its project in names.
    pub project: String,
}

/// Names below a sandbox's own that lead to what it recorded, unless an app has them: the label, and the dashboard's
/// page.
pub const SURFACES: [(&str, &str); 4] =
    [("mail", "mail"), ("errors", "errors"), ("events", "events"), ("queue", "queue")];

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Route(Arc<Route>),
    /// A shared host without a choice, or with one that does not exist: these can be picked.
    Choose(Vec<Arc<Route>>),
    /// The apps of a project.
    Picker(Vec<Arc<Route>>),
    /// Hothouse's own host, or that of one session of its dashboard.
    Own(Option<String>),
    /// What a sandbox recorded, on a page of the dashboard.
    Surface {
        project: String,
        sandbox: String,
        page: &'static str,
    },
    /// A sandbox without a room.
    Stopped(Arc<StoppedSandbox>),
    Nothing,
}

/// The current routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteTable {
    apps: Lookup<Arc<Route>>,
    shared: HashMap<String, HashMap<String, Arc<Route>>>,
    projects: HashMap<String, Vec<Arc<Route>>>,
    stopped: HashMap<(String, String), Arc<StoppedSandbox>>,
}

impl RouteTable {
    /// Builds a table.
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Self {
        let routes: Vec<_> = routes.into_iter().map(Arc::new).collect();
        let apps = Lookup::new(routes.iter().map(|route| (route.host(), route.clone())));
        let mut table = Self { apps, ..Self::default() };
        for route in routes {
            let Route { id, project, app, .. } = route.as_ref();
            let shared = Address::Shared { app: app.clone(), project: project.clone() };
            table.shared.entry(shared.to_string()).or_default().insert(id.clone(), route.clone());
            table.projects.entry(project.clone()).or_default().push(route);
        }
        table
    }

    /// Adds the sandboxes that have no room.
    #[must_use]
    pub fn with_stopped(mut self, stopped: impl IntoIterator<Item = StoppedSandbox>) -> Self {
        let key = |it: &StoppedSandbox| (it.project.clone(), it.sandbox.clone());
        self.stopped = stopped.into_iter().map(|it| (key(&it), Arc::new(it))).collect();
        self
    }

    fn stopped(&self, project: &str, sandbox: &str) -> Found {
        match self.stopped.get(&(project.to_owned(), sandbox.to_owned())) {
            Some(stopped) => Found::Stopped(stopped.clone()),
            None => Found::Nothing,
        }
    }

    /// Returns the page of the dashboard that a name below a sandbox's own leads to.
    fn surface(&self, app: &str, project: &str, sandbox: &str) -> Option<Found> {
        let (_, page) = SURFACES.into_iter().find(|(label, _)| *label == app)?;
        let is_stopped = self.stopped.contains_key(&(project.to_owned(), sandbox.to_owned()));
        let routes = self.projects.get(project).map(Vec::as_slice).unwrap_or_default();
        let is_known = is_stopped || routes.iter().any(|route| route.sandbox == sandbox);
        let (project, sandbox) = (project.to_owned(), sandbox.to_owned());
        is_known.then_some(Found::Surface { project, sandbox, page })
    }

    /// Returns every route, by project, sandbox and app.
    pub fn all(&self) -> Vec<Arc<Route>> {
        let mut all: Vec<_> = self.apps.values().cloned().collect();
        all.sort_by(|one, two| order(one).cmp(&order(two)));
        all
    }

    /// Finds an app by its own host name in canonical form: the fast path for most requests.
    pub fn app(&self, name: &str) -> Option<&Arc<Route>> {
        self.apps.get(name)
    }

    /// Returns the table as one sandbox sees it: only itself.
    pub fn only(&self, id: &str) -> Self {
        Self::new(self.apps.values().filter(|route| route.id == id).map(|route| (**route).clone()))
    }

    /// Finds the target of a host; `picked` is the sandbox id from the request.
    pub fn find(&self, address: &Address, picked: Option<&str>) -> Found {
        match address {
            Address::Own => Found::Own(None),
            Address::Session { label } => Found::Own(Some(label.clone())),
            Address::App { app, sandbox, project } => match self.apps.get(&address.to_string()) {
                Some(route) => Found::Route(route.clone()),
                None => self
                    .surface(app, project, sandbox)
                    .unwrap_or_else(|| self.stopped(project, sandbox)),
            },
            Address::Shared { .. } => match self.shared.get(&address.to_string()) {
                None => Found::Nothing,
                Some(candidates) => match picked.and_then(|id| candidates.get(id)) {
                    Some(route) => Found::Route(route.clone()),
                    None => Found::Choose(sorted(candidates.values())),
                },
            },
            Address::Picker { project } => match self.projects.get(project) {
                Some(routes) => Found::Picker(sorted(routes)),
                None => Found::Nothing,
            },
        }
    }
}

fn sorted<'a>(routes: impl IntoIterator<Item = &'a Arc<Route>>) -> Vec<Arc<Route>> {
    let mut routes: Vec<_> = routes.into_iter().cloned().collect();
    routes.sort_by(|one, two| order(one).cmp(&order(two)));
    routes
}

fn order(route: &Route) -> (&str, &str, &str) {
    (&route.project, &route.sandbox, &route.app)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::names::parse;

    pub(crate) fn route(project: &str, sandbox: &str, app: &str) -> Route {
        Route {
            id: format!("{project}-{sandbox}-0000"),
            sandbox: sandbox.into(),
            project: project.into(),
            app: app.into(),
            service: app.into(),
            target: Some(RoomPort {
                runtime: format!("/run/{project}-{sandbox}").into(),
                port: 3000,
            }),
            paused: false,
            activity: Arc::default(),
        }
    }

    fn check(host: &str, picked: Option<&str>, expected: &str) {
        let table = RouteTable::new([
            route("shop", "a", "web"),
            route("shop", "b", "web"),
            route("shop", "a", "api"),
            route("blog", "a", "web"),
        ]);
        let names = |routes: &[Arc<Route>]| {
            let names = routes.iter().map(|route| format!("{}/{}", route.sandbox, route.app));
            names.collect::<Vec<_>>().join(" ")
        };
        let shown = match table.find(&parse(host).unwrap(), picked) {
            Found::Route(route) => format!("{}/{}/{}", route.project, route.sandbox, route.app),
            Found::Choose(routes) => format!("choose {}", names(&routes)),
            Found::Picker(routes) => format!("picker {}", names(&routes)),
            Found::Own(label) => label.map_or("own".into(), |label| format!("session {label}")),
            Found::Stopped(it) => format!("stopped {}", it.sandbox),
            Found::Surface { sandbox, page, .. } => format!("{page} of {sandbox}"),
            Found::Nothing => "nothing".into(),
        };
        assert_eq!(shown, expected, "{host} {picked:?}");
    }

    #[test]
    fn a_stopped_sandbox_is_known_by_its_name_but_not_to_others() {
        let it = StoppedSandbox { sandbox: "b".into(), project: "shop".into() };
        let table = RouteTable::new([route("shop", "a", "web")]).with_stopped([it.clone()]);
        let of = |sandbox: &str| {
            let (app, project) = ("web".to_owned(), "shop".to_owned());
            Address::App { app, sandbox: sandbox.to_owned(), project }
        };
        assert_eq!(table.find(&of("b"), None), Found::Stopped(Arc::new(it)));
        assert_eq!(table.find(&of("c"), None), Found::Nothing);
        assert!(matches!(table.find(&of("a"), None), Found::Route(_)));
        let of_a_room = table.only(&route("shop", "a", "web").id);
        assert_eq!(of_a_room.find(&of("b"), None), Found::Nothing);
    }

    #[test]
    fn names_of_records_lead_to_the_dashboard_unless_an_app_has_them() {
        let it = StoppedSandbox { sandbox: "b".into(), project: "shop".into() };
        let routes = [route("shop", "a", "web"), route("shop", "a", "errors")];
        let table = RouteTable::new(routes).with_stopped([it]);
        let find = |app: &str, sandbox: &str| {
            let [app, sandbox, project] = [app, sandbox, "shop"].map(str::to_owned);
            table.find(&Address::App { app, sandbox, project }, None)
        };
        for sandbox in ["a", "b"] {
            let found = find("mail", sandbox);
            assert!(matches!(found, Found::Surface { page: "mail", .. }), "{found:?}");
        }
        assert!(matches!(find("errors", "a"), Found::Route(_)), "the app's own");
        assert_eq!(find("mail", "c"), Found::Nothing, "there is no such sandbox");
    }

    #[test]
    fn a_name_leads_to_its_own_app_whatever_was_picked() {
        check("web.a.shop.localhost", None, "shop/a/web");
        check("web.a.shop.localhost", Some("shop-b-0000"), "shop/a/web");
        check("web.a.blog.localhost", None, "blog/a/web");
        check("api.b.shop.localhost", None, "nothing");
        check("web.c.shop.localhost", None, "nothing");
    }

    #[test]
    fn a_shared_name_needs_a_choice_that_exists() {
        check("web.shop.localhost", Some("shop-b-0000"), "shop/b/web");
        check("web.shop.localhost", None, "choose a/web b/web");
        check("web.shop.localhost", Some("blog-a-0000"), "choose a/web b/web");
        check("api.shop.localhost", Some("shop-b-0000"), "choose a/api");
        check("mail.shop.localhost", None, "nothing");
    }

    #[test]
    fn a_project_shows_its_apps() {
        check("shop.localhost", None, "picker a/api a/web b/web");
        check("none.localhost", None, "nothing");
        check("hothouse.localhost", None, "own");
        check("0F.hothouse.localhost", None, "session 0f");
    }
}
