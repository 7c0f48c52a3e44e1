//! Codecs and index types: `Delta(8), ZSTD(1)`, `text(tokenizer = 'ngrams')`, read by a grammar of their own and printed
//! anew, so that nothing else gets into a statement with them.
//!
//! Must not be here: which codecs and index types there are (the server knows).

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

use thiserror::Error;

use crate::data_type::quote_literal;

/// A text that is no codec or index type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "expected {expected}, found {found}; write for example Delta(8), ZSTD(1) or bloom_filter(0.01)"
)]
pub struct ClauseError {
    expected: &'static str,
    found: String,
}

/// A name with arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    name: String,
    arguments: Vec<Argument>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Argument {
    key: Option<String>,
    value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Number(String),
    Literal(String),
    Call(Call),
}

/// A codec in canonical text.
///
/// # Errors
/// Where the text is not a list of names with numbers in brackets.
pub fn parse_codec(text: &str) -> Result<String, ClauseError> {
    let calls = parse_calls(text)?;
    Ok(join(&calls))
}

/// An index type in canonical text.
///
/// # Errors
/// Where the text is not one name with arguments in brackets.
pub fn parse_index_type(text: &str) -> Result<String, ClauseError> {
    let calls = parse_calls(text)?;
    match calls.as_slice() {
        [one] => Ok(one.to_string()),
        _ => Err(error("one index type", text)),
    }
}

/// True where the server's codec is the declared one; the server fills in arguments that were left out.
#[must_use]
pub fn is_same_codec(declared: &str, found: &str) -> bool {
    let found = found
        .strip_prefix("CODEC(")
        .and_then(|rest| rest.strip_suffix(')'))
        .unwrap_or(found);
    let (Ok(declared), Ok(found)) = (parse_calls(declared), parse_calls(found)) else {
        return declared == found;
    };
    let pairs = declared.iter().zip(&found);
    declared.len() == found.len() && pairs.into_iter().all(|(a, b)| is_same_step(a, b))
}

fn is_same_step(declared: &Call, found: &Call) -> bool {
    if !declared.name.eq_ignore_ascii_case(&found.name) {
        return false;
    }
    let given: Vec<_> = found.arguments.iter().map(ToString::to_string).collect();
    if !declared.arguments.is_empty() {
        return declared.arguments == found.arguments;
    }
    match declared.name.to_ascii_uppercase().as_str() {
        "ZSTD" => given.is_empty() || given == ["1"],
        "LZ4HC" => given.is_empty() || given == ["9"] || given == ["0"],
        // The others take the width of the column's type.
        _ => true,
    }
}

/// True where two index types are one, whatever their case.
#[must_use]
pub fn is_same_index_type(declared: &str, found: &str) -> bool {
    match (parse_calls(declared), parse_calls(found)) {
        (Ok(a), Ok(b)) => join(&a).eq_ignore_ascii_case(&join(&b)),
        _ => declared == found,
    }
}

fn join(calls: &[Call]) -> String {
    let texts: Vec<_> = calls.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

fn error(expected: &'static str, found: &str) -> ClauseError {
    let found = if found.is_empty() { "nothing" } else { found };
    ClauseError {
        expected,
        found: format!("`{found}`"),
    }
}

type Input<'a> = Peekable<Chars<'a>>;

/// Deepest nesting of arguments.
const MAX_DEPTH: usize = 8;

fn parse_calls(text: &str) -> Result<Vec<Call>, ClauseError> {
    let mut input = text.chars().peekable();
    let mut calls = vec![parse_call(&mut input, 0)?];
    while take(&mut input, ',') {
        calls.push(parse_call(&mut input, 0)?);
    }
    skip_space(&mut input);
    match input.peek() {
        None => Ok(calls),
        Some(_) => Err(error("the end of the text", &input.collect::<String>())),
    }
}

fn parse_call(input: &mut Input<'_>, depth: usize) -> Result<Call, ClauseError> {
    if depth > MAX_DEPTH {
        return Err(error("fewer brackets inside each other", "one more"));
    }
    let name = parse_name(input)?;
    let mut arguments = Vec::new();
    if take(input, '(') && !take(input, ')') {
        arguments.push(parse_argument(input, depth)?);
        while take(input, ',') {
            arguments.push(parse_argument(input, depth)?);
        }
        if !take(input, ')') {
            return Err(error("a closing bracket", &input.collect::<String>()));
        }
    }
    Ok(Call { name, arguments })
}

fn parse_argument(input: &mut Input<'_>, depth: usize) -> Result<Argument, ClauseError> {
    let value = parse_value(input, depth)?;
    match value {
        Value::Call(call) if call.arguments.is_empty() && take(input, '=') => Ok(Argument {
            key: Some(call.name),
            value: parse_value(input, depth)?,
        }),
        value => Ok(Argument { key: None, value }),
    }
}

fn parse_value(input: &mut Input<'_>, depth: usize) -> Result<Value, ClauseError> {
    skip_space(input);
    match input.peek() {
        Some('\'') => parse_literal(input).map(Value::Literal),
        Some(c) if c.is_ascii_digit() || matches!(c, '-' | '.') => {
            parse_number(input).map(Value::Number)
        }
        _ => parse_call(input, depth + 1).map(Value::Call),
    }
}

fn parse_name(input: &mut Input<'_>) -> Result<String, ClauseError> {
    skip_space(input);
    let name = take_while(input, |c| c.is_ascii_alphanumeric() || c == '_');
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Ok(name);
    }
    Err(error("a name", &(name + &input.collect::<String>())))
}

