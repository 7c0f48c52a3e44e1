//! The demo's end: what was produced, what is in the table, and how to look for oneself.
//!
//! Must not be here: waiting for it.
#![allow(
    clippy::print_stdout,
    reason = "the demo is for the person at the terminal"
)]

use anyhow::Result;

use super::sink::Demo;
use crate::produce::distinct_generated;

/// Messages and distinct events of the night shift.
const NIGHT_SHIFT: (u64, u64) = (6, 5);

struct Figures {
    produced: u64,
    count: u64,
    distinct: u64,
    merged: u64,
    expected_merged: u64,
    rejected: u64,
}

/// Prints the table; true where everything is as promised.
pub(super) fn show(demo: &Demo, produced: u64) -> Result<bool> {
    let figures = Figures {
        produced,
        count: demo.count("")?,
        distinct: demo.distinct()?,
        merged: demo.count("FINAL")?,
        expected_merged: NIGHT_SHIFT.1 + distinct_generated(produced - NIGHT_SHIFT.0),
        rejected: demo.clickhouse.count(&format!("{}_rejected", demo.table))?,
    };
    print!("{}", render(&figures));
    println!("\nLook for yourself:\n");
    for sql in [
        format!("SELECT count(), uniqExact(_partition, _offset) FROM {}", demo.table),
        format!("SELECT count() FROM {} FINAL", demo.table),
        format!("SELECT * FROM {} FINAL WHERE event_id = 'evt-a1' FORMAT Vertical", demo.table),
    ] {
        println!("  curl -s '{}' --data-binary \"{sql}\"", demo.clickhouse.address());
    }
    Ok(is_as_promised(&figures))
}

fn is_as_promised(figures: &Figures) -> bool {
    let nothing_lost = figures.distinct == figures.produced && figures.count >= figures.produced;
    nothing_lost && figures.merged == figures.expected_merged && figures.rejected == 0
}

fn render(figures: &Figures) -> String {
    let verdict = if is_as_promised(figures) { "nothing lost" } else { "NOT AS PROMISED" };
    let copies = figures.count.saturating_sub(figures.distinct);
    format!(
        "\n  produced                 {:>10}\n  \
           distinct offsets         {:>10}   {verdict}\n  \
           count()                  {:>10}   {copies} copies of a replay\n  \
           count() with FINAL       {:>10}   expected {}\n  \
           rejected                 {:>10}\n",
        figures.produced, figures.distinct, figures.count, figures.merged, figures.expected_merged, figures.rejected
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        Figures { produced: 10, count: 12, distinct: 10, merged: 8, expected_merged: 8, rejected: 0 }
    }

    #[test]
    fn a_lost_offset_a_wrong_merge_and_a_reject_are_each_told() {
        assert!(is_as_promised(&figures()));
        assert!(!is_as_promised(&Figures { distinct: 9, ..figures() }));
        assert!(!is_as_promised(&Figures { merged: 7, ..figures() }));
        assert!(!is_as_promised(&Figures { rejected: 1, ..figures() }));
        assert!(render(&Figures { distinct: 9, ..figures() }).contains("NOT AS PROMISED"));
        assert!(render(&figures()).contains("2 copies"));
    }
}
