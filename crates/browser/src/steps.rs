//! Runs steps on a page. Each waits until what it is about is there, visible, enabled and at rest.

use std::{future::Future, pin::Pin, time::Duration};

use hothouse_model::{
    browse::{StepReport, cut},
    record::Kind,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::{
    accessibility::AxNode,
    capture::text,
    client::{CallError, within},
    keys,
    locate::{By, Locator, shown},
    page::{Arrival, Page, Shot},
    script::{Action, Expected, Step},
};

/// How long a step may take unless it says otherwise, and how often it is tried.
const PATIENCE: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(80);

/// How long one answer of the page may take.
const ANSWER: Duration = Duration::from_secs(10);

const FIND: &str = include_str!("scripts/find.js");
const READY: &str = include_str!("scripts/ready.js");
const PRESSED: &str = include_str!("scripts/pressed.js");
const FILL: &str = include_str!("scripts/fill.js");
const SELECT: &str = include_str!("scripts/select.js");

/// What steps need from outside the page.
pub trait Outside: Send + Sync {
    /// Returns the URL of a path, of this app or another.
    fn url(&self, app: Option<&str>, path: &str) -> Result<String, String>;

    /// Returns the path of a worktree's file as the browser sees it.
    fn file(&self, path: &str) -> Result<String, String>;

    /// Waits for a record of the run.
    fn record<'a>(&'a self, kind: Kind, query: &'a str, patience: Duration) -> Later<'a, Value>;

    /// Sends a webhook, and returns how it was answered.
    fn webhook<'a>(&'a self, what: &'a str) -> Later<'a, String>;
}

/// Something that takes a while, and says why it failed.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// What came of steps.
#[derive(Debug, Default)]
pub struct Ran {
    pub steps: Vec<StepReport>,
    /// Pictures that steps took, by name.
    pub pictures: Vec<(String, Vec<u8>)>,
    /// How the last navigation ended, where it did not end well.
    pub arrival: Option<Arrival>,
}

/// Why a step failed, and what was there instead.
#[derive(Debug, Default, PartialEq, Eq)]
struct Failed {
    error: String,
    near: Vec<String>,
}

impl From<String> for Failed {
    fn from(error: String) -> Self {
        Self { error, near: Vec::new() }
    }
}

impl From<CallError> for Failed {
    fn from(error: CallError) -> Self {
        error.to_string().into()
    }
}

/// Runs steps until one fails or the time runs out.
pub async fn run(page: &Page, steps: &[Step], outside: &dyn Outside, deadline: Instant) -> Ran {
    let mut ran = Ran::default();
    let mut record = Value::Null;
    for step in steps {
        let begun = Instant::now();
        let own = begun + step.timeout.unwrap_or(PATIENCE);
        let until = own.min(deadline);
        let mut running = Running { page, outside, until, record: &mut record, ran: &mut ran };
        let outcome = running.run(&step.action).await;
        let (error, near) = match outcome {
            Ok(()) => (None, Vec::new()),
            Err(Failed { error, near }) => {
                let is_cut = deadline < own && Instant::now() + AGAIN >= deadline;
                let why = if is_cut { "; the time of the whole page was over" } else { "" };
                (Some(cut(&error, 1000) + why), near)
            }
        };
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let ok = error.is_none();
        ran.steps.push(StepReport { step: step.to_string(), ok, error, near, duration_ms });
        if !ok {
            break;
        }
    }
    ran
}

/// Returns how long steps take if each needs all of its time.
pub fn patience(steps: &[Step]) -> Duration {
    steps.iter().map(|step| step.timeout.unwrap_or(PATIENCE)).sum()
}

/// Waits for an element, and returns the part of the page that it takes.
pub async fn place_of(page: &Page, on: &Locator, deadline: Instant) -> Result<Shot, String> {
    let (mut record, mut ran) = (Value::Null, Ran::default());
    let until = within(PATIENCE).min(deadline);
    let running = Running { page, outside: &Nowhere, until, record: &mut record, ran: &mut ran };
    let object = running.find(on, true).await.map_err(|failed| failed.error)?;
    let state = running.on(&object, READY, &[json!(false)]).await.map_err(|failed| failed.error)?;
    let side =
        |name: &str| state[name].as_f64().filter(|side| side.is_finite()).unwrap_or_default();
    match side("width") > 0.0 {
        true => Ok(Shot::Clip {
            x: side("left"),
            y: side("top"),
            width: side("width"),
            height: side("height"),
        }),
        false => Err(format!("{on} is not visible")),
    }
}

/// Makes a step one that means the same on another day: refs become roles and names.
pub async fn lasting(page: &Page, step: &Step) -> Step {
    let mut step = step.clone();
    let on = match &mut step.action {
        Action::Click(on)
        | Action::Hover(on)
        | Action::Check(on)
        | Action::Uncheck(on)
        | Action::Wait(on) => on,
        Action::Fill { on, .. } | Action::Select { on, .. } | Action::Upload { on, .. } => on,
        Action::Press { on: Some(on), .. } => on,
        Action::Expect { what: Expected::Element(on), .. } => on,
        _ => return step,
    };
    if let By::Ref(element) = on.by {
        let nodes = page.nodes(within(ANSWER)).await.unwrap_or_default();
        if let Some(named) = by_name(element, &nodes) {
            *on = named;
        }
    }
    step
}

/// Names an element by its role, its name, and its place among those that have both.
fn by_name(element: i64, nodes: &[AxNode]) -> Option<Locator> {
    let node = nodes.iter().find(|node| node.element == element && !node.name.is_empty())?;
    let mut named = Locator { by: By::Role(node.role.clone(), Some(node.name.clone())), nth: None };
    let same = named.among(nodes);
    if same.len() > 1 {
        named.nth = same.iter().position(|one| one.element == element).map(|at| at + 1);
    }
    Some(named)
}

/// For what needs nothing from outside.
struct Nowhere;

impl Outside for Nowhere {
    fn url(&self, _: Option<&str>, _: &str) -> Result<String, String> {
        Err("there is no app".into())
    }

    fn file(&self, _: &str) -> Result<String, String> {
        Err("there are no files".into())
    }

    fn record<'a>(&'a self, _: Kind, _: &'a str, _: Duration) -> Later<'a, Value> {
        Box::pin(async { Err("there are no records".into()) })
    }

    fn webhook<'a>(&'a self, _: &'a str) -> Later<'a, String> {
        Box::pin(async { Err("there are no webhooks".into()) })
    }
}

/// What an element is looked at for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Look,
    /// A press of the mouse follows. If it arrives elsewhere, it does nothing there.
    Press,
}

