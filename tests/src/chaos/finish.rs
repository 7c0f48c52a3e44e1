//! The end of a run: everything is committed, then the figures are read from the tables.
//!
//! Must not be here: what they must be (`verdict`).

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::flow::Produced;
use super::scene::{ABORTED_FROM, NAME, Scene, TABLE};
use super::verdict::Figures;
use super::watch::Watch;
use crate::clickhouse::ClickHouseClient;

/// True where the group stands at the end of every partition, with nothing declared.
pub(crate) fn is_done(watch: &Watch) -> bool {
    let Ok(ends) = watch.ends(Duration::from_secs(5)) else {
        return false;
    };
    let mut pairs = watch.positions().iter().zip(ends);
    pairs.all(|(position, end)| position.offset == Some(end) && position.ranges() == 0)
}

/// Reads the figures.
pub(crate) fn read_figures(scene: &Scene, produced: Produced, started: Instant) -> Result<Figures> {
    let took = started.elapsed();
    let client = &scene.clickhouse;
    let rows = read_numbers(
        client,
        &format!(
            "SELECT count(), uniqExact(_partition, _offset), uniqExact(id), countIf(id >= {ABORTED_FROM}), \
             sum(cityHash64(id)) FROM {TABLE}"
        ),
    )?;
    let [rows, places, ids, aborted_rows, checksum] = rows;
    let [distinct_checksum] = read_numbers(
        client,
        &format!("SELECT sum(cityHash64(id)) FROM (SELECT DISTINCT id FROM {TABLE})"),
    )?;
    let [produced_checksum] = read_numbers(
        client,
        &format!(
            "SELECT sum(cityHash64(number)) FROM numbers({})",
            produced.records
        ),
    )?;
    let [view_records, view_checksum] =
        read_numbers(client, "SELECT sum(records), sum(checksum) FROM totals")?;
    Ok(Figures {
        produced: produced.records,
        aborted: produced.aborted,
        produced_checksum,
        rows,
        places,
        ids,
        aborted_rows,
        checksum,
        distinct_checksum,
        view: (view_records, view_checksum),
        rejected: client.count(&format!("{NAME}.{TABLE}_rejected"))?,
        took,
    })
}

fn read_numbers<const N: usize>(client: &ClickHouseClient, select: &str) -> Result<[u64; N]> {
    let text = client.query(select)?;
    parse_numbers(&text)
        .with_context(|| format!("expected {N} numbers, found {text:?} for {select}"))
}

fn parse_numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|it| it.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// Rows that are in the table more than once and records that are missing, a few of each, for a look after a failure.
pub(crate) fn describe_wrong(scene: &Scene) -> Result<String> {
    let copies = scene.clickhouse.query(&format!(
        "SELECT _partition, min(_offset), max(_offset), count(), groupUniqArray(copies) FROM (SELECT _partition, _offset, \
         count() AS copies FROM {TABLE} GROUP BY ALL HAVING copies > 1) GROUP BY _partition ORDER BY _partition"
    ))?;
    let parts = scene.clickhouse.query(&format!(
        "SELECT _partition, _part, min(_offset), max(_offset), count() FROM {TABLE} WHERE (_partition, _offset) IN \
         (SELECT _partition, _offset FROM {TABLE} GROUP BY ALL HAVING count() > 1) GROUP BY ALL ORDER BY ALL LIMIT 40"
    ))?;
    Ok(format!(
        "copies (partition, first, last, offsets, times):\n{copies}\nin parts:\n{parts}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_numbers_is_read_only_where_it_has_as_many_as_expected() {
        assert_eq!(
            parse_numbers("1\t18446744073709551615\n"),
            Some([1, u64::MAX])
        );
        assert_eq!(parse_numbers::<2>("1"), None);
        assert_eq!(parse_numbers::<1>("x"), None);
    }
}
