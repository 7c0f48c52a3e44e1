//! The little that is known of a ClickHouse expression without a server: one expression, the functions it calls.
//!
//! Must not be here: SQL statements; the server has the last word on every expression.

use crate::data_type::quote;

pub use names::{identifiers, terms, words};

mod names;

/// Functions whose value changes from call to call, in lower case; all that begin with `rand` come on top.
const VOLATILE: [&str; 29] = [
    "blocknumber",
    "connectionid",
    "connection_id",
    "curdate",
    "current_date",
    "current_timestamp",
    "fuzzbits",
    "fuzzjson",
    "fuzzquery",
    "generaterandomstructure",
    "generateserialid",
    "generatesnowflakeid",
    "generateulid",
    "generateuuidv4",
    "generateuuidv7",
    "hostname",
    "localtimestamp",
    "now",
    "now64",
    "nowinblock",
    "nowinblock64",
    "queryid",
    "query_id",
    "rownumberinallblocks",
    "rownumberinblock",
    "today",
    "uptime",
    "utc_timestamp",
    "yesterday",
];

/// The first function of the expression whose value changes from call to call.
#[must_use]
pub fn volatile_function(expression: &str) -> Option<&str> {
    calls(expression).into_iter().find(|name| {
        let lower = name.to_ascii_lowercase();
        lower.starts_with("rand") || lower == "utctimestamp" || VOLATILE.contains(&lower.as_str())
    })
}

/// Why the text cannot be one expression: a statement's end, a comment, open quotes or brackets.
#[must_use]
pub fn not_one_expression(expression: &str) -> Option<&'static str> {
    let mut depth = 0_i64;
    for (text, piece) in pieces(expression) {
        match (piece, text) {
            (Piece::Open, _) => return Some("quotes that are not closed"),
            (Piece::Other, "(" | "[" | "{") => depth += 1,
            (Piece::Other, ")" | "]" | "}") if depth == 0 => {
                return Some("a bracket that closes nothing");
            }
            (Piece::Other, ")" | "]" | "}") => depth -= 1,
            (Piece::Other, ";") => return Some("a semicolon"),
            (Piece::Comment, _) => return Some("a comment"),
            _ => {}
        }
    }
    if depth > 0 {
        Some("a bracket that is not closed")
    } else {
        None
    }
}

/// The expression without white space, and without quotes around names that need none: for comparing two texts of
/// which one was formatted by a server.
#[must_use]
pub fn normalise(expression: &str) -> String {
    let mut text = String::with_capacity(expression.len());
    for (piece_text, piece) in pieces(expression) {
        match piece {
            Piece::Space => {}
            Piece::Name => {
                // Two words keep one space between them: `INTERVAL 1 DAY`.
                if text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
                    text.push(' ');
                }
                text.push_str(unquote(piece_text));
            }
            _ => text.push_str(piece_text),
        }
    }
    text
}

/// A sorting key as the server prints it, or as declared: its parts without brackets around them all.
#[must_use]
pub fn normalise_key(key: &str) -> String {
    let text = normalise(key);
    let inner = text
        .strip_prefix("tuple(")
        .or_else(|| text.strip_prefix('('))
        .and_then(|rest| rest.strip_suffix(')'));
    match inner {
        Some(inner) if not_one_expression(inner).is_none() => inner.to_owned(),
        _ => text,
    }
}

/// True where the expression names the column, quoted or not.
#[must_use]
pub fn mentions(expression: &str, column: &str) -> bool {
    let quoted = ['`', '"'].map(|mark| quote(column, mark));
    pieces(expression)
        .into_iter()
        .filter(|(_, piece)| *piece == Piece::Name)
        .any(|(text, _)| unquote(text) == column || quoted.iter().any(|name| name == text))
}

/// The functions that it calls: names that are followed by a bracket.
#[must_use]
pub fn calls(expression: &str) -> Vec<&str> {
    let solid = solid_pieces(expression);
    let call = |pair: &[(&'_ str, Piece)]| pair[0].1 == Piece::Name && pair[1].0 == "(";
    solid
        .windows(2)
        .filter(|pair| call(pair))
        .map(|pair| unquote(pair[0].0))
        .collect()
}

/// What a piece of an expression's text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Space,
    Name,
    Literal,
    Comment,
    Open,
    Other,
}

/// The expression cut into words, literals and single signs.
pub(crate) fn pieces(expression: &str) -> Vec<(&str, Piece)> {
    let mut pieces = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let (length, piece) = next_piece(rest, first);
        let (text, behind) = rest.split_at(length);
        pieces.push((text, piece));
        rest = behind;
    }
    pieces
}

