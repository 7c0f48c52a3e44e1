//! SQL text: quoting of identifiers and literals, and the first look at an expression that a user wrote.
//!
//! Must not be here: whole statements (`ddl.rs` renders those), clients. Everything is a pure function of text.

use std::str::Chars;

use clickhouse_sink_crds::data_type::{quote_identifier, quote_literal};
use clickhouse_sink_crds::ddl;

/// Why a text cannot be one expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// Nothing but white space.
    #[error("expected an expression, found nothing")]
    Empty,
    /// A character that has no place outside of quotes, or could hide where a quote ends.
    #[error(
        "{found:?} is not allowed outside of quotes: write one plain expression, without comments"
    )]
    Forbidden {
        /// The character.
        found: char,
    },
    /// A comment would hide the rest of the statement.
    #[error("comments are not allowed: write one plain expression")]
    Comment,
    /// Brackets that do not match.
    #[error("the brackets do not match at {found:?}")]
    Brackets {
        /// The bracket, or `end` where one is missing.
        found: String,
    },
    /// A quote that is not closed.
    #[error("the quote {quote} is not closed")]
    OpenQuote {
        /// The quote.
        quote: char,
    },
    /// A comma outside of brackets.
    #[error("expected one expression, found a list: put it in brackets to make a tuple")]
    List,
}

/// Quotes a name in back-quotes, whatever is in it.
#[must_use]
pub fn render_identifier(name: &str) -> String {
    quote_identifier(name)
}

/// Quotes a text in single quotes, whatever is in it.
#[must_use]
pub fn render_literal(text: &str) -> String {
    quote_literal(text)
}

/// `database.table`, both quoted.
#[must_use]
pub fn render_table_name(database: &str, name: &str) -> String {
    ddl::render_table_name(database, name)
}

/// True where a name needs no quotes: ASCII letters, digits, underscore, not starting with a digit.
#[must_use]
pub fn is_plain_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Checks that a text can be one expression whatever stands around it: quotes closed, brackets matched, no list, no
/// comment, no statement end, nothing that ClickHouse's lexer may read as another kind of quote.
/// Whether it *is* an expression is for the server to say.
///
/// # Errors
/// The first reason why it cannot be one.
pub fn check_expression(text: &str) -> Result<(), ExpressionError> {
    if text.trim().is_empty() {
        return Err(ExpressionError::Empty);
    }
    let mut open = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        check_char(c, &mut chars, &mut open)?;
    }
    match open.pop() {
        Some(_) => Err(ExpressionError::Brackets {
            found: "end".to_owned(),
        }),
        None => Ok(()),
    }
}

fn check_char(c: char, rest: &mut Chars<'_>, open: &mut Vec<char>) -> Result<(), ExpressionError> {
    match c {
        '\'' | '"' | '`' => skip_quoted(c, rest),
        '(' | '[' | '{' => {
            open.push(closing_bracket(c));
            Ok(())
        }
        ')' | ']' | '}' if open.pop() == Some(c) => Ok(()),
        ')' | ']' | '}' => Err(ExpressionError::Brackets {
            found: c.to_string(),
        }),
        ',' if open.is_empty() => Err(ExpressionError::List),
        '-' | '/' if starts_comment(c, rest) => Err(ExpressionError::Comment),
        c if is_forbidden(c) => Err(ExpressionError::Forbidden { found: c }),
        _ => Ok(()),
    }
}

