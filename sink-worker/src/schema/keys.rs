//! Keys of JSON objects, compiled for a quick answer, and the tree of them that the columns' paths make.
//!
//! Must not be here: reading records (only the question whether a known key stands at a position).

use super::kind::Kind;
use crate::column::dictionary::{home_of, word_of};

/// Longest path of a column; deeper objects are refused in records too.
const MAX_PATH: usize = 63;
/// No entry of this place.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Known keys of one object.
#[derive(Clone, Debug)]
pub(crate) struct KeyTable {
    keys: Vec<Key>,
    /// Open addressing, a power of two; `NOWHERE` or an index into `keys`, and the key's word.
    slots: Vec<(u32, u128)>,
}

/// A key as it mostly stands in a record: quotes and colon included.
#[derive(Clone, Debug)]
struct Key {
    quoted: Box<[u8]>,
    /// The first 16 bytes, and which of them count.
    head: u128,
    mask: u128,
    /// False where the key would be escaped in JSON, so that its bytes say nothing.
    plain: bool,
}

impl Key {
    fn new(text: &str) -> Self {
        let quoted = [b"\"", text.as_bytes(), b"\":"].concat();
        let mut head = [0; 16];
        let mut mask = [0; 16];
        for (at, byte) in quoted.iter().take(16).enumerate() {
            head[at] = *byte;
            mask[at] = 0xff;
        }
        Self {
            plain: text
                .bytes()
                .all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\'),
            quoted: quoted.into_boxed_slice(),
            head: u128::from_le_bytes(head),
            mask: u128::from_le_bytes(mask),
        }
    }

    fn text(&self) -> &[u8] {
        self.quoted
            .get(1..self.quoted.len() - 2)
            .unwrap_or_default()
    }

    #[inline]
    fn stands_at(&self, rest: &[u8]) -> bool {
        let Some(head) = rest.first_chunk::<16>() else {
            return self.plain && rest.starts_with(&self.quoted);
        };
        let same_head = u128::from_le_bytes(*head) & self.mask == self.head;
        same_head && self.plain && (self.quoted.len() <= 16 || rest.starts_with(&self.quoted))
    }
}

impl KeyTable {
    /// A table of distinct keys.
    pub(crate) fn new(keys: &[&str]) -> Self {
        let keys: Vec<Key> = keys.iter().map(|key| Key::new(key)).collect();
        let mut slots = vec![(NOWHERE, 0); (keys.len() * 4).next_power_of_two()];
        for (index, key) in (0..).zip(&keys) {
            let word = word_of(key.text());
            let mut at = home_of(word) & (slots.len() - 1);
            while slots[at].0 != NOWHERE {
                at = (at + 1) & (slots.len() - 1);
            }
            slots[at] = (index, word);
        }
        Self { keys, slots }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Where key `index`, its quotes and a colon are the next bytes: how many these are. Only ever where that *is* the
    /// key: its closing quote ends it, as it has no backslash.
    #[inline]
    pub(crate) fn stands_at(&self, index: u32, rest: &[u8]) -> Option<usize> {
        let key = self.keys.get(index as usize)?;
        key.stands_at(rest).then_some(key.quoted.len())
    }

    /// The index of a key, by its text without quotes and escapes.
    pub(crate) fn find(&self, text: &[u8]) -> Option<u32> {
        self.find_word(word_of(text), |key| key.text() == text)
    }

    /// True where a short key is known.
    #[inline]
    pub(crate) fn has_short(&self, word: u128) -> bool {
        self.find_word(word, |_| true).is_some()
    }

    #[inline]
    fn find_word(&self, word: u128, is_same: impl Fn(&Key) -> bool) -> Option<u32> {
        let mut at = home_of(word);
        loop {
            let (index, known) = *self.slots.get(at & (self.slots.len() - 1))?;
            let key = self.keys.get(index as usize)?;
            if known == word && is_same(key) {
                return Some(index);
            }
            at += 1;
        }
    }
}

/// An object to look into: its keys, and what each leads to.
#[derive(Debug)]
pub(crate) struct ObjectPlan {
    pub(crate) keys: KeyTable,
    /// One per key, in the order of `keys`.
    pub(crate) edges: Vec<Edge>,
    /// The same, as far as the quick path needs it.
    pub(crate) steps: Vec<Step>,
    /// Where this object's memory of "the key after this one" starts.
    pub(crate) place: usize,
}

/// A key that leads to just one column and nothing inside: everything about it in one place.
#[derive(Debug)]
pub(crate) struct Step {
    key: Key,
    /// Where in the record's memory of edges this one is.
    pub(crate) seen_word: usize,
    pub(crate) seen_bit: u64,
    pub(crate) column: usize,
    pub(crate) kind: Kind,
    /// False where the key leads to several columns or to something inside; then the rest is of no meaning.
    simple: bool,
}

impl Step {
    /// As [`KeyTable::stands_at`], and only for simple steps.
    #[inline]
    pub(crate) fn stands_at(&self, rest: &[u8]) -> Option<usize> {
        (self.simple && self.key.stands_at(rest)).then_some(self.key.quoted.len())
    }

