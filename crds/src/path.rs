//! Paths into a record: `location.zone`, `"dotted.key".inner`.
//!
//! Must not be here: records.

use thiserror::Error;

/// Deepest path; payloads may not be nested deeper either.
pub const MAX_PARTS: usize = 64;

/// A text that is not a path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected {expected} at position {position}, found {found}; {remedy}")]
pub struct PathError {
    /// Byte of the text where reading stopped, from 0.
    pub position: usize,
    /// What may stand there.
    pub expected: &'static str,
    /// What stands there.
    pub found: String,
    /// What to write instead.
    pub remedy: &'static str,
}

impl PathError {
    /// Reason for a condition.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        "InvalidPath"
    }
}

/// The keys of a path, from the record's top level down.
///
/// # Errors
/// An empty part, an open quote, or text behind a quoted part.
pub fn parse_path(text: &str) -> Result<Vec<String>, PathError> {
    let mut parts = Vec::new();
    let mut at = 0;
    loop {
        let (part, end) = read_part(text, at)?;
        parts.push(part);
        match text[end..].chars().next() {
            None if parts.len() > MAX_PARTS => {
                return Err(error(
                    end,
                    "at most 64 parts",
                    "more",
                    "take a shorter path",
                ));
            }
            None => return Ok(parts),
            Some('.') => at = end + 1,
            Some(c) => {
                return Err(error(
                    end,
                    "a dot or the end",
                    &format!("`{c}`"),
                    "separate the parts by dots",
                ));
            }
        }
    }
}

fn read_part(text: &str, at: usize) -> Result<(String, usize), PathError> {
    if text[at..].starts_with('"') {
        return read_quoted(text, at);
    }
    let end = text[at..]
        .find(['.', '"'])
        .map_or(text.len(), |length| at + length);
    if end == at {
        let found = text[at..]
            .chars()
            .next()
            .map_or("the end".to_owned(), |c| format!("`{c}`"));
        return Err(error(
            at,
            "a key of the record",
            &found,
            "write for example location.zone",
        ));
    }
    Ok((text[at..end].to_owned(), end))
}

fn read_quoted(text: &str, at: usize) -> Result<(String, usize), PathError> {
    let mut part = String::new();
    let mut letters = text[at + 1..].char_indices();
    while let Some((offset, c)) = letters.next() {
        match c {
            '"' => return Ok((part, at + 1 + offset + 1)),
            '\\' => part.extend(letters.next().map(|(_, escaped)| escaped)),
            c => part.push(c),
        }
    }
    Err(error(
        at,
        "a key that ends with a double quote",
        "the end",
        "close the quotes",
    ))
}

fn error(position: usize, expected: &'static str, found: &str, remedy: &'static str) -> PathError {
    PathError {
        position,
        expected,
        found: found.to_owned(),
        remedy,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dots_separate_and_quotes_keep_dots() {
        assert_eq!(parse_path("zone").unwrap(), ["zone"]);
        assert_eq!(parse_path("location.zone").unwrap(), ["location", "zone"]);
        assert_eq!(parse_path(r#"a."b.c".d"#).unwrap(), ["a", "b.c", "d"]);
        assert_eq!(parse_path(r#""say \"hi\"""#).unwrap(), ["say \"hi\""]);
        assert_eq!(parse_path("größe.x y").unwrap(), ["größe", "x y"]);
    }

    #[test]
    fn a_wrong_path_says_where_and_what() {
        let shown = |text: &str| parse_path(text).unwrap_err().to_string();
        assert_eq!(
            shown("a..b"),
            "expected a key of the record at position 2, found `.`; write for example location.zone"
        );
        assert!(shown("").contains("found the end"));
        assert!(shown("a.").contains("position 2"));
        assert!(shown("\"a").contains("close the quotes"));
        assert!(shown("\"a\"b").contains("a dot or the end"));
        assert!(parse_path(&"a.".repeat(64)).is_err());
        assert!(parse_path(&format!("{}a", "a.".repeat(64))).is_err());
        assert!(parse_path(&format!("{}a", "a.".repeat(63))).is_ok());
    }

    proptest! {
        #[test]
        fn any_text_is_a_path_or_an_error(text in any::<String>()) {
            let _ = parse_path(&text);
        }
    }
}
