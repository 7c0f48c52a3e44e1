//! All rules: name, severity, and why each matters.
//!
//! Must not be here: how they are found.

use super::{Check, Rule, Severity, keys, names, partitions, versions, views};

const REFUSED: &str = "the API server and `local` refuse it: nothing of this sink would run";

const fn error(name: &'static str, why: &'static str) -> Rule {
    Rule {
        name,
        severity: Severity::Error,
        why,
        check: None,
    }
}

const fn warning(name: &'static str, why: &'static str, check: Check) -> Rule {
    Rule {
        name,
        severity: Severity::Warning,
        why,
        check: Some(check),
    }
}

/// Every rule, errors first.
pub static RULES: [Rule; 26] = [
    error(names::UNREADABLE, "what is in it was not looked at"),
    error(names::INVALID_YAML, "nothing of the file was looked at"),
    error(
        names::NO_SINK,
        "a check that looks at nothing is always green: is the path right?",
    ),
    error(names::SCHEMA, REFUSED),
    error(names::CEL_RULE, REFUSED),
    error(
        names::INVALID_VALUE,
        "`local` and the operator refuse it (SpecValid=False): nothing of this sink would run",
    ),
    error(
        names::NULLABLE_IN_KEY,
        "ClickHouse refuses such a key by default, and NULL identifies nothing",
    ),
    error(
        names::VOLATILE_DEFAULT,
        "a record that is delivered twice would become two different rows",
    ),
    error(
        names::VOLATILE_EXPRESSION,
        "a record that is delivered twice would be filed in two places, and its copies never meet",
    ),
    error(
        names::SAME_NAME,
        "the later one would replace the earlier one",
    ),
    error(
        names::SHARED_GROUP,
        "each of the two sinks would get a part of the records",
    ),
    error(
        names::SHARED_TABLE,
        "the second sink is refused (TableOwnedByOther)",
    ),
    warning(
        names::KEY_WITHOUT_IDENTITY,
        "of all rows with one key ReplacingMergeTree keeps one: records that differ only outside the key are lost",
        keys::check_identity,
    ),
    warning(
        names::VERSION_IN_KEY,
        "each version of a record has a key of its own: nothing is ever replaced, FINAL shows all versions",
        keys::check_version_in_key,
    ),
    warning(
        names::OFFSET_IN_KEY,
        "a record that its producer sends twice has two places in Kafka: its copies never collapse",
        keys::check_offset_in_key,
    ),
    warning(
        names::PARTITION_NOT_OF_KEY,
        "rows collapse within one table partition only: copies of one key that differ in such a column stay forever",
        partitions::check_function_of_key,
    ),
    warning(
        names::MANY_PARTITIONS,
        "ClickHouse refuses a block with more than 100 table partitions (max_partitions_per_insert_block), and each one makes a part of its own",
        partitions::check_number,
    ),
    warning(
        names::VERSION_NOT_STRICT,
        "of rows with equal versions the last one inserted stays: a replay may put an older row over a newer one",
        versions::check_strict,
    ),
    warning(
        names::LOW_CARDINALITY_ID,
        "a dictionary of values that hardly repeat costs memory and time, and saves nothing",
        keys::check_low_cardinality,
    ),
    warning(
        names::REPLACING_WITHOUT_FLAT_VIEW,
        "who reads the bare table sees every copy and every old version until they are merged",
        views::check_flat_view,
    ),
    warning(
        names::PLAIN_FLAT_VIEW,
        "the view shows every copy and every old version until they are merged",
        views::check_plain_read,
    ),
    warning(
        names::VOLATILE_SELECT,
        "a record that is delivered twice gives two different rows in the derived table",
        views::check_select,
    ),
    warning(
        names::UNKNOWN_ALLOW,
        "the annotation silences less than it says",
        views::check_annotation,
    ),
    Rule {
        name: names::SECRET_NOT_HERE,
        severity: Severity::Info,
        why: "`local` needs the Secret in its files; in a cluster it must be in the sink's namespace",
        check: None,
    },
    Rule {
        name: names::OTHER_KIND,
        severity: Severity::Info,
        why: "it was not looked at, and `local` refuses a file with it",
        check: None,
    },
    Rule {
        name: names::NO_METADATA_COLUMNS,
        severity: Severity::Info,
        why: "a late replay cannot be compared with the table: it is held (WindowExceeded), rejected records cannot be replayed, and nothing shows where a row came from",
        check: Some(keys::check_metadata_columns),
    },
];

/// The rule of that name.
#[must_use]
pub fn find_rule(name: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.name == name)
}
