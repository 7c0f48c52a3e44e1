//! The nearest of a few known names, for "did you mean".
//!
//! Must not be here: what the names are.

/// The known name that is nearest to `name`, if one is near enough to be meant: at most a third of its letters off.
#[must_use]
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // Longer than any name: no use in comparing.
    if name.len() > 128 {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    known
        .iter()
        .map(|candidate| {
            (
                distance(&lower, &candidate.to_ascii_lowercase()),
                *candidate,
            )
        })
        .min_by_key(|(edits, _)| *edits)
        .filter(|(edits, candidate)| *edits <= candidate.len().div_ceil(3))
        .map(|(_, candidate)| candidate)
}

/// Number of letters to insert, remove or replace.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_another_word_finds_none() {
        assert_eq!(
            nearest("bootstrapServer", &["topics", "bootstrapServers"]),
            Some("bootstrapServers")
        );
        assert_eq!(nearest("string", &["String", "UInt8"]), Some("String"));
        assert_eq!(nearest("zebra", &["topics", "bootstrapServers"]), None);
    }

    #[test]
    fn distance_counts_single_letters() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
