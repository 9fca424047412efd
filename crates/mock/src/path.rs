//! Path templates, such as `/v1/customers/{id}` and `/files/{rest*}`, and the tree that finds them.

use std::{borrow::Cow, collections::HashMap, fmt};

use hothouse_model::config::rules::nearest;

/// One segment of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Parameter(String),
    /// The rest of the path, which may be empty.
    Rest(String),
}

/// A path template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTemplate {
    text: String,
    segments: Vec<Segment>,
}

/// The parameters of a template, with their values in a path.
pub type Parameters = Vec<(String, String)>;

impl PathTemplate {
    /// Parses a template; the error is a sentence without its subject.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with('/') {
            return Err("must begin with `/`".to_owned());
        }
        let parts = crate::request::segments(text);
        let mut segments = Vec::with_capacity(parts.len());
        for (at, part) in parts.iter().enumerate() {
            let segment = segment(part)?;
            if matches!(segment, Segment::Rest(_)) && at + 1 < parts.len() {
                return Err(format!("has `{part}` before its end"));
            }
            segments.push(segment);
        }
        Ok(Self { text: text.to_owned(), segments })
    }

    /// Returns whether the template matches every path.
    pub fn is_any(&self) -> bool {
        matches!(self.segments.first(), Some(Segment::Rest(_)))
    }

    /// Returns the names of the parameters.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Literal(_) => None,
            Segment::Parameter(name) | Segment::Rest(name) => Some(name.as_str()),
        })
    }

    /// Matches a path; returns its parameters.
    pub fn matches(&self, path: &[Cow<'_, str>]) -> Option<Parameters> {
        let mut found = Vec::new();
        for (at, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Rest(name) => {
                    let rest = path.get(at..)?.join("/");
                    found.push((name.clone(), rest));
                    return Some(found);
                }
                Segment::Literal(literal) if literal == path.get(at)? => {}
                Segment::Literal(_) => return None,
                Segment::Parameter(name) => {
                    found.push((name.clone(), path.get(at)?.clone().into_owned()));
                }
            }
        }
        (path.len() == self.segments.len()).then_some(found)
    }

    /// Returns how far a path is from the template: a mistyped segment is near; another segment, or
    /// one too many, is far.
    pub fn distance(&self, path: &[Cow<'_, str>]) -> usize {
        const OTHER: usize = 4;
        let differs = self.segments.iter().zip(path).map(|(segment, part)| match segment {
            Segment::Literal(literal) if literal != part.as_ref() => {
                nearest(part, [literal.as_str()]).map_or(OTHER, |_| 1)
            }
            _ => 0,
        });
        let has_rest = matches!(self.segments.last(), Some(Segment::Rest(_)));
        let extra = if has_rest { 0 } else { self.segments.len().abs_diff(path.len()) };
        differs.sum::<usize>() + extra * OTHER
    }

    /// Returns how specific the template is: literals weigh more than parameters, the rest least.
    pub fn weight(&self) -> usize {
        let weigh = |segment: &Segment| match segment {
            Segment::Literal(_) => 3,
            Segment::Parameter(_) => 2,
            Segment::Rest(_) => 0,
        };
        self.segments.iter().map(weigh).sum()
    }
}

impl fmt::Display for PathTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn segment(part: &str) -> Result<Segment, String> {
    let Some(inner) = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) else {
        return match part.contains(['{', '}']) {
            true => Err(format!("has `{part}`; a parameter is a whole segment, such as `{{id}}`")),
            false => Ok(Segment::Literal(part.to_owned())),
        };
    };
    let (name, is_rest) = match inner.strip_suffix('*') {
        Some(name) => (name, true),
        None => (inner, false),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(format!("has `{part}`; a parameter is named by letters, digits, `_` and `-`"));
    }
    let name = name.to_owned();
    Ok(if is_rest { Segment::Rest(name) } else { Segment::Parameter(name) })
}

/// Finds the templates that may match a path without trying each of them.
#[derive(Clone, Debug, Default)]
pub struct PathTree {
    literals: HashMap<String, PathTree>,
    parameter: Option<Box<PathTree>>,
    rest: Vec<usize>,
    here: Vec<usize>,
}

impl PathTree {
    /// Adds a template under a number.
    pub fn insert(&mut self, template: &PathTemplate, number: usize) {
        let mut tree = self;
        for segment in &template.segments {
            tree = match segment {
                Segment::Literal(literal) => tree.literals.entry(literal.clone()).or_default(),
                Segment::Parameter(_) => tree.parameter.get_or_insert_default(),
                Segment::Rest(_) => return tree.rest.push(number),
            };
        }
        tree.here.push(number);
    }

    /// Returns the numbers of all templates that match a path.
    pub fn find(&self, path: &[Cow<'_, str>]) -> Vec<usize> {
        let mut found = Vec::new();
        self.collect(path, &mut found);
        found
    }

    fn collect(&self, path: &[Cow<'_, str>], found: &mut Vec<usize>) {
        found.extend(&self.rest);
        let Some((first, path)) = path.split_first() else {
            found.extend(&self.here);
            return;
        };
        if let Some(tree) = self.literals.get(first.as_ref()) {
            tree.collect(path, found);
        }
        if let Some(tree) = &self.parameter {
            tree.collect(path, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::segments;

    #[test]
    fn templates_match_paths() {
        for (template, path, expected) in [
            ("/a", "/a", Some(vec![])),
            ("/a", "/a/", Some(vec![])),
            ("/a", "/b", None),
            ("/a/{id}", "/a/7", Some(vec![("id", "7")])),
            ("/a/{id}", "/a", None),
            ("/a/{id}", "/a/7/b", None),
            ("/a/{rest*}", "/a/7/b", Some(vec![("rest", "7/b")])),
            ("/a/{rest*}", "/a", Some(vec![("rest", "")])),
        ] {
            let parsed = PathTemplate::parse(template).unwrap();
            let found = parsed.matches(&segments(path));
            let expected = expected.map(|pairs| {
                pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{template} {path}");
            let mut tree = PathTree::default();
            tree.insert(&parsed, 3);
            assert_eq!(tree.find(&segments(path)).len(), usize::from(expected.is_some()));
        }
    }

    #[test]
    fn bad_templates_are_refused() {
        for bad in ["a", "/{}", "/x{id}", "/{a*}/b", "/{a b}"] {
            assert!(PathTemplate::parse(bad).is_err(), "{bad}");
        }
    }
}
