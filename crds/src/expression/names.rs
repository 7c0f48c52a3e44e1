//! The names in an expression, and its parts.
//!
//! Must not be here: what the names stand for (the table knows its columns).

use super::{Piece, not_one_expression, solid_pieces};

/// Words that are no names of columns unless they are quoted, in lower case.
const KEYWORDS: [&str; 23] = [
    "and", "as", "asc", "between", "by", "case", "desc", "distinct", "div", "else", "end", "false",
    "ilike", "in", "interval", "is", "like", "mod", "not", "null", "or", "then", "when",
];
/// Units behind the number of an INTERVAL, in lower case and singular.
const UNITS: [&str; 11] = [
    "nanosecond",
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
];

/// The columns that the expression uses: each name once, without quotes, in the order of the text. Of a compound name
/// (`location.zone`) it is the first part; a name that is called is a function.
#[must_use]
pub fn identifiers(expression: &str) -> Vec<String> {
    let solid = solid_pieces(expression);
    let text = |index: usize| solid.get(index).map_or("", |(text, _)| *text);
    let (mut found, mut parameters) = (Vec::new(), Vec::new());
    for (index, (name, piece)) in solid.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| solid.get(before));
        let is_part = before.is_some_and(|(text, _)| *text == ".");
        let is_name = *piece == Piece::Name && !name.starts_with(|c: char| c.is_ascii_digit());
        if !is_name || is_part || text(index + 1) == "(" {
            continue;
        }
        if is_word_of_the_language(name, before.copied(), solid.get(index + 1).copied()) {
            continue;
        }
        let list = if (text(index + 1), text(index + 2)) == ("-", ">") {
            &mut parameters
        } else {
            &mut found
        };
        let name = plain(name);
        if !list.contains(&name) {
            list.push(name);
        }
    }
    found.retain(|name| !parameters.contains(name));
    found
}

/// Every name and keyword of the text, without quotes: for asking whether a SELECT mentions a name at all.
#[must_use]
pub fn words(text: &str) -> Vec<String> {
    let names = solid_pieces(text).into_iter();
    names
        .filter(|(_, piece)| *piece == Piece::Name)
        .map(|(name, _)| plain(name))
        .collect()
}

/// The parts of a list (`a, f(b, c)`) or a tuple (`(a, b)`, `tuple(a, b)`); an expression by itself is its only part.
#[must_use]
pub fn terms(expression: &str) -> Vec<String> {
    let text = expression.trim();
    let inner = text
        .strip_prefix("tuple(")
        .or_else(|| text.strip_prefix('('))
        .and_then(|rest| rest.strip_suffix(')'))
        .filter(|inner| not_one_expression(inner).is_none());
    let mut terms = vec![String::new()];
    let mut depth = 0_i64;
    for (piece, _) in super::pieces(inner.unwrap_or(text)) {
        match piece {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 => {
                terms.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = terms.last_mut() {
            last.push_str(piece);
        }
    }
    let terms = terms.into_iter().map(|term| term.trim().to_owned());
    terms.filter(|term| !term.is_empty()).collect()
}

fn is_word_of_the_language(
    name: &str,
    before: Option<(&str, Piece)>,
    after: Option<(&str, Piece)>,
) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_unit = || {
        let unit = lower.strip_suffix('s').unwrap_or(&lower);
        let behind_a_number = before.is_some_and(|(text, piece)| {
            piece == Piece::Literal || text == ")" || text.starts_with(|c: char| c.is_ascii_digit())
        });
        behind_a_number && UNITS.contains(&unit)
    };
    // `DATE '2026-01-01'`.
    let is_typed = || {
        ["date", "timestamp"].contains(&lower.as_str())
            && after.is_some_and(|(_, piece)| piece == Piece::Literal)
    };
    KEYWORDS.contains(&lower.as_str()) || lower == "true" || is_unit() || is_typed()
}

/// The name without its quotes.
fn plain(name: &str) -> String {
    let inner = ['`', '"']
        .into_iter()
        .find_map(|mark| name.strip_prefix(mark)?.strip_suffix(mark));
    let Some(inner) = inner else {
        return name.to_owned();
    };
    let mut text = String::with_capacity(inner.len());
    let mut escaped = false;
    for c in inner.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            escaped = false;
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_columns_of_an_expression_are_found() {
        for (expression, columns) in [
            ("toYYYYMM(ts)", vec!["ts"]),
            ("(toYYYYMM( `ts` ), site, site)", vec!["ts", "site"]),
            ("ts + INTERVAL 400 DAY", vec!["ts"]),
            ("toStartOfInterval(ts, INTERVAL 1 HOUR)", vec!["ts"]),
            ("day", vec!["day"]),
            ("toYYYYMM(day) * 2 + \"a b\"", vec!["day", "a b"]),
            ("location.zone", vec!["location"]),
            ("cityHash64(id) % 16", vec!["id"]),
            ("arrayMap(x -> x + n, tags)", vec!["n", "tags"]),
            ("d >= DATE '2026-01-01' AND NOT isNull(e)", vec!["d", "e"]),
            ("'id'", vec![]),
            ("tuple()", vec![]),
        ] {
            assert_eq!(identifiers(expression), columns, "{expression}");
        }
    }

    #[test]
    fn the_parts_of_a_tuple_are_found() {
        for (expression, parts) in [
            ("toYYYYMM(ts)", vec!["toYYYYMM(ts)"]),
            ("(toYYYYMM(ts), f(a, b))", vec!["toYYYYMM(ts)", "f(a, b)"]),
            ("tuple(a , 'x,y')", vec!["a", "'x,y'"]),
            ("(a), (b)", vec!["(a)", "(b)"]),
            ("tuple()", vec![]),
        ] {
            assert_eq!(terms(expression), parts, "{expression}");
        }
    }

    #[test]
    fn the_words_of_a_select_are_found() {
        assert_eq!(
            words("SELECT `a b`, lower(c) AS d FROM ops.events"),
            [
                "SELECT", "a b", "lower", "c", "AS", "d", "FROM", "ops", "events"
            ]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_cut_without_a_panic(text in any::<String>()) {
            let _ = (identifiers(&text), terms(&text), words(&text));
        }
    }
}
