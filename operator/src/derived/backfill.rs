//! How far a backfill is: bounds, pieces and progress, kept in the comment of the materialized view. Made with the view in
//! one statement, so there is never a view whose bounds are not known.
//!
//! A piece is one INSERT of one block under a token that names it for ever, so one that was cut off in the middle is
//! simply sent again. Must not be here: statements (`sql.rs`), when it begins (`decide.rs`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Rows of the source for one piece: far below what one block can hold, also where a row makes many.
const PIECE_ROWS: u64 = 200_000;

/// A backfill that is not over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backfill {
    /// Committed offset of each `topic/partition` when no insert was open: rows below are there, rows from it on come
    /// through the view.
    pub bounds: BTreeMap<String, u64>,
    /// Partitions of the source in order, and in how many pieces each is read.
    pub parts: Vec<(String, u32)>,
    /// Pieces that are done, in order.
    pub done: u32,
}

/// One piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Id of the source's partition.
    pub part: &'a str,
    /// Which of its pieces.
    pub index: u32,
    /// How many it has.
    pub of: u32,
}

#[derive(Serialize, Deserialize)]
struct Mark {
    #[serde(rename = "clickhouse-sink")]
    ours: Ours,
}

#[derive(Serialize, Deserialize)]
struct Ours {
    backfill: Backfill,
}

impl Backfill {
    /// A backfill of all rows below these bounds; none where there are no rows.
    #[must_use]
    pub fn plan(bounds: BTreeMap<String, u64>, partitions: &[(String, u64)]) -> Option<Self> {
        let parts: Vec<_> = partitions
            .iter()
            .filter(|(_, rows)| *rows > 0)
            .map(|(id, rows)| (id.clone(), count_pieces(*rows)))
            .collect();
        (!parts.is_empty()).then_some(Self {
            bounds,
            parts,
            done: 0,
        })
    }

    /// What a view's comment says; none: no backfill, or it is over.
    #[must_use]
    pub fn read(comment: &str) -> Option<Self> {
        let mark: Mark = serde_json::from_str(comment).ok()?;
        let backfill = mark.ours.backfill;
        (backfill.done < backfill.count()).then_some(backfill)
    }

    /// The comment that says so.
    ///
    /// # Panics
    /// Never: plain data always becomes JSON.
    #[must_use]
    pub fn render(&self) -> String {
        let ours = Ours {
            backfill: self.clone(),
        };
        serde_json::to_string(&Mark { ours }).expect("plain data with text keys becomes JSON")
    }

    /// Pieces in all.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.parts.iter().map(|(_, pieces)| pieces).sum()
    }

    /// The piece of this number.
    #[must_use]
    pub fn piece(&self, number: u32) -> Option<Piece<'_>> {
        let mut index = number;
        for (part, of) in &self.parts {
            if index < *of {
                return Some(Piece {
                    part,
                    index,
                    of: *of,
                });
            }
            index -= of;
        }
        None
    }

    /// The same with so many pieces done.
    #[must_use]
    pub fn with_done(&self, done: u32) -> Self {
        Self {
            done,
            ..self.clone()
        }
    }
}

fn count_pieces(rows: u64) -> u32 {
    u32::try_from(rows.div_ceil(PIECE_ROWS)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn backfill() -> Backfill {
        let bounds = BTreeMap::from([("t/0".to_owned(), 7)]);
        let partitions = [
            ("202601".to_owned(), 200_001),
            ("202602".to_owned(), 0),
            ("202603".to_owned(), 1),
        ];
        Backfill::plan(bounds, &partitions).unwrap()
    }

    #[test]
    fn every_piece_has_its_place_and_there_is_none_behind_the_last() {
        let backfill = backfill();
        let pieces: Vec<_> = (0..backfill.count())
            .map(|number| {
                let piece = backfill.piece(number).unwrap();
                (piece.part.to_owned(), piece.index, piece.of)
            })
            .collect();
        let piece = |part: &str, index, of| (part.to_owned(), index, of);
        assert_eq!(
            pieces,
            [
                piece("202601", 0, 2),
                piece("202601", 1, 2),
                piece("202603", 0, 1)
            ]
        );
        assert_eq!(backfill.piece(3), None);
    }

    #[test]
    fn a_comment_is_read_back_until_all_is_done() {
        let backfill = backfill().with_done(2);
        assert_eq!(Backfill::read(&backfill.render()), Some(backfill.clone()));
        assert_eq!(Backfill::read(&backfill.with_done(3).render()), None);
        for comment in ["", "mine", "{}", r#"{"clickhouse-sink":{"uid":"x"}}"#] {
            assert_eq!(Backfill::read(comment), None);
        }
    }

    #[test]
    fn nothing_is_to_be_filled_from_a_table_without_rows() {
        assert_eq!(
            Backfill::plan(BTreeMap::new(), &[("all".to_owned(), 0)]),
            None
        );
    }
}
