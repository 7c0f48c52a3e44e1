//! The lineage of a flat view: which definitions it has shown, oldest first, kept in the view's own comment. Pure.
//!
//! Must not be here: what follows from it (`decide.rs`), clocks.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Entries that are kept whole; older ones keep only the first digits of their fingerprint.
const MOST_ENTRIES: usize = 64;
/// Fingerprints that are kept by their first digits.
const MOST_FOLDED: usize = 4_096;
/// Digits of a folded fingerprint.
const FOLDED_DIGITS: usize = 16;
/// The only version of the mark there is.
const VERSION: u32 = 1;
/// The word that every mark of ours begins with.
pub(crate) const MARK: &str = "clickhouse-sink";

/// A definition that the view has shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// `<cluster>/<namespace>/<name>` of the resource.
    pub owner: String,
    /// Its uid.
    pub uid: String,
    /// Its generation; 0 in local mode, which has none.
    pub generation: i64,
    /// The definition's fingerprint.
    pub fp: String,
    /// When it was put there, seconds since the epoch.
    #[serde(default)]
    pub at: u64,
    /// The person's word that put it there, whatever the lineage said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted: Option<String>,
}

/// All definitions of one view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    view: u32,
    of: String,
    #[serde(rename = "lineage")]
    entries: VecDeque<Entry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    folded: Vec<String>,
}

/// Nothing more fits: a person has to promote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineageFull;

/// What a comment says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// Nothing of ours.
    None,
    /// Something of ours that cannot be read.
    Unreadable,
    /// A lineage.
    Lineage(Lineage),
}

#[derive(Serialize, Deserialize)]
struct Comment {
    #[serde(rename = "clickhouse-sink")]
    mark: Lineage,
}

impl Lineage {
    /// Of a view that shows nothing yet.
    #[must_use]
    pub fn new(of: &str) -> Self {
        Self {
            view: VERSION,
            of: of.to_owned(),
            entries: VecDeque::new(),
            folded: Vec::new(),
        }
    }

    /// The view that it belongs to, `database.name`.
    #[must_use]
    pub fn of(&self) -> &str {
        &self.of
    }

    /// What the view shows.
    #[must_use]
    pub fn last(&self) -> Option<&Entry> {
        self.entries.back()
    }

    /// The definitions that are kept whole, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// True for a definition that the view has shown.
    #[must_use]
    pub fn knows(&self, fp: &str) -> bool {
        self.entries.iter().any(|entry| entry.fp == fp)
            || self.folded.iter().any(|known| known == fold(fp))
    }

    /// The lineage with one more definition.
    ///
    /// # Errors
    /// [`LineageFull`].
    pub fn with(&self, entry: Entry) -> Result<Self, LineageFull> {
        let mut next = self.clone();
        next.entries.push_back(entry);
        while next.entries.len() > MOST_ENTRIES {
            let Some(oldest) = next.entries.pop_front() else {
                break;
            };
            let digits = fold(&oldest.fp).to_owned();
            if !next.folded.contains(&digits) {
                next.folded.push(digits);
            }
        }
        if next.folded.len() > MOST_FOLDED {
            return Err(LineageFull);
        }
        Ok(next)
    }

    /// The lineage with the last definition in this resource's hands.
    #[must_use]
    pub fn with_last_of(&self, mine: &Entry) -> Self {
        let mut next = self.clone();
        if let Some(last) = next.entries.back_mut() {
            last.uid.clone_from(&mine.uid);
            last.generation = mine.generation;
            last.promoted.clone_from(&mine.promoted);
        }
        next
    }

    /// The view's comment.
    #[must_use]
    pub fn render(&self) -> String {
        let comment = Comment { mark: self.clone() };
        // Texts and numbers only: it can always be written.
        serde_json::to_string(&comment).unwrap_or_default()
    }
}

