//! Keys of JSON objects, compiled for a quick answer, and the tree of them that the columns' paths make.
//!
//! Must not be here: reading records (only the question whether a known key stands at a position).

use crate::column::dictionary::hash_of;

/// Longest path of a column; deeper objects are refused in records too.
const MAX_PATH: usize = 63;
/// No entry of this place.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Known keys of one object.
#[derive(Clone, Debug)]
pub(crate) struct KeyTable {
    keys: Vec<Key>,
    /// Open addressing, a power of two; `NOWHERE` or an index into `keys`.
    slots: Vec<u32>,
}

/// A key as it stands in a record, closing quote included.
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
        let quoted = [text.as_bytes(), b"\""].concat();
        let mut head = [0; 16];
        let mut mask = [0; 16];
        for (at, byte) in quoted.iter().take(16).enumerate() {
            head[at] = *byte;
            mask[at] = 0xff;
        }
        Self {
            plain: text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\'),
            quoted: quoted.into_boxed_slice(),
            head: u128::from_le_bytes(head),
            mask: u128::from_le_bytes(mask),
        }
    }

    fn text(&self) -> &[u8] {
        self.quoted.split_last().map_or(&[], |(_, text)| text)
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
        let mut slots = vec![NOWHERE; (keys.len() * 4).next_power_of_two()];
        for (index, key) in (0..).zip(&keys) {
            let mut at = hash_of(key.text()) as usize & (slots.len() - 1);
            while slots[at] != NOWHERE {
                at = (at + 1) & (slots.len() - 1);
            }
            slots[at] = index;
        }
        Self { keys, slots }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// True where key `index` and its closing quote are the next bytes. Only ever true where that *is* the key: its
    /// closing quote ends it whatever comes after.
    #[inline]
    pub(crate) fn stands_at(&self, index: u32, rest: &[u8]) -> Option<usize> {
        let key = self.keys.get(index as usize)?;
        key.stands_at(rest).then_some(key.quoted.len())
    }

    /// The index of a key, by its text without quotes and escapes.
    #[inline]
    pub(crate) fn find(&self, text: &[u8]) -> Option<u32> {
        let mut at = hash_of(text) as usize;
        loop {
            at &= self.slots.len() - 1;
            let index = *self.slots.get(at)?;
            let key = self.keys.get(index as usize)?;
            if key.text() == text {
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
    /// Where this object's memory of "the key after this one" starts.
    pub(crate) place: usize,
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
    pub(crate) fn build(self) -> (ObjectPlan, usize, usize) {
        let mut places = 0;
        let root = self.root.build(&mut places);
        (root, self.edges, places)
    }
}

impl Node {
    fn child(&mut self, key: &str, edges: &mut usize) -> &mut Child {
        let at = self.children.iter().position(|child| child.key == key).unwrap_or_else(|| {
            self.children.push(Child { key: key.to_owned(), id: *edges, ..Child::default() });
            *edges += 1;
            self.children.len() - 1
        });
        &mut self.children[at]
    }

    fn build(self, places: &mut usize) -> ObjectPlan {
        let names: Vec<&str> = self.children.iter().map(|child| child.key.as_str()).collect();
        let keys = KeyTable::new(&names);
        let place = *places;
        *places += keys.len() + 1;
        let edges = self.children.into_iter().map(|child| child.build(places)).collect();
        ObjectPlan { keys, edges, place }
    }
}

impl Child {
    fn build(self, places: &mut usize) -> Edge {
        let inside = (!self.node.children.is_empty()).then(|| self.node.build(places));
        Edge { id: self.id, columns: self.columns, inside }
    }
}
