//! The status line of a sink, for people: pure rendering.
//!
//! Must not be here: printing (`screen.rs`), clocks.

use clickhouse_sink_crds::names::reason;

use crate::controller::status::SinkStatus;
use crate::fleet::Hold;

/// `namespace/name -> database.table | workers 2/2 | 1,234 rows, 50/s | lag 3 | Ready`.
#[must_use]
pub fn render_line(status: &SinkStatus, rows_per_second: u64) -> String {
    let mut parts = vec![
        format!("{} -> {}", status.sink, status.table),
        format!("workers {}/{}", status.workers_ready, status.workers_wanted),
        format!(
            "{} rows, {}/s",
            render_count(status.rows_inserted),
            render_count(rows_per_second)
        ),
        format!("lag {}", render_count(status.lag)),
    ];
    if status.rejected > 0 {
        parts.push(format!("rejected {}", render_count(status.rejected)));
    }
    parts.push(render_reason(status));
    parts.extend(
        status
            .window
            .as_ref()
            .map(|lack| format!("{}: {}", reason::DEDUP_WINDOW_TOO_SMALL, unbroken(lack))),
    );
    parts.extend(status.derived.iter().map(|note| unbroken(note)));
    parts.join(" | ")
}

/// Holds that are shown, the others are counted: a wall of lines helps nobody.
const MOST_HOLDS: usize = 20;

/// One line for each hold, with how to answer it.
#[must_use]
pub fn render_holds(status: &SinkStatus) -> Vec<String> {
    let shown = status.holds.iter().take(MOST_HOLDS).map(render_hold);
    let rest = status.holds.len().saturating_sub(MOST_HOLDS);
    let more =
        (rest > 0).then(|| format!("  and {rest} more holds; GET /state of a worker has all"));
    shown.chain(more).collect()
}

fn render_hold(hold: &Hold) -> String {
    let Hold {
        partition,
        reason,
        id,
        message,
    } = hold;
    let told = format!("  held {partition}: {reason}: {}", unbroken(message));
    // A hold of several partitions at once is a batch that waits for its cause to go away, nothing to decide.
    if id.is_empty() || partition.contains(',') {
        return told;
    }
    format!(
        "{told}; to answer, add to spec.resolutions: {{ partition: {partition}, hold: {id}, action: Retry }} (or InsertAgain, SkipAndRecord)"
    )
}

fn unbroken(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

fn render_reason(status: &SinkStatus) -> String {
    if status.message.is_empty() {
        return status.reason.to_owned();
    }
    format!("{}: {}", status.reason, unbroken(&status.message))
}

/// Digits in groups of three.
#[must_use]
pub fn render_count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Rows a second between two readings; 0 where the clock has not moved.
#[must_use]
pub fn compute_rate(rows_before: u64, rows_now: u64, elapsed_ms: u64) -> u64 {
    rows_now
        .saturating_sub(rows_before)
        .saturating_mul(1_000)
        .checked_div(elapsed_ms)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> SinkStatus {
        SinkStatus {
            sink: "analytics/vision-events".to_owned(),
            table: "ops.vision_events".to_owned(),
            workers_ready: 1,
            workers_wanted: 2,
            rows_inserted: 1_234_567,
            rejected: 0,
            lag: 1_000,
            reason: "Ready",
            message: String::new(),
            ready: true,
            window: None,
            derived: Vec::new(),
            holds: Vec::new(),
        }
    }

    #[test]
    fn a_hold_says_where_why_its_id_and_how_to_answer_it() {
        let hold = |partition: &str, id: &str| Hold {
            partition: partition.to_owned(),
            reason: "RetentionPassed".to_owned(),
            id: id.to_owned(),
            message: "expected 5,\nfound 9".to_owned(),
        };
        let status = SinkStatus {
            holds: vec![
                hold("t/0", "RetentionPassed-1a2b3c4d"),
                hold("t/1,t/2", "x"),
            ],
            ..status()
        };
        let lines = render_holds(&status);
        assert_eq!(
            lines,
            [
                "  held t/0: RetentionPassed: expected 5, found 9; to answer, add to spec.resolutions: \
                 { partition: t/0, hold: RetentionPassed-1a2b3c4d, action: Retry } (or InsertAgain, SkipAndRecord)",
                "  held t/1,t/2: RetentionPassed: expected 5, found 9",
            ]
        );
    }

    #[test]
    fn many_holds_are_counted_behind_the_first_ones() {
        let holds = (0..25).map(|partition| Hold {
            partition: format!("t/{partition}"),
            reason: "R".to_owned(),
            id: "i".to_owned(),
            message: String::new(),
        });
        let status = SinkStatus {
            holds: holds.collect(),
            ..status()
        };
        let lines = render_holds(&status);
        assert_eq!(
            (
                lines.len(),
                lines[20].trim_start().starts_with("and 5 more")
            ),
            (21, true)
        );
    }

    #[test]
    fn a_window_that_is_too_small_stands_behind_ready() {
        let status = SinkStatus {
            window: Some("run ALTER".to_owned()),
            ..status()
        };
        assert!(render_line(&status, 0).ends_with("| Ready | DedupWindowTooSmall: run ALTER"));
    }

    #[test]
    fn a_line_says_all_that_matters() {
        assert_eq!(
            render_line(&status(), 45_210),
            "analytics/vision-events -> ops.vision_events | workers 1/2 | 1,234,567 rows, 45,210/s | lag 1,000 | Ready"
        );
    }

    #[test]
    fn a_message_never_breaks_the_line() {
        let status = SinkStatus {
            reason: "X",
            message: "a\nb".to_owned(),
            rejected: 3,
            ..status()
        };
        assert!(render_line(&status, 0).ends_with("| lag 1,000 | rejected 3 | X: a b"));
    }

    #[test]
    fn counts_are_grouped_by_three() {
        let texts: Vec<_> = [0, 999, 1_000, 100_000, 1_000_000]
            .into_iter()
            .map(render_count)
            .collect();
        assert_eq!(texts, ["0", "999", "1,000", "100,000", "1,000,000"]);
    }

    #[test]
    fn a_rate_is_per_second_and_never_negative() {
        assert_eq!(compute_rate(100, 600, 500), 1_000);
        assert_eq!(compute_rate(600, 100, 500), 0);
        assert_eq!(compute_rate(0, 100, 0), 0);
    }
}
