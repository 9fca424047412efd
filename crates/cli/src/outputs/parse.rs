//! The notation of `outputs.txt`.

use std::fmt;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Time,
    Int,
    Number,
    Bool,
    Object,
    Any,
    Null,
    /// A type from this file or from the API.
    Named(String),
    List(Box<Self>),
    Map(Box<Self>),
    OrNull(Box<Self>),
    Either(Vec<Self>),
    Fields {
        base: Option<Box<Self>>,
        fields: Vec<Field>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) optional: bool,
    pub(super) value: Type,
}

impl Type {
    /// Returns its alternatives.
    pub(super) fn either(&self) -> Vec<&Self> {
        match self {
            Self::Either(all) => all.iter().collect(),
            one => vec![one],
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("text"),
            Self::Time => f.write_str("time"),
            Self::Int => f.write_str("int"),
            Self::Number => f.write_str("number"),
            Self::Bool => f.write_str("bool"),
            Self::Object => f.write_str("object"),
            Self::Any => f.write_str("any"),
            Self::Null => f.write_str("null"),
            Self::Named(name) => f.write_str(name),
            Self::List(item) => write!(f, "[{item}]"),
            Self::Map(value) => write!(f, "{{*: {value}}}"),
            Self::OrNull(inner) => write!(f, "{inner}?"),
            Self::Either(all) => {
                let all: Vec<_> = all.iter().map(ToString::to_string).collect();
                f.write_str(&all.join(" | "))
            }
            Self::Fields { base, fields } => {
                let base = base.iter().map(|base| format!("...{base}"));
                let fields = fields.iter().map(|Field { name, optional, value }| {
                    format!("{name}{}: {value}", if *optional { "?" } else { "" })
                });
                write!(f, "{{ {} }}", base.chain(fields).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Parses all lines: names, each with its type.
pub(super) fn lines(text: &str) -> Result<Vec<(String, Type)>, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let read = |line: &str| {
        let (name, written) = line.split_once(" = ").ok_or_else(|| format!("no ` = `: {line}"))?;
        let mut parser = Parser { rest: written };
        let found = parser.either().ok_or_else(|| format!("near `{}`: {line}", parser.rest))?;
        match parser.rest.trim().is_empty() {
            true => Ok((name.to_owned(), found)),
            false => Err(format!("`{}` is left over: {line}", parser.rest)),
        }
    };
    lines.map(read).collect()
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn takes(&mut self, sign: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> Option<&'a str> {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    fn either(&mut self) -> Option<Type> {
        let mut all = vec![self.one()?];
        while self.takes("|") {
            all.push(self.one()?);
        }
        match all.len() {
            1 => all.pop(),
            _ => Some(Type::Either(all)),
        }
    }

    fn one(&mut self) -> Option<Type> {
        let found = if self.takes("[") {
            let item = self.either()?;
            self.takes("]").then(|| Type::List(Box::new(item)))?
        } else if self.takes("{") {
            self.fields()?
        } else {
            self.takes("@");
            named(self.word()?)
        };
        Some(if self.takes("?") { Type::OrNull(Box::new(found)) } else { found })
    }

    fn fields(&mut self) -> Option<Type> {
        if self.takes("*") {
            let value = self.takes(":").then(|| self.either())??;
            return self.takes("}").then(|| Type::Map(Box::new(value)));
        }
        let (mut base, mut fields) = (None, Vec::new());
        loop {
            if self.takes("...") {
                base = Some(Box::new(self.one()?));
            } else {
                let name = self.word()?.to_owned();
                let optional = self.takes("?");
                let value = self.takes(":").then(|| self.either())??;
                fields.push(Field { name, optional, value });
            }
            if self.takes("}") {
                return Some(Type::Fields { base, fields });
            }
            if !self.takes(",") {
                return None;
            }
        }
    }
}

fn named(word: &str) -> Type {
    match word {
        "text" => Type::Text,
        "time" => Type::Time,
        "int" => Type::Int,
        "number" => Type::Number,
        "bool" => Type::Bool,
        "object" => Type::Object,
        "any" => Type::Any,
        "null" => Type::Null,
        name => Type::Named(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notation_is_read_and_written() {
        for line in [
            "text",
            "[Record]",
            "{*: int}",
            "{ a: text, b?: [{ c: int? }] }",
            "{ ...Mail, text: text? } | [Mail] | null",
        ] {
            let all = lines(&format!("# a comment\n\nname = {line}\n")).unwrap();
            assert_eq!((&*all[0].0, all[0].1.to_string()), ("name", line.to_owned()));
        }
        for wrong in ["no sign", "a = {", "a = { b }", "a = [text", "a = text]", "a = !"] {
            assert!(lines(wrong).is_err(), "{wrong}");
        }
    }
}
