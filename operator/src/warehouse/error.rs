//! What went wrong between us and ClickHouse: errors as values, read from what the client and the server say.
//!
//! Must not be here: asking the server, what follows from an error.

use std::error::Error as StdError;

use clickhouse::error::Error as ClientError;

/// Why ClickHouse gave no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WarehouseError {
    /// No connection, or it broke.
    #[error(
        "ClickHouse at {url} cannot be reached: {detail}; is it running, and is spec.clickhouse.url right?"
    )]
    Unreachable {
        /// The address, without credentials.
        url: String,
        /// What the connection said.
        detail: String,
    },
    /// No answer in time.
    #[error("ClickHouse at {url} gave no answer within {deadline_ms} ms")]
    TimedOut {
        /// The address, without credentials.
        url: String,
        /// The deadline that passed, in milliseconds.
        deadline_ms: u64,
    },
    /// The server answered with an exception.
    #[error("ClickHouse refuses with code {code}: {message}")]
    Server {
        /// The server's error code.
        code: u32,
        /// The server's text.
        message: String,
    },
    /// An answer that cannot be read.
    #[error(
        "ClickHouse at {url} gave an answer that cannot be read: {detail}; is that a ClickHouse HTTP port?"
    )]
    Reply {
        /// The address, without credentials.
        url: String,
        /// What was wrong with it.
        detail: String,
    },
}

impl WarehouseError {
    /// A stable word for status, events and scripts.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => "ClickHouseUnreachable",
            Self::Reply { .. } => "ClickHouseReplyUnreadable",
            Self::Server {
                code: 192..=194 | 516,
                ..
            } => "ClickHouseUnauthenticated",
            Self::Server {
                code: 164 | 195 | 452 | 497 | 511 | 512,
                ..
            } => "ClickHouseAccessDenied",
            Self::Server { .. } => "ClickHouseRefused",
        }
    }

    /// True where another DDL statement was in the way: the same one goes through a moment later.
    #[must_use]
    pub const fn is_ddl_conflict(&self) -> bool {
        matches!(
            self,
            Self::Server {
                code: 473 | 517,
                ..
            }
        )
    }

    /// True where what was to be made is there already, and what was to be removed is not.
    #[must_use]
    pub fn is_there_already(&self) -> bool {
        match self {
            Self::Server { code: 15 | 57, .. } => true,
            Self::Server { code: 36, message } => message.contains("have any table TTL"),
            _ => false,
        }
    }

    /// True where the fault is in the statement itself: asking again gives the same answer.
    #[must_use]
    pub const fn is_about_the_statement(&self) -> bool {
        match self {
            Self::Server { code, .. } => !is_state_of_the_server(*code),
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Reply { .. } => false,
        }
    }
}

/// Codes that say something about the server, the account or the moment, not about the statement.
pub(super) const fn is_state_of_the_server(code: u32) -> bool {
    matches!(
        code,
        3 | 23
            | 24
            | 95
            | 96
            | 159
            | 160
            | 164
            | 173
            | 192..=195
            | 198
            | 201..=203
            | 209
            | 210
            | 225
            | 236
            | 241..=244
            | 252
            | 254
            | 279
            | 285
            | 286
            | 319
            | 394
            | 425
            | 439
            | 452
            | 473
            | 497
            | 499
            | 511
            | 512
            | 516
            | 517
            | 999..=1002
    )
}

/// What an error of the client's means.
pub(super) fn read_client_error(url: &str, error: &ClientError) -> WarehouseError {
    let url = url.to_owned();
    match error {
        ClientError::BadResponse(text) => match parse_exception(text) {
            Some((code, message)) => WarehouseError::Server { code, message },
            None => WarehouseError::Reply {
                url,
                detail: text.chars().take(200).collect(),
            },
        },
        ClientError::Network(_) | ClientError::TimedOut => WarehouseError::Unreachable {
            url,
            detail: render_chain(error),
        },
        other => WarehouseError::Reply {
            url,
            detail: render_chain(other),
        },
    }
}

/// `Code: 60. DB::Exception: text. (NAME) (version …)` into code and text.
fn parse_exception(text: &str) -> Option<(u32, String)> {
    let rest = text.trim().strip_prefix("Code: ")?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let code = rest[..digits].parse().ok()?;
    let message = rest[digits..].trim_start_matches('.').trim();
    let message = message.strip_prefix("DB::Exception: ").unwrap_or(message);
    let message = message
        .find(" (version ")
        .map_or(message, |end| &message[..end]);
    Some((code, cut_scope(message).trim().to_owned()))
}

/// The server repeats the whole statement after `In scope`; a person wants the fault, and its name.
fn cut_scope(message: &str) -> String {
    match (message.find(": In scope "), message.rfind(" (")) {
        (Some(start), Some(name)) if start < name => {
            format!("{}{}", &message[..start], &message[name..])
        }
        _ => message.to_owned(),
    }
}

/// An error and its causes in one line; each cause once.
fn render_chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// The address without what stands before an `@`.
pub(super) fn render_address(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}{}", &url[..scheme + 3], &url[at + 1..])
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn an_exception_is_read_into_code_and_text_without_the_version() {
        let text = "Code: 516. DB::Exception: nobody: Authentication failed. (AUTHENTICATION_FAILED) (version 26.7.2.1)\n";
        let expected = (
            516,
            "nobody: Authentication failed. (AUTHENTICATION_FAILED)".to_owned(),
        );
        assert_eq!(parse_exception(text), Some(expected));
        assert_eq!(parse_exception("500 Internal Server Error"), None);
        assert_eq!(parse_exception("Code: 60"), Some((60, String::new())));
    }

    #[test]
    fn the_statement_that_the_server_repeats_is_left_out() {
        let text = "Code: 47. DB::Exception: Unknown identifier `s`: In scope SELECT f(s). (UNKNOWN_IDENTIFIER)";
        assert_eq!(
            parse_exception(text).unwrap().1,
            "Unknown identifier `s` (UNKNOWN_IDENTIFIER)"
        );
    }

    #[test]
    fn credentials_in_an_address_are_never_shown() {
        assert_eq!(
            render_address("http://user:secret@host:8123"),
            "http://host:8123"
        );
        assert_eq!(render_address("http://host:8123"), "http://host:8123");
    }

    #[test]
    fn a_wrong_password_is_not_the_statements_fault_and_a_syntax_error_is() {
        let error = |code| WarehouseError::Server {
            code,
            message: String::new(),
        };
        assert_eq!(error(516).reason(), "ClickHouseUnauthenticated");
        assert!(!error(516).is_about_the_statement());
        assert_eq!(error(62).reason(), "ClickHouseRefused");
        assert!(error(62).is_about_the_statement());
    }
}
