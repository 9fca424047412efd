//! Answers from an OpenAPI 3.0 or 3.1 description, as JSON.
//!
//! Requests are validated against parameters and bodies; answers are the description's examples, or generated from its
//! schemas. YAML is not supported: a vendor's YAML can be converted once, and a YAML parser would be a dependency with
//! a history of its own.

mod example;
mod validate;

use hothouse_model::config::{Complaint, Problem};
use serde_json::{Map, Value, json};

use crate::{
    answer::{Answer, Match},
    fixture::source::MAX_BYTES,
    path::{Parameters, PathTemplate, PathTree},
    request::{Call, Content},
};

/// The maximum size of a description; those of large vendors have several megabytes.
const LARGEST: usize = 16 * MAX_BYTES;

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "patch", "head", "options"];

/// A mock built from a description.
#[derive(Debug)]
pub struct OpenApiMock {
    file: String,
    document: Value,
    operations: Vec<Operation>,
    paths: PathTree,
}

#[derive(Debug)]
struct Operation {
    /// In upper case.
    method: String,
    /// Includes the path in the URL of the first server.
    path: PathTemplate,
    /// The key in `paths`, and the method as written there.
    place: (String, &'static str),
    name: String,
}

impl OpenApiMock {
    /// Returns whether bytes are a description, not a fixture.
    pub fn is_description(bytes: &[u8]) -> bool {
        let head = &bytes[..bytes.len().min(4096)];
        let head = String::from_utf8_lossy(head);
        head.contains("\"openapi\"") || head.contains("\"swagger\"")
    }

    /// Parses a description.
    pub fn load(file: &str, bytes: &[u8]) -> Result<Self, Problem> {
        let refuse = |line, message: String| {
            let Complaint { message, suggestion, allowed } = Complaint::new(message);
            let file = file.to_owned();
            Problem { file, line, column: 1, key: String::new(), message, suggestion, allowed }
        };
        if bytes.len() > LARGEST {
            return Err(refuse(1, format!("the description has more than {LARGEST} bytes")));
        }
        let document: Value = serde_json::from_slice(bytes)
            .map_err(|error| refuse(error.line(), format!("not JSON: {error}")))?;
        match document.get("openapi").and_then(Value::as_str) {
            Some(version) if version.starts_with("3.0") || version.starts_with("3.1") => {}
            Some(version) => {
                return Err(refuse(1, format!("OpenAPI {version} is not read; 3.0 and 3.1 are")));
            }
            None => return Err(refuse(1, "not OpenAPI 3: `openapi` is missing".to_owned())),
        }
        let operations = operations(&document).map_err(|message| refuse(1, message))?;
        if operations.is_empty() {
            return Err(refuse(1, "the description has no operations under `paths`".to_owned()));
        }
        let mut paths = PathTree::default();
        for (number, operation) in operations.iter().enumerate() {
            paths.insert(&operation.path, number);
        }
        Ok(Self { file: file.to_owned(), document, operations, paths })
    }

    /// Returns the file name.
    pub fn name(&self) -> &str {
        &self.file
    }

    /// Returns all operations, for near misses.
    pub fn routes(&self) -> impl Iterator<Item = (&str, PathTemplate)> {
        self.operations.iter().map(|operation| (operation.method.as_str(), operation.path.clone()))
    }

    /// Answers a call, if the description has an operation for it.
    pub fn answer(&self, call: &Call<'_>) -> Option<Answer> {
        let found = self.paths.find(&call.segments).into_iter();
        let fitting = found.map(|number| &self.operations[number]);
        // `/users/me` before `/users/{id}`.
        let operation = fitting
            .filter(|operation| operation.method == call.request.method)
            .max_by_key(|operation| operation.path.weight())?;
        let parameters = operation.path.matches(&call.segments)?;
        let description = self.document.get("paths")?.get(&operation.place.0)?;
        let details = description.get(operation.place.1)?;
        let matched = Match::Fixture(format!("{}#{}", self.file, operation.name));
        let problems = self.problems(call, &parameters, description, details);
        if !problems.is_empty() {
            let message = format!("the request does not fit {}", operation.name);
            let told = json!({ "error": { "type": "invalid_request", "message": message, "problems": problems } });
            return Some(Answer::json(400, &told, matched));
        }
        Some(self.success(details, matched))
    }

    fn success(&self, details: &Value, matched: Match) -> Answer {
        let empty = Map::new();
        let responses = details.get("responses").and_then(Value::as_object).unwrap_or(&empty);
        let good = responses.iter().find(|(status, _)| status.starts_with('2'));
        let Some((status, response)) = good.or_else(|| responses.get_key_value("default")) else {
            return Answer::empty(204, matched);
        };
        // A description may use any key; only valid HTTP statuses are sent.
        let status = status.replace("XX", "00").parse().ok();
        let status = status.filter(|status| (200..600).contains(status)).unwrap_or(200);
        let response = self.followed(response);
        let content = response.get("content").and_then(Value::as_object).unwrap_or(&empty);
        let json = content.iter().find(|(kind, _)| kind.contains("json"));
        let Some((_, media)) = json else { return Answer::empty(status, matched) };
        Answer::json(status, &self.example_of(media), matched)
    }