    fn new(key: Key, edge: &Edge, kind_of: &dyn Fn(usize) -> Kind) -> Self {
        let column = edge.only.unwrap_or_default();
        Self {
            key,
            seen_word: edge.id / 64,
            seen_bit: 1 << (edge.id % 64),
            column,
            kind: kind_of(column),
            simple: edge.only.is_some(),
        }
    }
}

/// What a key leads to.
#[derive(Debug)]
pub(crate) struct Edge {
    /// Number of the edge in the whole tree.
    pub(crate) id: usize,
    /// Columns that take the value.
    pub(crate) columns: Vec<usize>,
    /// Columns that take something inside of it.
    pub(crate) inside: Option<ObjectPlan>,
    /// The column, where there is just one for the value and none inside.
    pub(crate) only: Option<usize>,
}

impl Edge {
    /// All columns at and below this edge.
    pub(crate) fn each_column_inside(&self, visit: &mut dyn FnMut(usize)) {
        for edge in self.inside.iter().flat_map(|plan| &plan.edges) {
            edge.columns.iter().copied().for_each(&mut *visit);
            edge.each_column_inside(visit);
        }
    }
}

/// Why a path cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// No keys at all.
    #[error("the path is empty; name at least one key")]
    Empty,
    /// Too many keys.
    #[error("the path has {0} keys, the most are {MAX_PATH}")]
    TooLong(usize),
}

/// Grows the tree path by path.
#[derive(Debug, Default)]
pub(crate) struct PlanBuilder {
    root: Node,
    edges: usize,
}

#[derive(Debug, Default)]
struct Node {
    children: Vec<Child>,
}

#[derive(Debug, Default)]
struct Child {
    key: String,
    id: usize,
    columns: Vec<usize>,
    node: Node,
}

impl PlanBuilder {
    /// Adds a column's path; answers the edge that leads to the value.
    pub(crate) fn add(&mut self, path: &[String], column: usize) -> Result<usize, PlanError> {
        let (last, before) = path.split_last().ok_or(PlanError::Empty)?;
        if path.len() > MAX_PATH {
            return Err(PlanError::TooLong(path.len()));
        }
        let mut node = &mut self.root;
        for key in before {
            node = &mut node.child(key, &mut self.edges).node;
        }
        let child = node.child(last, &mut self.edges);
        child.columns.push(column);
        Ok(child.id)
    }

    /// The tree, how many edges it has, and how many places its memory needs.
    pub(crate) fn build(self, kind_of: &dyn Fn(usize) -> Kind) -> (ObjectPlan, usize, usize) {
        let mut places = 0;
        let root = self.root.build(&mut places, kind_of);
        (root, self.edges, places)
    }
}

impl Node {
    fn child(&mut self, key: &str, edges: &mut usize) -> &mut Child {
        let at = self
            .children
            .iter()
            .position(|child| child.key == key)
            .unwrap_or_else(|| {
                self.children.push(Child {
                    key: key.to_owned(),
                    id: *edges,
                    ..Child::default()
                });
                *edges += 1;
                self.children.len() - 1
            });
        &mut self.children[at]
    }

    fn build(self, places: &mut usize, kind_of: &dyn Fn(usize) -> Kind) -> ObjectPlan {
        let names: Vec<&str> = self
            .children
            .iter()
            .map(|child| child.key.as_str())
            .collect();
        let keys = KeyTable::new(&names);
        let place = *places;
        *places += keys.len() + 1;
        let edges: Vec<Edge> = self
            .children
            .into_iter()
            .map(|child| child.build(places, kind_of))
            .collect();
        let steps = keys
            .keys
            .iter()
            .zip(&edges)
            .map(|(key, edge)| Step::new(key.clone(), edge, kind_of))
            .collect();
        ObjectPlan {
            keys,
            edges,
            steps,
            place,
        }
    }
}

impl Child {
    fn build(self, places: &mut usize, kind_of: &dyn Fn(usize) -> Kind) -> Edge {
        let inside = (!self.node.children.is_empty()).then(|| self.node.build(places, kind_of));
        let only = self
            .columns
            .first()
            .copied()
            .filter(|_| self.columns.len() == 1 && inside.is_none());
        Edge {
            id: self.id,
            columns: self.columns,
            inside,
            only,
        }
    }
}