struct Running<'a> {
    page: &'a Page,
    outside: &'a dyn Outside,
    until: Instant,
    /// The body of the record that was waited for last.
    record: &'a mut Value,
    ran: &'a mut Ran,
}

impl Running<'_> {
    async fn run(&mut self, action: &Action) -> Result<(), Failed> {
        match action {
            Action::Goto { path, app } => self.goto(app.as_deref(), path).await,
            Action::Click(on) => self.click(on).await,
            Action::Hover(on) => {
                let (_, x, y) = self.ready(on, Use::Look).await?;
                self.mouse("mouseMoved", x, y).await
            }
            Action::Check(on) => self.tick(on, true).await,
            Action::Uncheck(on) => self.tick(on, false).await,
            Action::Fill { on, value } => self.fill(on, value).await,
            Action::Select { on, value } => self.select(on, value).await,
            Action::Press { key, on } => self.press(key, on.as_ref()).await,
            Action::Upload { on, file } => self.upload(on, file).await,
            Action::Wait(on) => self.find(on, true).await.map(drop),
            Action::Record { kind, query } => {
                let patience = self.until.saturating_duration_since(Instant::now());
                *self.record = self.outside.record(*kind, query, patience).await?;
                Ok(())
            }
            Action::Expect { what, absent } => self.expect(what, *absent).await,
            Action::Screenshot(name) => {
                let (pictures, _) = self.page.picture(&Shot::Viewport, within(ANSWER)).await?;
                let named = pictures.into_iter().map(|picture| (name.clone(), picture));
                self.ran.pictures.extend(named);
                Ok(())
            }
            Action::Webhook(what) => {
                self.outside.webhook(what).await.map(drop).map_err(Failed::from)
            }
            Action::Dialog { accept } => {
                self.page.noted(|capture| capture.accept_dialogs = *accept);
                Ok(())
            }
        }
    }

    async fn goto(&mut self, app: Option<&str>, path: &str) -> Result<(), Failed> {
        let url = self.outside.url(app, &filled_in(path, self.record)?)?;
        match self.page.goto(&url, self.until).await? {
            Arrival::Loaded | Arrival::Busy => Ok(()),
            arrival => {
                self.ran.arrival = Some(arrival.clone());
                let why = match &arrival {
                    Arrival::Failed(why) | Arrival::Crashed(why) => why.clone(),
                    Arrival::Late(pending) => match pending.first() {
                        Some(url) => format!("it waits for {url}"),
                        None => "its script does not end".to_owned(),
                    },
                    Arrival::Loaded | Arrival::Busy | Arrival::Silent(_) => String::new(),
                };
                Err(format!("the page did not load: {why}").into())
            }
        }
    }

    async fn click(&self, on: &Locator) -> Result<(), Failed> {
        loop {
            let (object, x, y) = self.ready(on, Use::Press).await?;
            for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
                self.mouse(kind, x, y).await?;
            }
            // A page that is gone was left by the click.
            let pressed = self.on(&object, PRESSED, &[]).await.unwrap_or_default();
            match text(&pressed) {
                "" => break,
                _ if self.again().await => {}
                other => {
                    let other = cut(other, 100);
                    return Err(
                        format!("{on} was not clicked: {other} came under the mouse").into()
                    );
                }
            }
        }
        self.page.calm(self.until).await;
        Ok(())
    }

    async fn mouse(&self, kind: &str, x: f64, y: f64) -> Result<(), Failed> {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let params = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": i32::from(kind != "mouseMoved") });
        self.page.call("Input.dispatchMouseEvent", params, within(ANSWER)).await?;
        Ok(())
    }

    async fn tick(&self, on: &Locator, wanted: bool) -> Result<(), Failed> {
        let object = self.find(on, false).await?;
        let script = "function () { const one = this.control || this; return one.checked !== undefined ? one.checked \
            : one.getAttribute('aria-checked') === 'true'; }";
        if self.on(&object, script, &[]).await?.as_bool() == Some(wanted) {
            return Ok(());
        }
        self.click(on).await?;
        match self.on(&object, script, &[]).await?.as_bool() == Some(wanted) {
            true => Ok(()),
            false => Err(format!("{on} did not change when it was clicked").into()),
        }
    }

    async fn fill(&mut self, on: &Locator, value: &str) -> Result<(), Failed> {
        let value = filled_in(value, self.record)?;
        let (object, ..) = self.ready(on, Use::Look).await?;
        match text(&self.on(&object, FILL, &[json!(value)]).await?) {
            "done" => {}
            "type" if value.is_empty() => self.press("Delete", None).await?,
            "type" => {
                let params = json!({ "text": value });
                self.page.call("Input.insertText", params, within(ANSWER)).await?;
            }
            problem => return Err(format!("{on} cannot be filled: {}", cut(problem, 100)).into()),
        }
        self.page.calm(self.until).await;
        Ok(())
    }

    async fn select(&mut self, on: &Locator, value: &str) -> Result<(), Failed> {
        let value = filled_in(value, self.record)?;
        let object = self.find(on, false).await?;
        let told = self.on(&object, SELECT, &[json!(value)]).await?;
        if let Some(error) = told["error"].as_str() {
            let near = told["near"].as_array().into_iter().flatten();
            let near = near.take(10).map(|option| format!("'{}'", cut(text(option), 80))).collect();
            return Err(Failed { error: format!("{on}: {}", cut(error, 100)), near });
        }
        self.page.calm(self.until).await;
        Ok(())
    }

    async fn press(&self, key: &str, on: Option<&Locator>) -> Result<(), Failed> {
        if let Some(on) = on {
            let object = self.find(on, false).await?;
            self.on(&object, "function () { this.focus(); }", &[]).await?;
        }
        let key = keys::find(key).ok_or_else(|| format!("`{key}` is not a key"))?;
        for event in key.events() {
            self.page.call("Input.dispatchKeyEvent", event, within(ANSWER)).await?;
        }
        self.page.calm(self.until).await;
        Ok(())
    }

    async fn upload(&self, on: &Locator, file: &str) -> Result<(), Failed> {
        let path = self.outside.file(file)?;
        let object = self.find(on, false).await?;
        let script = "function () { const one = this.matches('input[type=file]') ? this : this.control || this.querySelector('input[type=file]'); return one; }";
        let params = json!({ "objectId": object, "functionDeclaration": script });
        let field = self.page.call("Runtime.callFunctionOn", params, within(ANSWER)).await?;
        let Some(field) = field["result"]["objectId"].as_str() else {
            return Err(format!("{on} does not take files").into());
        };
        let params = json!({ "files": [path], "objectId": field });
        self.page.call("DOM.setFileInputFiles", params, within(ANSWER)).await?;
        self.page.calm(self.until).await;
        Ok(())
    }

    async fn expect(&self, what: &Expected, absent: bool) -> Result<(), Failed> {
        let mut found = String::new();
        loop {
            let holds = match what {
                Expected::Element(on) => {
                    self.try_find(on, true).await.is_ok_and(|found| found.is_some())
                }
                Expected::Url(part) => {
                    found = text(&self.evaluate("location.href").await).to_owned();
                    found.contains(part)
                }
                Expected::Title(part) => {
                    found = text(&self.evaluate("document.title").await).to_owned();
                    found.to_lowercase().contains(&part.to_lowercase())
                }
            };
            if holds != absent {
                return Ok(());
            }
            if !self.again().await {
                break;
            }
        }
        Err(match (what, absent) {
            (_, true) => format!("{what} is there").into(),
            (Expected::Element(on), false) => self.missing(on).await,
            (_, false) => {
                Failed { error: format!("{what} does not hold"), near: vec![cut(&found, 300)] }
            }
        })
    }

    async fn evaluate(&self, script: &str) -> Value {
        self.page.evaluate(script, within(ANSWER)).await.unwrap_or_default()
    }

    /// Waits before the next try; returns false when the time ran out.
    async fn again(&self) -> bool {
        let next = Instant::now() + AGAIN;
        if next >= self.until || self.page.is_gone() {
            return false;
        }
        sleep_until(next).await;
        true
    }

    /// Waits until an element is there, and returns it. `first` takes the first of several.
    async fn find(&self, on: &Locator, first: bool) -> Result<String, Failed> {
        loop {
            let tried = self.try_find(on, first).await;
            if let Ok(Some(object)) = tried {
                return Ok(object);
            }
            if !self.again().await {
                return match tried {
                    Err(failed) => Err(failed),
                    Ok(_) => Err(self.missing(on).await),
                };
            }
        }
    }

    async fn missing(&self, on: &Locator) -> Failed {
        if self.page.is_gone() {
            return "the page is gone".to_owned().into();
        }
        let nodes = self.page.nodes(within(ANSWER)).await.unwrap_or_default();
        Failed { error: format!("{on} is not there"), near: on.near(&nodes) }
    }

    /// Looks for an element once.
    async fn try_find(&self, on: &Locator, first: bool) -> Result<Option<String>, Failed> {
        let deadline = within(ANSWER);
        if let By::Ref(element) = on.by {
            return Ok(self.page.resolve_anywhere(element, deadline).await);
        }
        if on.is_in_tree() {
            let nodes = self.page.nodes(deadline).await?;
            let mut fitting = on.among(&nodes);
            // What the page itself has is meant before what its frames have.
            if fitting.iter().any(|node| node.frame.is_empty()) {
                fitting.retain(|node| node.frame.is_empty());
            }
            match chosen(on, &fitting, first)? {
                Some(node) => {
                    return Ok(self.page.resolve(node.element, &node.frame, deadline).await.ok());
                }
                None if on.query().is_none() => return Ok(None),
                None => {}
            }
        }
        let mut query = on.query().unwrap_or_default();
        query["first"] = first.into();
        let source = format!("({FIND})({query}, {})", on.nth.unwrap_or(0));
        match self.page.evaluate_object(&source, "", deadline).await? {
            Ok(object) => return Ok(Some(object)),
            Err(Value::Number(count)) if count.as_u64() > Some(1) => {
                let error = format!("{count} elements are {on}; say which with `nth 1` and so on");
                return Err(error.into());
            }
            Err(_) => {}
        }
        // What the page itself does not have may be in one of its frames.
        for frame in self.page.frames(deadline).await {
            if let Ok(Ok(object)) = self.page.evaluate_object(&source, &frame.id, deadline).await {
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    /// Waits until an element can be used, and returns it with the place to click.
    async fn ready(&self, on: &Locator, what_for: Use) -> Result<(String, f64, f64), Failed> {
        let mut problem;
        loop {
            let object = self.find(on, false).await?;
            let press = json!(what_for == Use::Press);
            let state = self.on(&object, READY, &[json!(false), press]).await?;
            let place =
                |name: &str| state[name].as_f64().filter(|at| at.is_finite()).unwrap_or_default();
            problem = match text(&state["state"]) {
                "ok" if state["framed"] == true => {
                    match self.page.middle_of(&object, within(ANSWER)).await {
                        Some((x, y)) => return Ok((object, x, y)),
                        None => "it is not visible".to_owned(),
                    }
                }
                "ok" => return Ok((object, place("x"), place("y"))),
                "covered" => format!("it is covered by {}", cut(text(&state["by"]), 100)),
                "disabled" => "it is disabled".to_owned(),
                "hidden" => "it is not visible".to_owned(),
                "passive" => "it lets the mouse through (`pointer-events: none`)".to_owned(),
                _ => "it does not come to rest".to_owned(),
            };
            if !self.again().await {
                break;
            }
        }
        Err(format!("{on} cannot be used: {problem}").into())
    }

    async fn on(&self, object: &str, script: &str, values: &[Value]) -> Result<Value, Failed> {
        Ok(self.page.call_on(object, script, values, within(ANSWER)).await?)
    }
}

/// Chooses one of the nodes that fit.
fn chosen<'n>(
    on: &Locator,
    nodes: &[&'n AxNode],
    first: bool,
) -> Result<Option<&'n AxNode>, Failed> {
    match (on.nth, nodes) {
        (Some(nth), nodes) => Ok(nodes.get(nth - 1).copied()),
        (None, []) => Ok(None),
        (None, [one]) => Ok(Some(one)),
        (None, [one, ..]) if first => Ok(Some(one)),
        (None, several) => Err(Failed {
            error: format!(
                "{} elements are {on}; say which by its ref, or with `nth 1` and so on",
                several.len()
            ),
            near: several.iter().take(6).map(|node| shown(node)).collect(),
        }),
    }
}

/// Puts values of the record that was waited for last in: `{record.codes.0}`.
fn filled_in(value: &str, record: &Value) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), value);
    while let Some(at) = rest.find("{record.") {
        let Some(end) = rest[at..].find('}') else { break };
        let path = &rest[at + "{record.".len()..at + end];
        let pointer = format!("/{}", path.replace('.', "/"));
        let found = record.pointer(&pointer);
        let text = match found {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => return Err(format!("the record that was waited for has no `{}`", cut(path, 60))),
        };
        filled.push_str(&rest[..at]);
        filled.push_str(&text);
        rest = &rest[at + end + 1..];
    }
    Ok(filled + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_record_are_filled_in() {
        let record = json!({ "codes": ["314159"], "links": ["https://a/x"], "size": 7 });
        assert_eq!(filled_in("code {record.codes.0}!", &record).unwrap(), "code 314159!");
        assert_eq!(filled_in("{record.size}{record.links.0}", &record).unwrap(), "7https://a/x");
        assert_eq!(filled_in("{other} {record", &record).unwrap(), "{other} {record");
        assert!(filled_in("{record.codes.1}", &record).is_err());
        assert!(filled_in("{record.codes}", &Value::Null).is_err());
    }

    #[test]
    fn each_step_has_its_own_time() {
        let script = "[[step]]\nclick = \"button 'Pay'\"\n[[step]]\nwait = \"text 'Thank you'\"\ntimeout = \"45s\"\n";
        let steps = crate::script::parse(script).unwrap();
        assert_eq!(patience(&steps), PATIENCE + Duration::from_secs(45));
        assert_eq!(patience(&[]), Duration::ZERO);
    }

    #[test]
    fn a_ref_becomes_a_name_that_lasts() {
        let node = |element, name: &str| AxNode {
            element,
            role: "link".into(),
            name: name.into(),
            ..AxNode::default()
        };
        let nodes = [node(1, "Edit"), node(2, "Edit"), node(3, "New"), node(4, "")];
        let named = |element| by_name(element, &nodes).map(|locator| locator.to_string());
        assert_eq!(named(2).as_deref(), Some("link 'Edit' nth 2"));
        assert_eq!(named(3).as_deref(), Some("link 'New'"));
        assert_eq!((named(4), named(9)), (None, None));
    }

    #[test]
    fn one_of_several_is_never_a_guess() {
        let node = |element| AxNode {
            element,
            role: "button".into(),
            name: "Pay".into(),
            ..AxNode::default()
        };
        let (a, b) = (node(1), node(2));
        let on: Locator = "button 'Pay'".parse().unwrap();
        assert_eq!(chosen(&on, &[&a], false).unwrap(), Some(&a));
        assert_eq!(chosen(&on, &[&a, &b], true).unwrap(), Some(&a));
        let several = chosen(&on, &[&a, &b], false).unwrap_err();
        assert_eq!(several.near, ["button 'Pay' e1", "button 'Pay' e2"]);
        let second: Locator = "button 'Pay' nth 2".parse().unwrap();
        assert_eq!(chosen(&second, &[&a, &b], false).unwrap(), Some(&b));
    }
}
