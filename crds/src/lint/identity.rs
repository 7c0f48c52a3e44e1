//! Which columns look like what identifies a record. Names are all there is to go by.
//!
//! Must not be here: rules.

use crate::api::{ColumnSpec, TableSpec};
use crate::data_type::{DataType, IntWidth};

const ID_WORDS: [&str; 5] = ["id", "uid", "uuid", "guid", "ulid"];
/// Names of a record's own id, whatever the table is named.
const OWN_IDS: [&str; 9] = [
    "id",
    "uid",
    "uuid",
    "guid",
    "ulid",
    "event_id",
    "record_id",
    "message_id",
    "row_id",
];

/// True for `id`, `camera_id`, `eventId`, `order-uuid`.
pub(super) fn is_id(name: &str) -> bool {
    words(name)
        .last()
        .is_some_and(|word| ID_WORDS.contains(&word.as_str()))
}

/// True where the column seems to be the record's own id: by its name, or by the field that it takes.
pub(super) fn is_own_id(table: &TableSpec, column: &ColumnSpec) -> bool {
    let name = words(&column.name).join("_");
    let singular = table.name.strip_suffix('s').unwrap_or(&table.name);
    let named_by_table = ID_WORDS
        .iter()
        .any(|id| name == format!("{}_{id}", words(singular).join("_")));
    let is_plain_id = |from: &str| ID_WORDS.contains(&from.to_ascii_lowercase().as_str());
    let from_id = column.from.as_deref().is_some_and(is_plain_id);
    OWN_IDS.contains(&name.as_str()) || named_by_table || from_id
}

/// True where a column of that type can tell very many records apart: no time, no dictionary, no small number.
pub(super) fn can_identify(data_type: &DataType) -> bool {
    match data_type {
        DataType::LowCardinality(_)
        | DataType::Bool
        | DataType::Enum8(_)
        | DataType::Enum16(_)
        | DataType::Int(IntWidth::W8)
        | DataType::UInt(IntWidth::W8) => false,
        other => !other.is_date_or_time(),
    }
}

/// The words of a name, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let begins = !c.is_alphanumeric() || (c.is_uppercase() && was_lower);
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_known_by_their_last_word() {
        for name in ["id", "camera_id", "eventId", "order-uuid", "tenantID"] {
            assert!(is_id(name), "{name}");
        }
        for name in ["paid", "valid", "idle", "id_count", "grid", ""] {
            assert!(!is_id(name), "{name}");
        }
    }
}
