//! Waiting for what should become true, and watching what should stay true; failures say what was seen last.
//!
//! Must not be here: what is waited for.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

const EVERY: Duration = Duration::from_millis(25);

/// Asks until the answer is good; an error of `probe` says what is still missing.
///
/// # Errors
/// After `deadline`: what was expected and the last error.
pub fn eventually<T>(
    deadline: Duration,
    what: &str,
    mut probe: impl FnMut() -> Result<T>,
) -> Result<T> {
    let give_up = Instant::now() + deadline;
    loop {
        match probe() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() >= give_up => {
                bail!(
                    "expected within {} s: {what}; last seen: {error:#}",
                    deadline.as_secs_f64()
                )
            }
            Err(_) => std::thread::sleep(EVERY),
        }
    }
}

/// Asks until the answer is `expected`.
///
/// # Errors
/// After `deadline`: what was expected and the last answer.
pub fn eventually_eq<T: PartialEq + Debug>(
    deadline: Duration,
    what: &str,
    expected: &T,
    mut probe: impl FnMut() -> Result<T>,
) -> Result<()> {
    eventually(deadline, &format!("{what} = {expected:?}"), || {
        let found = probe()?;
        ensure!(found == *expected, "{found:?}");
        Ok(())
    })
}

/// Asks all the time, and every answer must be `expected`.
///
/// # Errors
/// At the first other answer, and at an error of `probe`.
pub fn stays_eq<T: PartialEq + Debug>(
    duration: Duration,
    what: &str,
    expected: &T,
    mut probe: impl FnMut() -> Result<T>,
) -> Result<()> {
    let started = Instant::now();
    while started.elapsed() < duration {
        let found = probe()?;
        let after = started.elapsed().as_secs_f64();
        ensure!(
            found == *expected,
            "expected {what} to stay {expected:?}, found {found:?} after {after:.2} s"
        );
        std::thread::sleep(EVERY);
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_true_is_waited_for() {
        let mut count = 0;
        let next = || {
            count += 1;
            Ok(count)
        };
        eventually_eq(Duration::from_secs(5), "count", &3, next).unwrap();
    }

    #[test]
    fn a_failure_says_what_was_expected_and_what_was_seen_last() {
        let error = eventually_eq(Duration::from_millis(30), "rows", &6, || Ok(5))
            .unwrap_err()
            .to_string();
        assert_eq!(error, "expected within 0.03 s: rows = 6; last seen: 5");
    }

    #[test]
    fn what_does_not_stay_is_reported_with_its_time() {
        let mut answers = [0, 0, 1].into_iter();
        let next = || Ok(answers.next().unwrap_or(1));
        let error = stays_eq(Duration::from_secs(5), "offset", &0, next)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("expected offset to stay 0, found 1 after 0."),
            "{error}"
        );
    }
}