const fn closing_bracket(c: char) -> char {
    match c {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}

/// `--` and `/*`; `//` is no comment to ClickHouse today, but no expression needs it.
fn starts_comment(c: char, rest: &Chars<'_>) -> bool {
    match rest.clone().next() {
        Some('-') => c == '-',
        Some('*' | '/') => c == '/',
        _ => false,
    }
}

/// `;` ends a statement, `#` starts a comment, `$` may start a heredoc, and typographic quotes are quotes to ClickHouse.
fn is_forbidden(c: char) -> bool {
    match c {
        ';' | '#' | '$' | '\\' => true,
        '\n' | '\r' | '\t' => false,
        c => c.is_control() || !c.is_ascii(),
    }
}

/// Skips to the end of a quoted part. A doubled quote is read as two quoted parts, which has the same end.
fn skip_quoted(quote: char, rest: &mut Chars<'_>) -> Result<(), ExpressionError> {
    while let Some(c) = rest.next() {
        if c == quote {
            return Ok(());
        }
        if c == '\\' {
            rest.next();
        }
    }
    Err(ExpressionError::OpenQuote { quote })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_cannot_close_its_own_quotes() {
        assert_eq!(
            render_identifier("a`; DROP TABLE x; --"),
            "`a\\`; DROP TABLE x; --`"
        );
        assert_eq!(render_identifier("back\\`slash"), "`back\\\\\\`slash`");
        assert_eq!(render_literal("it's\n"), "'it\\'s\\n'");
        assert_eq!(render_table_name("a.b", "c"), "`a.b`.`c`");
    }

    #[test]
    fn ordinary_expressions_pass() {
        for text in [
            "toYYYYMM(ts)",
            "(a, b)",
            "ts + INTERVAL 400 DAY",
            "'it''s; -- fine \\' here'",
            "`odd ; name`",
            "a - 1 / 2",
            "[1, 2]",
            "map('a', 1)",
            "'Zürich'",
        ] {
            assert_eq!(check_expression(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn text_that_could_break_out_of_its_place_is_refused() {
        let refused = |text: &str| check_expression(text).unwrap_err();
        assert_eq!(refused("  "), ExpressionError::Empty);
        assert_eq!(
            refused("1), (2"),
            ExpressionError::Brackets {
                found: ")".to_owned()
            }
        );
        assert_eq!(
            refused("f(1"),
            ExpressionError::Brackets {
                found: "end".to_owned()
            }
        );
        assert_eq!(
            refused("f(1]"),
            ExpressionError::Brackets {
                found: "]".to_owned()
            }
        );
        assert_eq!(refused("1, 2"), ExpressionError::List);
        assert_eq!(
            refused("1; DROP TABLE x"),
            ExpressionError::Forbidden { found: ';' }
        );
        assert_eq!(
            refused("$$'$$ ) , ( $$'$$"),
            ExpressionError::Forbidden { found: '$' }
        );
        assert_eq!(refused("1 -- x"), ExpressionError::Comment);
        assert_eq!(refused("1 /* x"), ExpressionError::Comment);
        assert_eq!(refused("1 # x"), ExpressionError::Forbidden { found: '#' });
        assert_eq!(refused("‘x’"), ExpressionError::Forbidden { found: '‘' });
        assert_eq!(refused("'x\\'"), ExpressionError::OpenQuote { quote: '\'' });
    }

    proptest! {
        #[test]
        fn any_quoted_text_is_one_expression_and_reads_back(text in any::<String>()) {
            for quoted in [render_identifier(&text), render_literal(&text)] {
                prop_assert_eq!(check_expression(&quoted), Ok(()));
                prop_assert_eq!(unquote(&quoted), text.clone());
            }
        }

        #[test]
        fn an_accepted_expression_never_closes_a_bracket_it_did_not_open(text in "[a-z(),'`;\\\\ \\[\\]-]{0,12}") {
            if check_expression(&text).is_ok() {
                let wrapped = format!("({text})");
                prop_assert_eq!(check_expression(&wrapped), Ok(()));
            }
        }
    }

    /// The server's reading of a quoted text.
    fn unquote(quoted: &str) -> String {
        let mut chars = quoted.chars();
        chars.next();
        chars.next_back();
        let mut out = String::new();
        while let Some(c) = chars.next() {
            out.push(match (c, c == '\\') {
                (_, true) => match chars.next().unwrap() {
                    '0' => '\0',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                },
                (c, false) => c,
            });
        }
        out
    }
}
