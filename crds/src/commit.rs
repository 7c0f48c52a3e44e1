//! The metadata of a Kafka commit: where a partition stands and which ranges are in flight; and the tokens of ranges.
//!
//! Must not be here: sending commits, deciding what to commit.

use std::fmt;

use thiserror::Error;

pub use token::{Range, range_token, set_token};

mod parse;
mod token;

/// Longest metadata that is written, in bytes; brokers take 4,096 by default.
pub const MAX_METADATA_BYTES: usize = 1024;

/// Most ranges that a plan may name (8 while running, 32 while splitting).
pub const MAX_RANGES: usize = 32;

/// What goes with every committed offset of ours.
///
/// Keys that this version does not know are skipped when it is read: they are hints for newer versions. A format
/// whose old keys mean something else starts with another word than `cs1`, and is foreign here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitMetadata {
    /// `s`: the offset that this metadata was committed with; another one at the broker means the position was moved.
    pub offset: i64,
    /// `d`: first 8 hex digits of the table's uuid.
    pub table: String,
    /// `t`: the topic's id, as Kafka prints it.
    pub topic_id: String,
    /// `n`: partitions of the topic at the sink's first start.
    pub first_partitions: u32,
    /// `e`: the epoch of the position.
    pub epoch: Epoch,
    /// `m`: names the mapping that the plan was cut under, 8 to 16 hex digits.
    pub mapping: String,
    /// `w`: when the oldest range of the plan was first declared, in seconds since 1970; 0 with an empty plan.
    pub declared_at_s: u64,
    /// `q`: sequence of commits of one session.
    pub sequence: u64,
    /// `p`: exact ends of the declared ranges, ascending; each starts where the one before ends, the first at `offset`.
    pub ends: Vec<i64>,
}

/// 16 hex digits, drawn whenever a session starts from a position that is not ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch {
    digits: String,
    reset: bool,
}

impl Epoch {
    /// From 16 random hex digits; `reset`: a position existed before, so rows of it may be in the table.
    ///
    /// # Errors
    /// The digits are not 16 lower-case hex digits.
    pub fn new(digits: &str, reset: bool) -> Result<Self, MetadataError> {
        if digits.len() == 16 && is_hex(digits) {
            return Ok(Self {
                digits: digits.to_owned(),
                reset,
            });
        }
        Err(MetadataError::BadValue {
            key: 'e',
            expected: "16 lower-case hex digits",
            found: shorten(digits),
        })
    }

    /// An epoch from a random number.
    #[must_use]
    pub fn from_random(random: u64, reset: bool) -> Self {
        Self {
            digits: format!("{random:016x}"),
            reset,
        }
    }

    /// True where a position existed before this epoch began.
    #[must_use]
    pub const fn is_reset(&self) -> bool {
        self.reset
    }

    /// Reads the printed form.
    ///
    /// # Errors
    /// Not 16 lower-case hex digits with or without an `r` behind them.
    pub fn parse(text: &str) -> Result<Self, MetadataError> {
        match text.strip_suffix('r') {
            Some(digits) => Self::new(digits, true),
            None => Self::new(text, false),
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.digits)?;
        f.write_str(if self.reset { "r" } else { "" })
    }
}

/// Metadata that is not ours, or that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetadataError {
    /// Empty, or without our mark: an admin's tool or another program committed it.
    #[error(
        "expected commit metadata that starts with `cs1;`, found other text; the position is not this sink's"
    )]
    Foreign,
    /// A key that must be there is not.
    #[error(
        "expected key `{key}` in the commit metadata, found none; the position is not this sink's"
    )]
    MissingKey {
        /// The key.
        key: char,
    },
    /// A key is there twice.
    #[error(
        "expected key `{key}` once in the commit metadata, found it twice; the position is not this sink's"
    )]
    DuplicateKey {
        /// The key.
        key: char,
    },
    /// A value is not of its form.
    #[error(
        "expected {expected} for key `{key}` of the commit metadata, found `{found}`; the position is not this sink's"
    )]
    BadValue {
        /// The key.
        key: char,
        /// The form.
        expected: &'static str,
        /// The value, shortened.
        found: String,
    },
    /// The rendered text would not be taken by every broker.
    #[error(
        "expected at most {MAX_METADATA_BYTES} bytes of commit metadata, found {bytes}; declare fewer ranges"
    )]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
}

impl MetadataError {
    /// Reason for a condition or a hold.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "BrokerLimitsCommitMetadata",
            _ => "ForeignCommitMetadata",
        }
    }
}

impl CommitMetadata {
    /// Reads what a broker returned; any bytes are allowed.
    ///
    /// # Errors
    /// It is not metadata of ours, and why.
    pub fn parse(bytes: &[u8]) -> Result<Self, MetadataError> {
        parse::parse(bytes)
    }

    /// The text to commit, in ASCII.
    ///
    /// # Errors
    /// A value that cannot be read back, or a text above [`MAX_METADATA_BYTES`].
    pub fn render(&self) -> Result<String, MetadataError> {
        let ends: Vec<String> = self.ends.iter().map(ToString::to_string).collect();
        let text = format!(
            "cs1;s={};d={};t={};n={};e={};m={};w={};q={};p={}",
            self.offset,
            self.table,
            self.topic_id,
            self.first_partitions,
            self.epoch,
            self.mapping,
            self.declared_at_s,
            self.sequence,
            ends.join(",")
        );
        if text.len() > MAX_METADATA_BYTES {
            return Err(MetadataError::TooLong { bytes: text.len() });
        }
        // What is written here must be readable by the next owner: the reader is the judge.
        Self::parse(text.as_bytes())?;
        Ok(text)
    }

    /// True where the broker's offset is the one this was written with; false: somebody moved the position.
    #[must_use]
    pub const fn matches(&self, committed_offset: i64) -> bool {
        self.offset == committed_offset
    }

    /// The declared ranges in order.
    #[must_use]
    pub fn plan(&self, partition: i32) -> Vec<Range> {
        let mut start = self.offset;
        self.ends
            .iter()
            .map(|&end| {
                let topic_id = self.topic_id.clone();
                let range = Range {
                    topic_id,
                    partition,
                    epoch: self.epoch.clone(),
                    start,
                    end,
                };
                start = end;
                range
            })
            .collect()
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn shorten(text: &str) -> String {
    text.escape_debug().take(40).collect()
}

#[cfg(test)]
mod tests;
