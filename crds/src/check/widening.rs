//! Which types a table may have instead of the declared one: those that the server widens to without loss.
//!
//! Must not be here: changing a table's types.

use crate::data_type::DataType;

/// True where `found` is `declared`, or wider in a way that keeps every value.
#[must_use]
pub fn is_equal_or_wider(declared: &str, found: &str) -> bool {
    match (DataType::parse(declared), DataType::parse(found)) {
        (Ok(declared), Ok(found)) => declared == found || is_wider(&declared, &found),
        // What we cannot read is equal only as text.
        _ => declared == found,
    }
}

/// True where the change of a column from one type to a wider one rewrites its data: all but more members of an Enum.
#[must_use]
pub(super) fn rewrites(from: &str, to: &str) -> bool {
    match (DataType::parse(from), DataType::parse(to)) {
        (Ok(from), Ok(to)) => !is_grown_enum(&from, &to),
        _ => true,
    }
}

fn is_grown_enum(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Nullable(from), DataType::Nullable(to)) => is_grown_enum(from, to),
        (DataType::Enum8(_), DataType::Enum8(_)) | (DataType::Enum16(_), DataType::Enum16(_)) => {
            is_enum_superset(from, to)
        }
        _ => false,
    }
}

fn is_wider(declared: &DataType, found: &DataType) -> bool {
    match (declared, found) {
        (DataType::LowCardinality(inner), other) => {
            inner.as_ref() == other || is_wider(inner, other)
        }
        (other, DataType::LowCardinality(inner)) => {
            other == inner.as_ref() || is_wider(other, inner)
        }
        (DataType::Nullable(declared), DataType::Nullable(found)) => is_wider(declared, found),
        (declared, DataType::Nullable(found)) => {
            declared == found.as_ref() || is_wider(declared, found)
        }
        (DataType::UInt(from), DataType::UInt(to)) | (DataType::Int(from), DataType::Int(to)) => {
            from < to
        }
        (DataType::Float32, DataType::Float64) | (DataType::FixedString(_), DataType::String) => {
            true
        }
        (declared, found) => is_enum_superset(declared, found),
    }
}

fn is_enum_superset(declared: &DataType, found: &DataType) -> bool {
    match (members(declared), members(found)) {
        (Some(declared), Some(found)) => {
            !declared.is_empty() && declared.iter().all(|member| found.contains(member))
        }
        _ => false,
    }
}

fn members(data_type: &DataType) -> Option<Vec<(&str, i16)>> {
    match data_type {
        DataType::Enum8(members) => Some(
            members
                .iter()
                .map(|(name, n)| (name.as_str(), i16::from(*n)))
                .collect(),
        ),
        DataType::Enum16(members) => Some(
            members
                .iter()
                .map(|(name, n)| (name.as_str(), *n))
                .collect(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_widens_without_loss_is_accepted() {
        for (declared, found) in [
            ("UInt8", "UInt32"),
            ("Float32", "Float64"),
            ("String", "Nullable(String)"),
            ("FixedString(3)", "String"),
            ("String", "LowCardinality(String)"),
            ("LowCardinality(String)", "String"),
            ("LowCardinality(String)", "LowCardinality(Nullable(String))"),
            ("UInt8", "Nullable(UInt16)"),
            ("Enum8('a' = 1)", "Enum16('a' = 1, 'b' = 300)"),
            ("Decimal64(2)", "Decimal(18, 2)"),
        ] {
            assert!(is_equal_or_wider(declared, found), "{declared} -> {found}");
        }
    }

    #[test]
    fn what_loses_values_or_means_something_else_is_not() {
        for (declared, found) in [
            ("UInt32", "UInt8"),
            ("UInt8", "Int16"),
            ("Int8", "UInt8"),
            ("Nullable(String)", "String"),
            ("LowCardinality(Nullable(String))", "String"),
            ("String", "FixedString(3)"),
            ("DateTime64(6)", "DateTime64(3)"),
            ("DateTime64(3)", "DateTime64(3, 'UTC')"),
            ("Enum8('a' = 1)", "Enum8('a' = 2)"),
            ("Enum8('a' = 1, 'b' = 2)", "Enum8('a' = 1)"),
            ("Float64", "Float32"),
            ("Array(UInt8)", "Array(UInt16)"),
            ("String", "JSON"),
        ] {
            assert!(!is_equal_or_wider(declared, found), "{declared} -> {found}");
        }
    }
}
