//! The little that is known of a derived table's SELECT without a server: one SELECT, over one table, row by row.
//!
//! Must not be here: types and columns; the server has the last word on every SELECT.

use crate::expression::{Piece, not_one_expression, pieces, unquote};

/// Words that a row-by-row SELECT has no use for, and why.
const REFUSED: [(&str, &str); 21] = [
    ("join", OTHER_TABLE),
    ("union", OTHER_TABLE),
    ("intersect", OTHER_TABLE),
    ("except", OTHER_TABLE),
    ("recursive", OTHER_TABLE),
    ("insert", OTHER_STATEMENT),
    ("into", OTHER_STATEMENT),
    ("format", OTHER_STATEMENT),
    ("settings", OTHER_STATEMENT),
    ("explain", OTHER_STATEMENT),
    ("group", MANY_ROWS),
    ("having", MANY_ROWS),
    ("distinct", MANY_ROWS),
    ("over", MANY_ROWS),
    ("window", MANY_ROWS),
    ("qualify", MANY_ROWS),
    ("limit", MANY_ROWS),
    ("offset", MANY_ROWS),
    ("order", MANY_ROWS),
    ("final", MANY_ROWS),
    ("sample", MANY_ROWS),
];

const OTHER_TABLE: &str = "the materialized view sees the inserted rows of one table only";
const OTHER_STATEMENT: &str = "only a plain SELECT can be the query of a materialized view";
const MANY_ROWS: &str = "the materialized view sees one INSERT at a time, so each row of the table must give its rows by itself";

/// Why the text cannot be the SELECT of a table that is derived from `table`; as far as that shows without a server.
///
/// # Errors
/// The first reason, as a sentence that says what was expected, found, and what to do.
pub fn check_select(select: &str, table: &str) -> Result<(), String> {
    if let Some(found) = not_one_expression(select) {
        return Err(format!("expected one SELECT, found {found}; remove it"));
    }
    let words = words(select);
    if !words
        .first()
        .is_some_and(|word| word.is("select") || word.is("with"))
    {
        return Err("expected one SELECT statement; begin it with SELECT or WITH".to_owned());
    }
    for (index, word) in words.iter().enumerate() {
        check_word(word, index.checked_sub(1).map(|before| &words[before]))?;
        check_in(word, words.get(index + 1))?;
    }
    match places_of(&words, table).len() {
        1 => Ok(()),
        found => Err(format!(
            "expected `FROM {table}` once, with the table's plain name and without its database, found it {found} times"
        )),
    }
}

fn check_word(word: &Word<'_>, before: Option<&Word<'_>>) -> Result<(), String> {
    // `ARRAY JOIN` makes rows of one row; `* EXCEPT` leaves columns out.
    let is_row_wise = (word.is("join") && before.is_some_and(|before| before.is("array")))
        || (word.is("except") && before.is_some_and(|before| before.text == "*"));
    if is_row_wise || !word.is_plain {
        return Ok(());
    }
    match REFUSED.iter().find(|(refused, _)| word.is(refused)) {
        Some((_, why)) => Err(format!(
            "expected no `{}`: {why}; take it out, or quote it where it is a column's name",
            word.text
        )),
        None => Ok(()),
    }
}

/// `x IN other_table` reads a table without naming it in FROM.
fn check_in(word: &Word<'_>, next: Option<&Word<'_>>) -> Result<(), String> {
    match next {
        Some(next) if word.is("in") && word.is_plain && next.is_name => Err(format!(
            "expected a list in brackets after IN, found `{}`: {OTHER_TABLE}",
            next.text
        )),
        _ => Ok(()),
    }
}

/// The SELECT over `database.table` instead of the plain name.
#[must_use]
pub fn qualify_select(select: &str, database: &str, table: &str) -> Option<String> {
    let words = words(select);
    let [place] = places_of(&words, table)[..] else {
        return None;
    };
    let (start, length) = (words[place].start, words[place].text.len());
    let name = format!("{}.{}", quote(database), quote(table));
    Some(format!(
        "{}{name}{}",
        &select[..start],
        &select[start + length..]
    ))
}

/// The SELECT over the rows of another one: `rows` takes the place of the table.
#[must_use]
pub fn render_select_over(select: &str, table: &str, rows: &str) -> String {
    let words = words(select);
    let name = quote(table);
    match words.first() {
        Some(first) if first.is("with") => {
            let behind = first.start + first.text.len();
            format!("WITH {name} AS ({rows}),{}", &select[behind..])
        }
        _ => format!("WITH {name} AS ({rows}) {select}"),
    }
}

fn quote(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

struct Word<'a> {
    start: usize,
    text: &'a str,
    /// A name, quoted or not.
    is_name: bool,
    /// A name without quotes: may be a keyword.
    is_plain: bool,
}

