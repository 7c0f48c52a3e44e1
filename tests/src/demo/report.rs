//! The demo's end: what was produced, what is in the table, and how to look for oneself.
//!
//! Must not be here: waiting for it.
#![allow(
    clippy::print_stdout,
    reason = "the demo is for the person at the terminal"
)]

use anyhow::Result;

use super::sink::Demo;

/// Messages and distinct events of the night shift.
pub(super) const NIGHT_SHIFT: (u64, u64) = (6, 5);

/// Distinct events among all that was produced: each of the stream is one of its own.
pub(super) fn distinct_events(produced: u64) -> u64 {
    produced - NIGHT_SHIFT.0 + NIGHT_SHIFT.1
}

struct Figures {
    produced: u64,
    count: u64,
    distinct: u64,
    merged: u64,
    expected: u64,
    rejected: u64,
}

/// Prints the table; true where everything is as promised.
pub(super) fn show(demo: &Demo, produced: u64) -> Result<bool> {
    let figures = Figures {
        produced,
        count: demo.count("")?,
        distinct: demo.distinct()?,
        merged: demo.count("FINAL")?,
        expected: distinct_events(produced),
        rejected: demo.clickhouse.count(&format!("{}_rejected", demo.table))?,
    };
    print!("{}", render(&figures));
    println!("\nLook for yourself:\n");
    for sql in [
        format!("SELECT count(), uniqExact(event_id) FROM {}", demo.table),
        format!("SELECT count() FROM {} FINAL", demo.table),
        format!(
            "SELECT * FROM {} FINAL WHERE event_id = 'evt-a1' FORMAT Vertical",
            demo.table
        ),
    ] {
        println!(
            "  curl -s '{}' --data-binary \"{sql}\"",
            demo.clickhouse.address()
        );
    }
    Ok(is_as_promised(&figures))
}

fn is_as_promised(figures: &Figures) -> bool {
    let nothing_lost = figures.distinct == figures.expected && figures.count >= figures.expected;
    nothing_lost && figures.merged == figures.expected && figures.rejected == 0
}

fn render(figures: &Figures) -> String {
    let verdict = if is_as_promised(figures) {
        "nothing lost"
    } else {
        "NOT AS PROMISED"
    };
    format!(
        "\n  produced                   {:>10}\n  \
           distinct events            {:>10}   expected {}: {verdict}\n  \
           count()                    {:>10}   copies of a replay count here until they are merged\n  \
           count() with FINAL         {:>10}   expected {}\n  \
           rejected                   {:>10}\n",
        figures.produced,
        figures.distinct,
        figures.expected,
        figures.count,
        figures.merged,
        figures.expected,
        figures.rejected
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        Figures {
            produced: 10,
            count: 12,
            distinct: 9,
            merged: 9,
            expected: 9,
            rejected: 0,
        }
    }

    #[test]
    fn a_lost_offset_a_wrong_merge_and_a_reject_are_each_told() {
        assert!(is_as_promised(&figures()));
        assert!(!is_as_promised(&Figures {
            distinct: 8,
            ..figures()
        }));
        assert!(!is_as_promised(&Figures {
            merged: 7,
            ..figures()
        }));
        assert!(!is_as_promised(&Figures {
            rejected: 1,
            ..figures()
        }));
        assert!(
            render(&Figures {
                distinct: 8,
                ..figures()
            })
            .contains("NOT AS PROMISED")
        );
        assert!(render(&figures()).contains("nothing lost"));
    }
}