    fn problems(
        &self,
        call: &Call<'_>,
        parameters: &Parameters,
        description: &Value,
        details: &Value,
    ) -> Vec<String> {
        let mut problems = Vec::new();
        let lists = [description.get("parameters"), details.get("parameters")];
        for parameter in lists.into_iter().flatten().filter_map(Value::as_array).flatten() {
            let parameter = self.followed(parameter);
            problems.extend(self.parameter_problem(parameter, call, parameters));
        }
        if let Some(body) = details.get("requestBody") {
            problems.extend(self.body_problems(self.followed(body), call));
        }
        problems.truncate(20);
        problems
    }

    fn parameter_problem(
        &self,
        parameter: &Value,
        call: &Call<'_>,
        path: &Parameters,
    ) -> Vec<String> {
        let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default();
        let place = parameter.get("in").and_then(Value::as_str).unwrap_or_default();
        let found = match place {
            "query" => call.query(name),
            "header" => call.request.header(name),
            "path" => path.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str()),
            _ => return Vec::new(),
        };
        let is_required = parameter.get("required") == Some(&Value::Bool(true));
        let (Some(text), Some(schema)) = (found, parameter.get("schema")) else {
            let missing = is_required && found.is_none();
            return missing
                .then(|| format!("{place} parameter `{name}` is missing"))
                .into_iter()
                .collect();
        };
        self.check_text(text, schema, &format!("{place} parameter `{name}`"))
    }

    fn body_problems(&self, body: &Value, call: &Call<'_>) -> Vec<String> {
        let is_required = body.get("required") == Some(&Value::Bool(true));
        let media = body.get("content").and_then(Value::as_object);
        let schema = |part: &str| {
            let found = media?.iter().find(|(kind, _)| kind.contains(part))?;
            found.1.get("schema")
        };
        match &call.content {
            Content::Empty if is_required => vec!["the body is missing".to_owned()],
            Content::Broken(why) => vec![why.clone()],
            Content::Json(tree) => {
                schema("json").map_or_else(Vec::new, |schema| self.check(tree, schema, "body"))
            }
            Content::Form(tree) => {
                schema("form").map_or_else(Vec::new, |schema| self.check_form(tree, schema, "body"))
            }
            _ => Vec::new(),
        }
    }

    /// Follows a reference within the document, a bounded number of times.
    fn followed<'v>(&'v self, mut value: &'v Value) -> &'v Value {
        for _ in 0..16 {
            let Some(place) = value.get("$ref").and_then(Value::as_str) else { return value };
            let Some(found) =
                place.strip_prefix('#').and_then(|place| self.document.pointer(place))
            else {
                return &Value::Null;
            };
            value = found;
        }
        &Value::Null
    }
}

/// Generates a value that fits a JSON Schema, which may refer to parts of itself.
pub fn example_of_schema(schema: &Value) -> Value {
    let document = schema.clone();
    let (file, operations, paths) = (String::new(), Vec::new(), PathTree::default());
    let mock = OpenApiMock { file, document, operations, paths };
    mock.example_of(&json!({ "schema": schema }))
}

fn operations(document: &Value) -> Result<Vec<Operation>, String> {
    let base = document.pointer("/servers/0/url").and_then(Value::as_str).unwrap_or_default();
    let base = base
        .split_once("://")
        .map_or(base, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    let base = base.trim_end_matches('/');
    let mut operations = Vec::new();
    for (path, description) in
        document.get("paths").and_then(Value::as_object).into_iter().flatten()
    {
        let template = PathTemplate::parse(&whole_segments(&format!("{base}{path}")));
        let template = template.map_err(|why| format!("the path `{path}` {why}"))?;
        for method in METHODS {
            let Some(details) = description.get(method) else { continue };
            let id = details.get("operationId").and_then(Value::as_str);
            let upper = method.to_ascii_uppercase();
            operations.push(Operation {
                name: id.map_or_else(|| format!("{upper} {path}"), str::to_owned),
                method: upper,
                path: template.clone(),
                place: (path.clone(), method),
            });
        }
    }
    Ok(operations)
}

/// Turns each segment that is a parameter only in part, such as `{base}...{head}`, into one parameter.
fn whole_segments(path: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let parts = path.split('/').enumerate().map(|(at, part)| {
        let inner = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
        let is_whole = inner.is_some_and(|name| !name.is_empty() && name.chars().all(is_name));
        match part.contains(['{', '}']) && !is_whole {
            true => format!("{{part{at}}}"),
            false => part.to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join("/")
}