/// The pieces without white space.
fn solid_pieces(expression: &str) -> Vec<(&str, Piece)> {
    let pieces = pieces(expression).into_iter();
    pieces.filter(|(_, piece)| *piece != Piece::Space).collect()
}

fn next_piece(rest: &str, first: char) -> (usize, Piece) {
    let while_true = |wanted: fn(char) -> bool| rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    match first {
        c if c.is_whitespace() => (while_true(char::is_whitespace), Piece::Space),
        '\'' => quoted_length(rest, '\'')
            .map_or((rest.len(), Piece::Open), |length| (length, Piece::Literal)),
        '`' | '"' => quoted_length(rest, first)
            .map_or((rest.len(), Piece::Open), |length| (length, Piece::Name)),
        c if c.is_alphanumeric() || c == '_' => {
            (while_true(|c| c.is_alphanumeric() || c == '_'), Piece::Name)
        }
        _ if rest.starts_with("--") || rest.starts_with("/*") || first == '#' => {
            (rest.len(), Piece::Comment)
        }
        c => (c.len_utf8(), Piece::Other),
    }
}

fn quoted_length(text: &str, mark: char) -> Option<usize> {
    let mut escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == mark => return Some(index + c.len_utf8()),
            _ => {}
        }
    }
    None
}

/// A quoted name without its quotes, where it would also be read without them.
pub(crate) fn unquote(name: &str) -> &str {
    let inner = ['`', '"']
        .into_iter()
        .find_map(|mark| name.strip_prefix(mark)?.strip_suffix(mark));
    match inner {
        Some(inner)
            if inner.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && !inner.is_empty() =>
        {
            inner
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn volatile_functions_are_found_wherever_they_are_called() {
        for (expression, function) in [
            ("now()", "now"),
            ("toDate(NOW64 (3))", "NOW64"),
            ("concat('x', toString(generateUUIDv4()))", "generateUUIDv4"),
            ("randConstant()", "randConstant"),
            ("`rand`()", "rand"),
            ("today() - 1", "today"),
        ] {
            assert_eq!(
                volatile_function(expression),
                Some(function),
                "{expression}"
            );
        }
    }

    #[test]
    fn names_and_texts_that_only_look_like_calls_are_no_calls() {
        for expression in [
            "toYYYYMM(ts)",
            "'now()'",
            "now",
            "rand",
            "`now()`",
            "lower('rand()')",
            "now_seen(x)",
        ] {
            assert_eq!(volatile_function(expression), None, "{expression}");
        }
    }

    #[test]
    fn a_statement_in_the_place_of_an_expression_is_seen() {
        assert_eq!(not_one_expression("ts + INTERVAL 1 DAY"), None);
        assert_eq!(not_one_expression("concat('a;--', `b;`)"), None);
        assert_eq!(not_one_expression("1; DROP TABLE t"), Some("a semicolon"));
        assert_eq!(not_one_expression("1 -- x"), Some("a comment"));
        assert_eq!(
            not_one_expression("f(1))"),
            Some("a bracket that closes nothing")
        );
        assert_eq!(
            not_one_expression("f(1"),
            Some("a bracket that is not closed")
        );
        assert_eq!(not_one_expression("'a"), Some("quotes that are not closed"));
    }

    #[test]
    fn a_column_is_mentioned_by_its_name_however_it_is_quoted() {
        assert!(mentions("toYYYYMM(ts)", "ts"));
        assert!(mentions("toYYYYMM(`ts`)", "ts"));
        assert!(mentions("lower(`a b`)", "a b"));
        assert!(mentions("lower(\"a\\\"b\")", "a\"b"));
        assert!(!mentions("concat('ts', tsx)", "ts"));
    }

    #[test]
    fn two_spellings_of_one_key_are_equal() {
        assert_eq!(normalise_key("( site,`app` )"), normalise_key("site, app"));
        assert_eq!(normalise_key("tuple()"), "");
        assert_eq!(normalise("toYYYYMM( ts )"), "toYYYYMM(ts)");
        assert_eq!(normalise("ts  +  INTERVAL 1\nDAY"), "ts+INTERVAL 1 DAY");
        assert_ne!(normalise_key("(a), (b)"), normalise_key("a, b)"));
        assert_ne!(normalise("`a b`"), normalise("ab"));
    }

    proptest! {
        #[test]
        fn any_text_is_looked_at_without_a_panic(text in any::<String>()) {
            let _ = (volatile_function(&text), not_one_expression(&text), normalise_key(&text));
        }
    }
}
