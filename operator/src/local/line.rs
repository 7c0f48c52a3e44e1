//! The status line of a sink, for people: pure rendering.
//!
//! Must not be here: printing (`screen.rs`), clocks.

use crate::controller::status::SinkStatus;

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
    parts.join(" | ")
}

fn render_reason(status: &SinkStatus) -> String {
    if status.message.is_empty() {
        return status.reason.to_owned();
    }
    format!(
        "{}: {}",
        status.reason,
        status.message.replace(['\n', '\r'], " ")
    )
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
        }
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