impl Word<'_> {
    fn is(&self, keyword: &str) -> bool {
        self.is_plain && self.text.eq_ignore_ascii_case(keyword)
    }
}

fn words(select: &str) -> Vec<Word<'_>> {
    let mut start = 0;
    let mut words = Vec::new();
    for (text, piece) in pieces(select) {
        let is_name = piece == Piece::Name && !text.starts_with(|c: char| c.is_ascii_digit());
        if piece != Piece::Space {
            words.push(Word {
                start,
                text,
                is_name,
                is_plain: is_name && !text.starts_with(['`', '"']),
            });
        }
        start += text.len();
    }
    words
}

/// Places of the table's name behind FROM; a name behind a dot belongs to something else.
fn places_of(words: &[Word<'_>], table: &str) -> Vec<usize> {
    (1..words.len())
        .filter(|&index| {
            let is_table = words[index].is_name && unquote(words[index].text) == table
                || words[index].text == quote(table);
            let is_qualified = words.get(index + 1).is_some_and(|next| next.text == ".");
            words[index - 1].is("from") && is_table && !is_qualified
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;

    fn refused(select: &str) -> String {
        check_select(select, "ev").unwrap_err()
    }

    #[test]
    fn selects_that_work_row_by_row_pass() {
        for select in [
            "SELECT a FROM ev",
            "select a from `ev` where b in (1, 2)",
            "WITH upper(a) AS u SELECT u AS x FROM ev",
            "SELECT a, t AS tag FROM ev ARRAY JOIN tags AS t",
            "SELECT a, arrayJoin(tags) AS tag, 'GROUP BY; --' AS note FROM ev AS e",
            "SELECT * EXCEPT (b) FROM ev",
            "SELECT a FROM (SELECT a FROM ev)",
            "SELECT `order`, `limit` FROM ev WHERE a NOT IN ('x')",
        ] {
            assert_eq!(check_select(select, "ev"), Ok(()), "{select}");
        }
    }

    #[test]
    fn selects_over_several_rows_tables_or_statements_are_refused() {
        for (select, word) in [
            ("SELECT count() FROM ev GROUP BY a", "`GROUP`"),
            ("SELECT DISTINCT a FROM ev", "`DISTINCT`"),
            ("SELECT a FROM ev FINAL", "`FINAL`"),
            ("SELECT a FROM ev LIMIT 1", "`LIMIT`"),
            ("SELECT a FROM ev ORDER BY a", "`ORDER`"),
            ("SELECT sum(a) OVER () FROM ev", "`OVER`"),
            ("SELECT a FROM ev JOIN x USING a", "`JOIN`"),
            ("SELECT a FROM ev UNION ALL SELECT 1", "`UNION`"),
            ("SELECT a FROM ev SETTINGS max_threads = 1", "`SETTINGS`"),
            ("WITH 1 AS x INSERT INTO t SELECT a FROM ev", "`INSERT`"),
            ("SELECT a FROM ev WHERE a IN other", "`other`"),
        ] {
            let message = refused(select);
            assert!(message.contains(word), "{select}: {message}");
        }
        assert!(refused("SELECT 1; DROP TABLE ev").contains("a semicolon"));
        assert!(refused("DROP TABLE ev").contains("begin it with SELECT"));
    }

    #[test]
    fn the_table_is_named_once_and_plainly() {
        for select in [
            "SELECT a FROM other",
            "SELECT a FROM ops.ev",
            "SELECT a FROM ev.x",
            "SELECT a FROM ev WHERE a = (SELECT a FROM ev)",
        ] {
            assert!(refused(select).contains("`FROM ev` once"), "{select}");
        }
    }

    #[test]
    fn the_tables_name_gets_its_database_and_nothing_else_does() {
        assert_eq!(
            qualify_select("SELECT ev.a, 'FROM ev' FROM ev AS e", "o`p", "ev").unwrap(),
            "SELECT ev.a, 'FROM ev' FROM `o\\`p`.`ev` AS e"
        );
        assert_eq!(qualify_select("SELECT 1", "d", "ev"), None);
    }

    #[test]
    fn other_rows_take_the_tables_place() {
        assert_eq!(
            render_select_over("SELECT a FROM ev", "ev", "SELECT 1 AS a"),
            "WITH `ev` AS (SELECT 1 AS a) SELECT a FROM ev"
        );
        assert_eq!(
            render_select_over("WITH 1 AS x SELECT x FROM ev", "ev", "SELECT 2"),
            "WITH `ev` AS (SELECT 2), 1 AS x SELECT x FROM ev"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_looked_at_without_a_panic(text in any::<String>()) {
            let _ = (check_select(&text, "ev"), qualify_select(&text, "d", "ev"), render_select_over(&text, "ev", "x"));
        }
    }
}
