//! Frames of a page: what they show, and where their elements are. All of them live in the page's own process (see
//! `launch`), so one session reaches them.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Page, outcome};
use crate::{
    accessibility::{self, AxNode},
    capture::text,
    client::CallError,
};

/// The maximum number of frames of a page that are read.
const FRAMES_MOST: usize = 20;

/// A frame below the main one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) url: String,
}

/// Reads the frames below the main one, in the order of the page.
fn below(tree: &Value) -> Vec<Frame> {
    let mut open: Vec<&Value> = children(tree).rev().collect();
    let mut found = Vec::new();
    while let Some(node) = open.pop() {
        if found.len() >= FRAMES_MOST {
            break;
        }
        let frame = &node["frame"];
        let [id, name, url] = ["id", "name", "url"].map(|key| text(&frame[key]).to_owned());
        if !id.is_empty() {
            found.push(Frame { id, name, url });
        }
        open.extend(children(node).rev());
    }
    found
}

fn children(node: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    node["childFrames"].as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

/// Returns the node that introduces a frame: its name, or its URL.
fn heading(frame: &Frame) -> AxNode {
    let name = match frame.name.is_empty() {
        true => frame.url.split(['?', '#']).next().unwrap_or_default(),
        false => &frame.name,
    };
    let name = hothouse_model::browse::cut(name, 200);
    AxNode { role: "frame".into(), name, depth: 1, ..AxNode::default() }
}

impl Page {
    /// Lists the frames below the main one; empty if the page does not answer.
    pub(crate) async fn frames(&self, deadline: Instant) -> Vec<Frame> {
        let told = self.call("Page.getFrameTree", json!({}), deadline).await;
        told.map(|told| below(&told["frameTree"])).unwrap_or_default()
    }

    /// Reads the accessibility tree, with those of its frames.
    pub async fn nodes(&self, deadline: Instant) -> Result<Vec<AxNode>, CallError> {
        let whole = self.call("Accessibility.getFullAXTree", json!({}), deadline);
        let (whole, frames) = tokio::join!(whole, self.frames(deadline));
        let mut nodes = accessibility::read(&whole?);
        let trees = frames.iter().map(|frame| {
            self.call("Accessibility.getFullAXTree", json!({ "frameId": frame.id }), deadline)
        });
        for (frame, tree) in frames.iter().zip(join_all(trees).await) {
            let Ok(tree) = tree else { continue };
            let own = accessibility::read(&tree).into_iter().map(|node| AxNode {
                frame: frame.id.clone(),
                depth: node.depth + 1,
                ..node
            });
            nodes.push(heading(frame));
            nodes.extend(own);
        }
        Ok(nodes)
    }

    /// Returns the isolated world of a frame; of the main one for an empty id.
    pub(super) async fn world_of(
        &self,
        frame: &str,
        deadline: Instant,
    ) -> Result<Value, CallError> {
        let frame = if frame.is_empty() { &self.frame } else { frame };
        let world = json!({ "frameId": frame, "worldName": "hothouse" });
        let world = self.call("Page.createIsolatedWorld", world, deadline).await?;
        Ok(world["executionContextId"].clone())
    }

    /// Evaluates an expression in a frame; returns the handle of the resulting element, or the plain value.
    pub(crate) async fn evaluate_object(
        &self,
        source: &str,
        frame: &str,
        deadline: Instant,
    ) -> Result<Result<String, Value>, CallError> {
        let world = self.world_of(frame, deadline).await?;
        let params = json!({ "expression": source, "contextId": world });
        let told = self.call("Runtime.evaluate", params, deadline).await?;
        let result = outcome(&told)?;
        Ok(result["objectId"].as_str().map(str::to_owned).ok_or_else(|| result["value"].clone()))
    }

    /// Returns the handle of an element by its number, in the frame that has it.
    pub(crate) async fn resolve(
        &self,
        element: i64,
        frame: &str,
        deadline: Instant,
    ) -> Result<String, CallError> {
        let world = self.world_of(frame, deadline).await?;
        let params = json!({ "backendNodeId": element, "executionContextId": world });
        let told = self.call("DOM.resolveNode", params, deadline).await?;
        Ok(text(&told["object"]["objectId"]).to_owned())
    }

    /// Returns the handle of an element by its number, whichever frame has it.
    pub(crate) async fn resolve_anywhere(&self, element: i64, deadline: Instant) -> Option<String> {
        let main = self.resolve(element, "", deadline).await;
        if let Some(object) = handle(main) {
            return Some(object);
        }
        for frame in self.frames(deadline).await {
            if let Some(object) = handle(self.resolve(element, &frame.id, deadline).await) {
                return Some(object);
            }
        }
        None
    }

    /// Returns the center of an element, relative to the window.
    pub(crate) async fn middle_of(&self, object: &str, deadline: Instant) -> Option<(f64, f64)> {
        let params = json!({ "objectId": object });
        self.call("DOM.scrollIntoViewIfNeeded", params.clone(), deadline).await.ok();
        let told = self.call("DOM.getContentQuads", params, deadline).await.ok()?;
        middle(&told["quads"][0])
    }
}

/// Returns a valid handle: in the world of another frame an element is null, which has no handle.
fn handle(resolved: Result<String, CallError>) -> Option<String> {
    resolved.ok().filter(|object| !object.is_empty())
}

/// Returns the center of four corners.
fn middle(quad: &Value) -> Option<(f64, f64)> {
    let numbers: Vec<f64> = quad.as_array()?.iter().filter_map(Value::as_f64).collect();
    let corners = numbers.as_chunks::<2>().0;
    if corners.len() != 4 || numbers.iter().any(|number| !number.is_finite()) {
        return None;
    }
    let mean = |side: usize| corners.iter().map(|corner| corner[side]).sum::<f64>() / 4.0;
    Some((mean(0), mean(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_listed_in_order_and_within_bounds() {
        let frame = |id: &str, below: Vec<Value>| json!({ "frame": { "id": id, "url": "https://a/?k=1" }, "childFrames": below });
        let tree = frame("main", vec![frame("a", vec![frame("b", vec![])]), frame("c", vec![])]);
        let found = below(&tree);
        let ids: Vec<&str> = found.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        assert_eq!(heading(&found[0]).name, "https://a/");
        let many = frame("main", (0..500).map(|n| frame(&n.to_string(), vec![])).collect());
        assert_eq!(below(&many).len(), FRAMES_MOST);
        assert!(below(&json!({ "childFrames": 7 })).is_empty());
    }

    #[test]
    fn the_middle_of_an_element_needs_four_corners() {
        assert_eq!(middle(&json!([0, 0, 10, 0, 10, 4, 0, 4])), Some((5.0, 2.0)));
        for wrong in [json!([]), json!([1, 2]), json!(null), json!("x")] {
            assert_eq!(middle(&wrong), None, "{wrong}");
        }
    }
}