/// Reads a comment.
#[must_use]
pub fn read_mark(comment: &str) -> Mark {
    if let Ok(Comment { mark }) = serde_json::from_str(comment)
        && mark.view == VERSION
        && !mark.entries.is_empty()
    {
        return Mark::Lineage(mark);
    }
    if comment.contains(MARK) {
        Mark::Unreadable
    } else {
        Mark::None
    }
}

fn fold(fp: &str) -> &str {
    fp.get(..FOLDED_DIGITS).unwrap_or(fp)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;

    fn entry(number: usize) -> Entry {
        Entry {
            owner: "c/ns/a".to_owned(),
            uid: "u".to_owned(),
            generation: 3,
            fp: format!("{number:032x}"),
            at: 1_700_000_000,
            promoted: None,
        }
    }

    /// Fingerprints whose first half differs, as those of real definitions.
    fn distinct(number: usize) -> Entry {
        Entry {
            fp: format!("{number:016x}{:016x}", 7),
            ..entry(0)
        }
    }

    #[test]
    fn a_comment_reads_back() {
        let lineage = Lineage::new("ops.flat").with(entry(1)).unwrap();
        let lineage = lineage
            .with(Entry {
                promoted: Some("4".to_owned()),
                ..entry(2)
            })
            .unwrap();
        assert_eq!(read_mark(&lineage.render()), Mark::Lineage(lineage.clone()));
        insta::assert_snapshot!(lineage.render());
        assert!(lineage.knows(&entry(1).fp) && !lineage.knows(&entry(3).fp));
        assert_eq!(lineage.last().unwrap().fp, entry(2).fp);
    }

    #[test]
    fn what_is_not_ours_is_told_from_what_cannot_be_read() {
        for comment in ["", "people read this", "{}", "{\"view\": 1}"] {
            assert_eq!(read_mark(comment), Mark::None, "{comment}");
        }
        let ours = Lineage::new("ops.flat").with(entry(1)).unwrap().render();
        for comment in [
            format!("{ours} (do not touch)"),
            ours.replace("\"view\":1", "\"view\":2"),
            ours.replace("\"fp\"", "\"f\""),
            "{\"clickhouse-sink\":{}}".to_owned(),
            Lineage::new("ops.flat").render(),
        ] {
            assert_eq!(read_mark(&comment), Mark::Unreadable, "{comment}");
        }
    }

    #[test]
    fn old_definitions_are_folded_and_still_known_until_it_is_full() {
        let mut lineage = Lineage::new("ops.flat");
        let all = MOST_ENTRIES + MOST_FOLDED;
        for number in 0..all {
            lineage = lineage.with(distinct(number)).unwrap();
        }
        assert_eq!(lineage.entries().count(), MOST_ENTRIES);
        assert!((0..all).all(|number| lineage.knows(&distinct(number).fp)));
        assert_eq!(lineage.with(distinct(all)), Err(LineageFull));
        assert!(lineage.render().len() < 128 * 1024);
    }

    #[test]
    fn only_the_last_definition_changes_hands() {
        let lineage = Lineage::new("ops.flat").with(entry(1)).unwrap();
        let new = Entry {
            uid: "new".to_owned(),
            generation: 1,
            ..entry(9)
        };
        let lineage = lineage.with(entry(2)).unwrap().with_last_of(&new);
        assert_eq!(lineage.last().unwrap().fp, entry(2).fp);
        let hands: Vec<_> = lineage
            .entries()
            .map(|entry| (entry.uid.as_str(), entry.generation))
            .collect();
        assert_eq!(hands, [("u", 3), ("new", 1)]);
    }

    proptest! {
        #[test]
        fn any_comment_is_read_without_a_panic(text in any::<String>(), cut in 0_usize..300) {
            let _ = read_mark(&text);
            let ours = Lineage::new(&text).with(entry(1)).unwrap().render();
            let cut = (0..=cut.min(ours.len())).rev().find(|at| ours.is_char_boundary(*at)).unwrap_or(0);
            let _ = read_mark(&ours[..cut]);
        }
    }
}
