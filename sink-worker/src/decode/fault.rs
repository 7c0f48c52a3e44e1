//! Why a record is rejected, in words that never hold any of its values.
//!
//! Must not be here: what happens to a rejected record.

/// What was wrong with a record; stable names for metrics and dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectCode {
    /// The payload is not one JSON object.
    NotJson,
    /// The value is of a kind that the column does not take.
    WrongType,
    /// The value is of the right kind but does not fit.
    OutOfRange,
    /// The value has digits that the column would lose.
    Inexact,
    /// The record has no such path.
    Missing,
    /// NULL into a column that has none.
    Null,
    /// One object has a key twice.
    DuplicateKey,
    /// A field that no column takes, where those are refused.
    UnknownField,
    /// Nested deeper than 64 levels.
    TooDeep,
    /// The payload is larger than allowed.
    TooLarge,
    /// The payload is not UTF-8.
    InvalidUtf8,
    /// Not a date or time, or one that its time zone does not have exactly once.
    BadTimestamp,
    /// A record without payload.
    Tombstone,
    /// A refusal by the server that is this record's alone.
    RefusedByServer,
}

impl RejectCode {
    /// The name as it is written to the rejected table and to metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotJson => "NotJson",
            Self::WrongType => "WrongType",
            Self::OutOfRange => "OutOfRange",
            Self::Inexact => "Inexact",
            Self::Missing => "Missing",
            Self::Null => "Null",
            Self::DuplicateKey => "DuplicateKey",
            Self::UnknownField => "UnknownField",
            Self::TooDeep => "TooDeep",
            Self::TooLarge => "TooLarge",
            Self::InvalidUtf8 => "InvalidUtf8",
            Self::BadTimestamp => "BadTimestamp",
            Self::Tombstone => "Tombstone",
            Self::RefusedByServer => "RefusedByServer",
        }
    }
}

/// A record that makes no row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", column.as_deref().map(|name| format!("column {name}: ")).unwrap_or_default())]
pub struct Rejection {
    /// The column whose value was at fault; absent where it was the record as a whole.
    pub column: Option<String>,
    /// What kind of fault.
    pub code: RejectCode,
    /// What was expected and what was found; never the value itself.
    pub message: String,
}

/// A fault as it travels up from the value, one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Syntax,
    CutShort,
    Trailing,
    Escape,
    ControlCharacter,
    InvalidUtf8,
    TooLarge,
    TooDeep,
    NotObject,
    WrongType,
    BadText,
    TextTooLong,
    OutOfRange,
    NotFinite,
    NotMember,
    Inexact,
    Missing,
    MissingElement,
    ElementCount,
    Null,
    DuplicateKey,
    UnknownField,
    BadTimestamp,
    NoSuchTime,
    TimeTwice,
    NoUnit,
}

impl Fault {
    /// True where the record is not valid JSON (or not to be read on): no column's `onError` can mend that.
    pub(crate) fn spoils_record(self) -> bool {
        matches!(
            self,
            Self::Syntax
                | Self::CutShort
                | Self::Trailing
                | Self::Escape
                | Self::ControlCharacter
                | Self::InvalidUtf8
                | Self::TooLarge
                | Self::TooDeep
                | Self::DuplicateKey
                | Self::UnknownField
        )
    }

    /// True where a nearest value exists.
    pub(crate) fn can_be_clamped(self) -> bool {
        matches!(
            self,
            Self::OutOfRange | Self::Inexact | Self::NoSuchTime | Self::TimeTwice
        )
    }

    pub(crate) fn code(self) -> RejectCode {
        match self {
            Self::Syntax
            | Self::CutShort
            | Self::Trailing
            | Self::Escape
            | Self::ControlCharacter => RejectCode::NotJson,
            Self::InvalidUtf8 => RejectCode::InvalidUtf8,
            Self::TooLarge => RejectCode::TooLarge,
            Self::TooDeep => RejectCode::TooDeep,
            Self::NotObject
            | Self::WrongType
            | Self::BadText
            | Self::ElementCount
            | Self::NoUnit => RejectCode::WrongType,
            Self::TextTooLong | Self::OutOfRange | Self::NotFinite | Self::NotMember => {
                RejectCode::OutOfRange
            }
            Self::Inexact => RejectCode::Inexact,
            Self::Missing | Self::MissingElement => RejectCode::Missing,
            Self::Null => RejectCode::Null,
            Self::DuplicateKey => RejectCode::DuplicateKey,
            Self::UnknownField => RejectCode::UnknownField,
            Self::BadTimestamp | Self::NoSuchTime | Self::TimeTwice => RejectCode::BadTimestamp,
        }
    }

    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Syntax => "the payload is not valid JSON",
            Self::CutShort => "the payload ends in the middle of the JSON object",
            Self::Trailing => {
                "the payload goes on after the JSON object; send one object per record"
            }
            Self::Escape => {
                "a JSON string has an escape that is not valid, or half of a surrogate pair"
            }
            Self::ControlCharacter => "a JSON string has a control character that is not escaped",
            Self::InvalidUtf8 => "the payload is not valid UTF-8",
            Self::TooLarge => "the payload is larger than format.maxRecordBytes",
            Self::TooDeep => "the payload is nested deeper than 64 levels",
            Self::NotObject => "the payload is JSON but not an object",
            Self::WrongType => "the JSON value is of another kind than the column takes",
            Self::BadText => "the text cannot be read as a value of the column's type",
            Self::TextTooLong => "the text is longer than the column takes",
            Self::OutOfRange => "the value is outside of the column's range",
            Self::NotFinite => "NaN and infinity have no place in this column",
            Self::NotMember => "the value is not a member of the enum",
            Self::Inexact => "the value has digits that the column cannot hold",
            Self::Missing => "the record has no such field",
            Self::MissingElement => "the object lacks an element of the tuple",
            Self::ElementCount => "the array does not have as many elements as the tuple",
            Self::Null => "the value is null and the column is not Nullable",
            Self::DuplicateKey => "an object has the same key twice",
            Self::UnknownField => {
                "the record has a field that no column takes, and format.json.unknownFields is Reject"
            }
            Self::BadTimestamp => {
                "the text is not a date or time as YYYY-MM-DD[Thh:mm:ss[.f][offset]]"
            }
            Self::NoSuchTime => {
                "the local time does not exist in the column's time zone (clocks went forward)"
            }
            Self::TimeTwice => {
                "the local time exists twice in the column's time zone (clocks went back); send an offset"
            }
            Self::NoUnit => {
                "a number stands for a date or time, but the column has no unit; declare one"
            }
        }
    }
}
