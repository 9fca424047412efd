//! Paginated lists, and searches.

use serde_json::{Value, json};

use super::{
    api::{Api, id_of},
    error::{Done, StripeError},
    resources,
};

/// Returns a list object.
pub(super) fn of(url: &str, data: Vec<Value>, has_more: bool) -> Value {
    json!({ "object": "list", "data": data, "has_more": has_more, "url": url })
}

/// Returns a page of the objects of a kind that match the parameters and `filters`.
pub(super) fn list(api: &Api<'_, '_>, kind: &str, filters: &[(&str, &str)]) -> Done {
    let limit = limit(api)?;
    let mut wanted = filters_of(api);
    wanted.extend(filters.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))));
    let fits = |object: &&Value| wanted.iter().all(|(name, value)| matches(object, name, value));
    let objects: Vec<&Value> = api.all(kind).into_iter().filter(fits).collect();
    let place = |id: &str, param: &str| {
        let found = objects.iter().position(|object| id_of(object) == id);
        found.ok_or_else(|| StripeError::not_found(kind, id, param))
    };
    let range = if let Some(id) = api.text("starting_after") {
        let start = place(id, "starting_after")? + 1;
        start..(start + limit).min(objects.len())
    } else if let Some(id) = api.text("ending_before") {
        let end = place(id, "ending_before")?;
        end.saturating_sub(limit)..end
    } else {
        0..limit.min(objects.len())
    };
    let has_more = match api.text("ending_before") {
        Some(_) => range.start > 0,
        None => range.end < objects.len(),
    };
    let data = objects[range].iter().map(|object| (*object).clone()).collect();
    Ok(of(&format!("/v1/{}", resources::path_of(kind)), data, has_more))
}

fn limit(api: &Api<'_, '_>) -> Done<usize> {
    let limit = api.integer("limit")?.unwrap_or(10);
    match usize::try_from(limit) {
        Ok(limit) if (1..=100).contains(&limit) => Ok(limit),
        _ => {
            let message = "This value must be between 1 and 100 (inclusive).";
            Err(StripeError::invalid(message).code("parameter_invalid_integer").param("limit"))
        }
    }
}

/// Returns the parameters that filter a list.
fn filters_of(api: &Api<'_, '_>) -> Vec<(String, Value)> {
    let paging = ["limit", "starting_after", "ending_before", "expand", "query", "page"];
    let narrowing = api.params.iter().filter(|(name, _)| !paging.contains(&name.as_str()));
    narrowing.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn matches(object: &Value, name: &str, wanted: &Value) -> bool {
    match (name, wanted) {
        // Ranges: `created[gte]=…`.
        (_, Value::Object(bounds)) if object[name].is_i64() => {
            bounds.iter().all(|(bound, value)| {
                let limit = value.as_str().and_then(|text| text.parse::<i64>().ok());
                let (Some(found), Some(limit)) = (object[name].as_i64(), limit) else {
                    return false;
                };
                match bound.as_str() {
                    "gt" => found > limit,
                    "gte" => found >= limit,
                    "lt" => found < limit,
                    "lte" => found <= limit,
                    _ => false,
                }
            })
        }
        ("types", Value::Array(types)) => types.contains(&object["type"]),
        ("lookup_keys", Value::Array(keys)) => keys.contains(&object["lookup_key"]),
        ("status", Value::String(all)) if all == "all" => true,
        (_, Value::String(text)) => match &object[name] {
            Value::String(found) => found == text,
            Value::Null => false,
            Value::Object(entries) => entries.get("id").and_then(Value::as_str) == Some(text),
            other => {
                let found = other.to_string();
                found == *text
            }
        },
        // Values that cannot be compared do not filter.
        _ => true,
    }
}

/// Searches: `email:'a@b.example' AND metadata['order']:'7'`.
pub(super) fn search(api: &Api<'_, '_>, kind: &str) -> Done {
    let query = api.required("query")?;
    let takes_any = query.contains(" OR ");
    let joint = if takes_any { " OR " } else { " AND " };
    let clauses: Vec<Clause<'_>> = query.split(joint).map(Clause::parse).collect::<Done<_>>()?;
    let limit = limit(api)?;
    let start = api.text("page").and_then(|page| page.parse::<usize>().ok()).unwrap_or(0);
    let fits = |object: &&Value| match takes_any {
        true => clauses.iter().any(|clause| clause.fits(object)),
        false => clauses.iter().all(|clause| clause.fits(object)),
    };
    let found: Vec<&Value> = api.all(kind).into_iter().filter(fits).collect();
    let end = start.saturating_add(limit).min(found.len());
    let data: Vec<Value> =
        found.get(start..end).unwrap_or_default().iter().map(|o| (*o).clone()).collect();
    let has_more = end < found.len();
    let next = has_more.then(|| end.to_string());
    Ok(json!({
        "object": "search_result", "data": data, "has_more": has_more, "next_page": next,
        "url": format!("/v1/{}/search", resources::path_of(kind)),
    }))
}

struct Clause<'q> {
    field: &'q str,
    key: Option<&'q str>,
    comparison: &'q str,
    value: &'q str,
    is_negated: bool,
}

impl<'q> Clause<'q> {
    fn parse(text: &'q str) -> Done<Self> {
        let text = text.trim();
        let (is_negated, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text),
        };
        let wrong = || {
            let message = "We were unable to parse your search query. Try using the format `metadata['key']:'value'` or `field:'value'`.";
            StripeError::invalid(message).param("query")
        };
        let (name, key, rest) = match text.split_once('[') {
            Some((name, rest)) if name == "metadata" => {
                let (key, rest) = rest.split_once(']').ok_or_else(wrong)?;
                (name, Some(key.trim_matches(['\'', '"'])), rest)
            }
            _ => {
                let at = text.find([':', '~', '<', '>', '=']).ok_or_else(wrong)?;
                (&text[..at], None, &text[at..])
            }
        };
        let end = rest.find(|c: char| !":~<>=".contains(c)).ok_or_else(wrong)?;
        let (comparison, value) = rest.split_at(end);
        let known = [":", "~", "<", ">", "<=", ">="].contains(&comparison);
        let value = value.trim().trim_matches(['\'', '"']);
        match known {
            true => Ok(Self { field: name, key, comparison, value, is_negated }),
            false => Err(wrong()),
        }
    }

    fn fits(&self, object: &Value) -> bool {
        let found = match self.key {
            Some(key) => &object[self.field][key],
            None => &object[self.field],
        };
        let text = match found {
            Value::String(text) => text.to_lowercase(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let figures = || Some((found.as_i64()?, self.value.parse::<i64>().ok()?));
        let fits = match self.comparison {
            ":" if self.value == "null" => found.is_null(),
            ":" => !found.is_null() && text == self.value.to_lowercase(),
            "~" => text.contains(&self.value.to_lowercase()),
            "<" => figures().is_some_and(|(a, b)| a < b),
            ">" => figures().is_some_and(|(a, b)| a > b),
            "<=" => figures().is_some_and(|(a, b)| a <= b),
            _ => figures().is_some_and(|(a, b)| a >= b),
        };
        fits != self.is_negated
    }
}
