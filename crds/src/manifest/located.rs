//! YAML as JSON values, with the place of every field.
//!
//! Must not be here: what the fields mean.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_yaml::Spanned;

use crate::schema::field_path;

/// Line and column, from 1.
pub(super) type Location = (u64, u64);

/// One document: its value without nulls, and where each field stands.
pub(super) struct Document {
    pub(super) value: Value,
    pub(super) locations: Locations,
}

/// Where each field stands.
#[derive(Default)]
pub(super) struct Locations {
    places: BTreeMap<String, Location>,
    nulls: Vec<String>,
}

impl Locations {
    /// Paths of fields that are null, and so count as absent.
    pub(super) fn nulls(&self) -> &[String] {
        &self.nulls
    }

    /// The place of the field, or of the nearest field around it that is there.
    pub(super) fn nearest(&self, path: &str) -> Location {
        let mut path = path;
        loop {
            if let Some(place) = self.places.get(path) {
                return *place;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None if path.is_empty() => return (1, 1),
                None => path = "",
            }
        }
    }
}

/// A text that is no YAML.
pub(super) struct SyntaxError {
    pub(super) location: Location,
    pub(super) message: String,
}

/// All documents of a text; empty ones are left out.
pub(super) fn read_documents(text: &str) -> Result<Vec<Document>, SyntaxError> {
    // `y`, `n`, `on`, `off` are texts, as YAML 1.2 has it.
    let options = serde_yaml::options! { strict_booleans: true };
    let nodes: Vec<Spanned<Node>> =
        serde_yaml::from_multiple_with_options(text, options).map_err(|error| {
            let location = error
                .location()
                .map_or((0, 0), |place| (place.line(), place.column()));
            SyntaxError {
                location,
                message: first_words(&error.without_snippet().to_string()),
            }
        })?;
    let documents = nodes
        .into_iter()
        .filter(|node| !matches!(node.value, Node::Scalar(Value::Null)));
    Ok(documents.map(to_document).collect())
}

/// What is wrong, without the place (it is shown before), advice to programmers, and the text around (it may be secret).
fn first_words(message: &str) -> String {
    let ends = [" at line ", ", set DuplicateKeyPolicy", "\n"];
    let end = ends.iter().filter_map(|mark| message.find(mark)).min();
    message[..end.unwrap_or(message.len())].to_owned()
}

fn to_document(node: Spanned<Node>) -> Document {
    let mut locations = Locations::default();
    locations.places.insert(String::new(), place(&node));
    let value = to_value(node.value, "", &mut locations);
    Document { value, locations }
}

fn place<T>(spanned: &Spanned<T>) -> Location {
    (spanned.referenced.line(), spanned.referenced.column())
}

/// A node of the document.
enum Node {
    Scalar(Value),
    List(Vec<Spanned<Node>>),
    Fields(Vec<(Spanned<String>, Spanned<Node>)>),
}

fn to_value(node: Node, path: &str, locations: &mut Locations) -> Value {
    match node {
        Node::Scalar(value) => value,
        Node::List(items) => {
            let items = items.into_iter().enumerate().map(|(index, item)| {
                let path = format!("{path}[{index}]");
                locations.places.insert(path.clone(), place(&item));
                to_value(item.value, &path, locations)
            });
            Value::Array(items.collect())
        }
        Node::Fields(fields) => {
            let mut object = Map::new();
            for (key, inner) in fields {
                let path = field_path(path, &key.value);
                locations.places.insert(path.clone(), place(&key));
                let value = to_value(inner.value, &path, locations);
                // A null is an absent field, as the API server sees it.
                if value.is_null() {
                    locations.nulls.push(path);
                } else {
                    object.insert(key.value, value);
                }
            }
            Value::Object(object)
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Number(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Number(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(Number::from_f64(value).map_or_else(
            || Value::String(value.to_string()),
            Value::Number,
        )))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(Value::String(value.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            fields.push(entry);
        }
        Ok(Node::Fields(fields))
    }
}