fn parse_number(input: &mut Input<'_>) -> Result<String, ClauseError> {
    let text = take_while(input, |c| {
        c.is_ascii_digit() || matches!(c, '-' | '.' | 'e' | 'E')
    });
    if let Ok(number) = text.parse::<i64>() {
        return Ok(number.to_string());
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number.to_string()),
        _ => Err(error("a number", &text)),
    }
}

fn parse_literal(input: &mut Input<'_>) -> Result<String, ClauseError> {
    let mut text = String::new();
    input.next();
    loop {
        match input.next() {
            Some('\'') => return Ok(text),
            Some('\\') => match input.next() {
                Some(c @ ('\\' | '\'')) => text.push(c),
                _ => return Err(error("a text without escapes", &text)),
            },
            Some(c) => text.push(c),
            None => return Err(error("a closing quote", &text)),
        }
    }
}

fn take(input: &mut Input<'_>, wanted: char) -> bool {
    skip_space(input);
    input.next_if_eq(&wanted).is_some()
}

fn skip_space(input: &mut Input<'_>) {
    take_while(input, char::is_whitespace);
}

fn take_while(input: &mut Input<'_>, wanted: impl Fn(char) -> bool) -> String {
    let mut text = String::new();
    while let Some(c) = input.next_if(|c| wanted(*c)) {
        text.push(c);
    }
    text
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.arguments.is_empty() {
            return Ok(());
        }
        let arguments: Vec<_> = self.arguments.iter().map(ToString::to_string).collect();
        write!(f, "({})", arguments.join(", "))
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(key) = &self.key {
            write!(f, "{key} = ")?;
        }
        match &self.value {
            Value::Number(number) => f.write_str(number),
            Value::Literal(text) => f.write_str(&quote_literal(text)),
            Value::Call(call) => call.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn codecs_and_index_types_are_read_and_printed_in_one_form() {
        assert_eq!(parse_codec(" Delta( 8 ),ZSTD").unwrap(), "Delta(8), ZSTD");
        for text in [
            "minmax",
            "bloom_filter(0.01)",
            "text(tokenizer = 'it\\'s')",
            "text(tokenizer = ngrams(3), a = 'x')",
            "vector_similarity('hnsw', 'L2Distance', 3)",
        ] {
            assert_eq!(parse_index_type(text).unwrap(), text);
        }
        assert_eq!(parse_index_type("set(0100)").unwrap(), "set(100)");
    }

    #[test]
    fn nothing_else_gets_through() {
        for text in [
            "",
            "ZSTD) COMMENT 'x'",
            "ZSTD(1",
            "ZSTD; DROP TABLE t",
            "ZSTD -- x",
            "a b",
            "1",
            "`x`",
            "f('a)",
            "f(a + 1)",
            "minmax GRANULARITY 4",
            "f(now())) ",
        ] {
            assert!(parse_codec(text).is_err(), "{text}");
        }
        assert!(parse_index_type("minmax, set(1)").is_err());
    }

    #[test]
    fn what_the_server_fills_in_is_no_difference() {
        for (declared, found) in [
            ("ZSTD", "CODEC(ZSTD(1))"),
            ("Delta, ZSTD(3)", "CODEC(Delta(4), ZSTD(3))"),
            ("lz4hc", "CODEC(LZ4HC(9))"),
            ("DoubleDelta, LZ4", "CODEC(DoubleDelta, LZ4)"),
        ] {
            assert!(is_same_codec(declared, found), "{declared} {found}");
        }
        for (declared, found) in [
            ("ZSTD", "CODEC(ZSTD(3))"),
            ("Delta(8), ZSTD", "CODEC(Delta(4), ZSTD(1))"),
            ("LZ4", ""),
            ("LZ4", "CODEC(Delta(4), LZ4)"),
        ] {
            assert!(!is_same_codec(declared, found), "{declared} {found}");
        }
        assert!(is_same_index_type(
            "bloom_filter(0.010)",
            "Bloom_Filter(0.01)"
        ));
        assert!(!is_same_index_type("set(1)", "set(2)"));
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back_as_itself(text in "[a-zA-Z0-9_(), '=.\\\\-]{0,24}") {
            if let Ok(printed) = parse_codec(&text) {
                prop_assert_eq!(parse_codec(&printed), Ok(printed.clone()));
            }
        }

        #[test]
        fn any_text_is_looked_at_without_a_panic(text in any::<String>()) {
            let _ = (parse_codec(&text), is_same_codec(&text, &text), is_same_index_type(&text, &text));
        }
    }
}
