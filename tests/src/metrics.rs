//! Reading a Prometheus text page.
//!
//! Must not be here: names of the product's metrics.

/// The samples of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq)]
struct Sample {
    name: String,
    /// What stands between the braces.
    labels: String,
    value: f64,
}

impl Metrics {
    /// Reads a page; lines that are no samples are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self {
            samples: text
                .lines()
                .filter(|line| !line.starts_with('#'))
                .filter_map(parse_sample)
                .collect(),
        }
    }

    /// Sum of the samples of this name whose labels hold all of `labels` (as `reason="x"`); `None` where there is none.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let matches = |sample: &&Sample| {
            sample.name == name && labels.iter().all(|label| sample.labels.contains(label))
        };
        let mut values = self
            .samples
            .iter()
            .filter(matches)
            .map(|sample| sample.value)
            .peekable();
        values.peek()?;
        Some(values.sum())
    }

    /// Names of all samples.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.samples.iter().map(|sample| sample.name.as_str())
    }
}

fn parse_sample(line: &str) -> Option<Sample> {
    let (head, value) = match line.rfind('}') {
        Some(end) => line.split_at_checked(end + 1)?,
        None => line.split_once(' ')?,
    };
    let (name, labels) = head.split_once('{').unwrap_or((head, ""));
    Some(Sample {
        name: name.to_owned(),
        labels: labels.trim_end_matches('}').to_owned(),
        value: value.split_whitespace().next()?.parse().ok()?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_over_the_labels_that_are_not_named() {
        let text = "# HELP a x\na{p=\"0\",t=\"x y\"} 1\na{p=\"1\",t=\"z\"} 2.5\nb 7\n# EOF";
        let metrics = Metrics::parse(text);
        assert_eq!(metrics.sum("a", &[]), Some(3.5));
        assert_eq!(metrics.sum("a", &["p=\"1\""]), Some(2.5));
        assert_eq!(
            (metrics.sum("b", &[]), metrics.sum("c", &[])),
            (Some(7.0), None)
        );
    }
}
