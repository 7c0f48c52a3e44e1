//! Which rows are there, and which belong to table partitions of which nothing is.
//!
//! Pure. Must not be here: asking the table.

use std::collections::{BTreeMap, BTreeSet};

use super::key::HASHED;

/// Rows that the table has at the offsets of a range.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Offset, timestamp in milliseconds, number of the table partition.
    rows: Vec<(i64, i64, usize)>,
    /// Ids of table partitions, in the order in which they were met.
    table_partitions: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

impl Found {
    /// Adds a row; one whose offset is none of Kafka's is left out.
    pub(super) fn push(&mut self, offset: u64, timestamp_ms: i64, table_partition: &str) {
        let number = if let Some(number) = self.numbers.get(table_partition) {
            *number
        } else {
            let number = self.table_partitions.len();
            self.table_partitions.push(table_partition.to_owned());
            self.numbers.insert(table_partition.to_owned(), number);
            number
        };
        if let Ok(offset) = i64::try_from(offset) {
            self.rows.push((offset, timestamp_ms, number));
        }
    }
}

/// The range's rows beside what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Matched {
    /// For every row, the table partition that it was found in.
    rows: Vec<Option<usize>>,
    table_partitions: Vec<String>,
    found: usize,
}

impl Matched {
    /// Rows of the range that are there.
    pub(super) const fn found(&self) -> usize {
        self.found
    }
}

/// Finds the range's rows among those of the table: same offset and same timestamp. A row with another timestamp comes
/// from another record, of a topic of the same name that is gone.
pub(super) fn match_rows(offsets: &[i64], timestamps_ms: &[i64], found: &Found) -> Matched {
    let mut rows = vec![None; offsets.len()];
    for (offset, timestamp_ms, table_partition) in &found.rows {
        let Ok(row) = offsets.binary_search(offset) else {
            continue;
        };
        if timestamps_ms.get(row) == Some(timestamp_ms) {
            rows[row] = Some(*table_partition);
        }
    }
    Matched {
        found: rows.iter().flatten().count(),
        rows,
        table_partitions: found.table_partitions.clone(),
    }
}

/// Rows of the table partitions of which nothing is there; `table_partitions` has the id of each row.
///
/// One row that is there proves its table partition: a block is written wholly or not at all in each.
///
/// # Errors
/// In words, where the ids are not those of the table: nothing follows from them then.
pub(super) fn plan_send(
    matched: &Matched,
    table_partitions: &[String],
) -> Result<Vec<usize>, String> {
    let mut proven = BTreeMap::new();
    for (row, id) in matched.rows.iter().zip(table_partitions) {
        let Some(found_in) = row.and_then(|number| matched.table_partitions.get(number)) else {
            continue;
        };
        let is_hashed = id.starts_with(HASHED);
        let is_one = *proven.entry(id.as_str()).or_insert(found_in) == found_in;
        if !is_one || (!is_hashed && found_in != id) {
            return Err(format!(
                "a row was expected in the table partition {id} and found in {found_in}: the partition key gives another \
                 value for it now"
            ));
        }
    }
    if proven.values().collect::<BTreeSet<_>>().len() < proven.len() {
        return Err(
            "rows of one table partition have different values of the partition key now".to_owned(),
        );
    }
    let unproven = matched.rows.iter().zip(table_partitions).enumerate();
    Ok(unproven
        .filter(|(_, (found, id))| found.is_none() && !proven.contains_key(id.as_str()))
        .map(|(row, _)| row)
        .collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(rows: &[(u64, i64, &str)]) -> Found {
        let mut found = Found::default();
        for (offset, ms, id) in rows {
            found.push(*offset, *ms, id);
        }
        found
    }

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn a_row_is_found_by_offset_and_timestamp() {
        let table = found(&[
            (10, 1, "a"),
            (12, 9, "a"),
            (13, 3, "b"),
            (99, 1, "b"),
            (13, 3, "b"),
        ]);
        let matched = match_rows(&[10, 12, 13, 15], &[1, 2, 3, 4], &table);
        assert_eq!(matched.rows, [Some(0), None, Some(1), None]);
        assert_eq!(matched.found(), 2);
    }

    #[test]
    fn one_row_proves_its_table_partition_and_no_other() {
        let matched = match_rows(
            &[1, 2, 3, 4, 5],
            &[0; 5],
            &found(&[(1, 0, "a"), (4, 0, "b")]),
        );
        let rows = plan_send(&matched, &ids(&["a", "a", "c", "b", "c"])).unwrap();
        assert_eq!(rows, [2, 4]);
        assert_eq!(
            plan_send(&matched, &ids(&["a", "a", "b", "b", "a"])),
            Ok(vec![])
        );
    }

    #[test]
    fn ids_that_are_not_the_tables_prove_nothing() {
        let matched = match_rows(&[1, 2], &[0; 2], &found(&[(1, 0, "a")]));
        let message = plan_send(&matched, &ids(&["b", "b"])).unwrap_err();
        assert!(
            message.contains("expected in the table partition b and found in a"),
            "{message}"
        );
    }

    #[test]
    fn a_hashed_id_stands_for_exactly_one_table_partition() {
        let matched = match_rows(&[1, 2, 3], &[0; 3], &found(&[(1, 0, "a"), (2, 0, "b")]));
        let [one, two] = [1, 2].map(|number| format!("{HASHED}{number}"));
        assert_eq!(
            plan_send(&matched, &[one.clone(), two.clone(), "c".into()]),
            Ok(vec![2])
        );
        assert!(plan_send(&matched, &[one.clone(), one.clone(), one.clone()]).is_err());
        let same = match_rows(&[1, 2], &[0; 2], &found(&[(1, 0, "a"), (2, 0, "a")]));
        assert!(plan_send(&same, &[one, two]).is_err());
    }

    proptest! {
        #[test]
        fn never_is_a_row_sent_whose_table_partition_has_one(
            rows in prop::collection::vec((0_usize..6, any::<bool>()), 1..80),
        ) {
            let names = ["p0", "p1", "p2", "p3", "p4", "p5"];
            let offsets: Vec<i64> = (0..rows.len()).map(|row| i64::try_from(row).unwrap() * 3).collect();
            let mut table = Found::default();
            for ((id, there), offset) in rows.iter().zip(&offsets) {
                if *there { table.push(u64::try_from(*offset).unwrap(), 7, names[*id]); }
            }
            let matched = match_rows(&offsets, &vec![7; rows.len()], &table);
            let computed: Vec<String> = rows.iter().map(|(id, _)| names[*id].to_owned()).collect();
            let send = plan_send(&matched, &computed).unwrap();
            for (row, (id, _)) in rows.iter().enumerate() {
                let has_one = rows.iter().any(|(other, there)| other == id && *there);
                prop_assert_eq!(send.contains(&row), !has_one);
            }
        }
    }
}
