//! Describes the configuration in one table of keys, which drives the walker's checks, the merge of
//! layers and the JSON Schema.

use hothouse_model::config::rules::TextRule;

/// What is allowed at a key.
pub(super) enum Shape {
    Text(&'static TextRule),
    Choice(&'static [&'static str]),
    /// A whole number within limits, both inclusive.
    Integer(i64, i64),
    /// A number above the first limit, and at most the second.
    Number(f64, f64),
    Switch,
    /// A text, a number or a boolean.
    Scalar,
    /// Only `true`: its absence means `false`.
    Yes,
    List(&'static List),
    Table(&'static Table),
    Map(&'static Map),
}

/// A list of values.
pub(super) struct List {
    pub item: Shape,
    /// A single value may stand for a list of one.
    pub single: bool,
    /// Layers add to the list instead of replacing it.
    pub append: bool,
}

/// A table whose keys are known.
pub(super) struct Table {
    pub keys: &'static [Key],
    /// A plain value is shorthand for the table with only this key.
    pub shorthand: Option<&'static str>,
    /// A higher layer replaces the whole table rather than single keys.
    pub whole: bool,
    /// Defaults fill the table if it is given, but do not create it.
    pub optional: bool,
    /// Keys that must be set after all layers are merged.
    pub required: &'static [&'static str],
    /// Keys of which at least one must be set in the same file.
    pub any_of: &'static [&'static str],
    /// Keys of which exactly one must be set; setting one in a higher layer unsets the others.
    pub one_of: &'static [&'static str],
}

/// A table whose keys are names that the user chooses.
pub(super) struct Map {
    /// What an entry is called in messages.
    pub entry: &'static str,
    pub name: &'static TextRule,
    pub value: Shape,
    /// The maximum number of entries, which limits the cost of a hostile file.
    pub most: usize,
}

impl Map {
    /// Describes a table of up to a few hundred entries.
    pub(super) const fn of(entry: &'static str, name: &'static TextRule, value: Shape) -> Self {
        Self { entry, name, value, most: 256 }
    }
}

/// One key of a table.
pub(super) struct Key {
    pub name: &'static str,
    pub shape: Shape,
    /// What the key is for; becomes part of the JSON Schema.
    pub about: &'static str,
}

impl Table {
    /// Describes a table of these keys without further rules, for use with `..`.
    pub(super) const fn of(keys: &'static [Key]) -> Self {
        Self {
            keys,
            shorthand: None,
            whole: false,
            optional: false,
            required: &[],
            any_of: &[],
            one_of: &[],
        }
    }

    /// Finds a key by name.
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Lists the names of all keys.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.keys.iter().map(|key| key.name)
    }
}

impl Shape {
    /// Returns what is expected, for "expected …, found …".
    pub(super) fn expected(&self) -> String {
        match self {
            Self::Text(rule) => rule.what.to_owned(),
            Self::Choice(_) => "one of the allowed words".to_owned(),
            Self::Integer(..) => "a whole number".to_owned(),
            Self::Number(..) => "a number".to_owned(),
            Self::Switch => "`true` or `false`".to_owned(),
            Self::Scalar => "a text, a number, `true` or `false`".to_owned(),
            Self::Yes => "`true`".to_owned(),
            Self::List(list) if list.single => format!("{}, or a list", list.item.expected()),
            Self::List(_) => "a list".to_owned(),
            Self::Table(Table { shorthand: Some(name), .. }) => {
                format!("a table, or its `{name}` alone")
            }
            Self::Table(_) | Self::Map(_) => "a table".to_owned(),
        }
    }
}
