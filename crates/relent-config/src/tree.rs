//! Tables with places, and how they merge.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::source::Place;

/// A value with its place and the policy that it was written in.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Where its key is; for an element of an array, where the element is.
    pub(crate) key: Place,
    /// Where the value is.
    pub(crate) place: Place,
    pub(crate) layer: Layer,
    pub(crate) value: Value,
}

/// Which layer a value was written in: the number of a policy in its file, or the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Layer(pub(crate) usize);

impl Layer {
    pub(crate) const FLAGS: Self = Self(usize::MAX);
    /// What holds where nothing is said.
    pub(crate) const BUILT_IN: Self = Self(usize::MAX - 1);
}

pub(crate) type Table = BTreeMap<String, Node>;

#[derive(Clone, Debug)]
pub(crate) enum Value {
    String(String),
    /// None: too large for anything.
    Integer(Option<i128>),
    Float(f64),
    Boolean(bool),
    Datetime,
    /// JSON's; TOML has none.
    Null,
    Array(Vec<Node>),
    Table(Table),
}

impl Value {
    /// The type as a message names it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Boolean(_) => "a boolean",
            Self::Datetime => "a date",
            Self::Null => "null",
            Self::Array(_) => "an array",
            Self::Table(_) => "a table",
        }
    }
}

impl Node {
    pub(crate) fn string(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    fn from_toml(key: Place, value: &Spanned<DeValue<'_>>, layer: Layer, source: usize) -> Self {
        let place = Place::new(source, value.span());
        let value = match value.get_ref() {
            DeValue::String(text) => Value::String(text.clone().into_owned()),
            DeValue::Integer(number) => {
                Value::Integer(i128::from_str_radix(number.as_str(), number.radix()).ok())
            }
            DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(value) => Value::Boolean(*value),
            DeValue::Datetime(_) => Value::Datetime,
            DeValue::Array(elements) => {
                let element = |element: &Spanned<DeValue<'_>>| {
                    Self::from_toml(Place::new(source, element.span()), element, layer, source)
                };
                Value::Array(elements.iter().map(element).collect())
            }
            DeValue::Table(table) => Value::Table(from_toml(table, layer, source)),
        };
        Self { key, place, layer, value }
    }

    /// Marks this and all below it as written in `layer`.
    pub(crate) fn set_layer(&mut self, layer: Layer) {
        self.layer = layer;
        match &mut self.value {
            Value::Array(elements) => elements.iter_mut().for_each(|element| element.set_layer(layer)),
            Value::Table(table) => table.values_mut().for_each(|entry| entry.set_layer(layer)),
            _ => {}
        }
    }

    /// A value written on its own: an option's.
    pub(crate) fn alone(value: &Spanned<DeValue<'_>>, layer: Layer, source: usize, offset: usize) -> Self {
        let mut node = Self::from_toml(Place::new(source, value.span()), value, layer, source);
        node.shift(offset);
        node
    }

    fn shift(&mut self, offset: usize) {
        for place in [&mut self.key, &mut self.place] {
            place.start += offset;
            place.end += offset;
        }
        match &mut self.value {
            Value::Array(elements) => elements.iter_mut().for_each(|element| element.shift(offset)),
            Value::Table(table) => table.values_mut().for_each(|entry| entry.shift(offset)),
            _ => {}
        }
    }
}

/// The parser bounds the depth: it is safe to recurse.
pub(crate) fn from_toml(table: &DeTable<'_>, layer: Layer, source: usize) -> Table {
    let entry = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, _)| {
        let place = Place::new(source, key.span());
        (key.get_ref().clone().into_owned(), Node::from_toml(place, value, layer, source))
    };
    table.iter().map(entry).collect()
}

/// `own` over `base`: tables of the same `kind` (or where `own` names none) merge key by key; everything else is
/// replaced.
pub(crate) fn merge(base: &Table, own: &Table) -> Table {
    let mut merged = base.clone();
    for (key, node) in own {
        let over = merged.get(key).map(|below| merge_nodes(key, below, node)).unwrap_or_else(|| node.clone());
        merged.insert(key.clone(), over);
    }
    merged
}

fn merge_nodes(key: &str, base: &Node, own: &Node) -> Node {
    // The parameters of one preset mean nothing to another.
    if key == "preset" {
        return own.clone();
    }
    let base_table = expanded(key, base);
    // A bare word for a jitter is its kind, so that `jitter = "full"` over `{ kind = "full" }` changes nothing; a bare
    // duration for a deadline is all of it, and so is a bare rate.
    let own_table =
        if matches!(key, "deadline" | "rate_limit") { own.table().cloned() } else { expanded(key, own) };
    match (base_table, own_table) {
        (Some(base), Some(table)) if same_kind(&base, &table) => {
            Node { value: Value::Table(merge(&base, &table)), ..own.clone() }
        }
        _ => own.clone(),
    }
}

/// A value's table, also where it is written in its short form.
pub(crate) fn expanded(key: &str, node: &Node) -> Option<Table> {
    let inner = match (key, &node.value) {
        (_, Value::Table(table)) => return Some(table.clone()),
        ("jitter", Value::String(_)) => "kind",
        ("deadline", Value::String(_)) => "total",
        // "none" is none of their kinds.
        ("hedge" | "throttle", Value::String(word)) if word != "none" => "kind",
        ("rate_limit", Value::String(word)) if word != "none" => "rate",
        _ => return None,
    };
    Some(Table::from([(inner.to_owned(), node.clone())]))
}

fn same_kind(base: &Table, own: &Table) -> bool {
    let kind = |table: &Table| table.get("kind").and_then(|node| node.string().map(str::to_owned));
    match (kind(base), kind(own)) {
        (_, None) => true,
        // No kind is given below: the built-in backoff is exponential, the built-in jitter full, and so on.
        (None, Some(own)) => matches!(own.as_str(), "exponential" | "full" | "quantile" | "sre"),
        (Some(base), Some(own)) => base == own,
    }
}
