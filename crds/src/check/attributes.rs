//! What a table may have otherwise while rows go on: defaults, comments, codecs, TTL, indexes.
//!
//! What is not declared is left as it is, but for the TTL: rows that expire although nothing says so are a loss.
//! Must not be here: types and keys (`columns`), settings.

use super::{Consent, EngineText, Finding, warning};
use crate::clause::{is_same_codec, is_same_index_type};
use crate::ddl::Alteration;
use crate::expression::{normalise, normalise_key};
use crate::table::{
    ColumnDefinition, IndexDefinition, ObservedColumn, ObservedTable, TableDefinition,
};

const NONE: &str = "none";

pub(super) fn find_attributes(
    expected: &TableDefinition,
    observed: &ObservedTable,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for column in &expected.columns {
        let found = observed
            .columns
            .iter()
            .find(|found| found.name == column.name);
        if let Some(found) = found {
            findings.extend(find_default(expected, column, found));
            findings.extend(find_comment(expected, column, found));
            findings.extend(find_codec(expected, column, found));
        }
    }
    findings
}

fn find_default(
    table: &TableDefinition,
    column: &ColumnDefinition,
    found: &ObservedColumn,
) -> Option<Finding> {
    let wanted = column.default.as_ref()?;
    let is_same = normalise(wanted) == normalise(&found.default_expression);
    // A column that is computed is told as such.
    if is_same || !matches!(found.default_kind.as_str(), "" | "DEFAULT") {
        return None;
    }
    let alteration = Alteration::SetDefault {
        column: column.name.clone(),
        default: wanted.clone(),
    };
    let consent = if table.is_in_key(&column.name) {
        Consent::Person
    } else {
        Consent::None
    };
    let subject = format!("default of {}", column.name);
    let difference = warning(&subject, wanted, or_none(&found.default_expression), "");
    Some(Finding::mended_by(table, difference, alteration, consent))
}

fn find_comment(
    table: &TableDefinition,
    column: &ColumnDefinition,
    found: &ObservedColumn,
) -> Option<Finding> {
    let wanted = column.comment.as_ref()?;
    if *wanted == found.comment {
        return None;
    }
    let alteration = Alteration::SetComment {
        column: column.name.clone(),
        comment: wanted.clone(),
    };
    let subject = format!("comment of {}", column.name);
    let difference = warning(&subject, or_none(wanted), or_none(&found.comment), "");
    Some(Finding::mended_by(
        table,
        difference,
        alteration,
        Consent::None,
    ))
}

fn find_codec(
    table: &TableDefinition,
    column: &ColumnDefinition,
    found: &ObservedColumn,
) -> Option<Finding> {
    let wanted = column.codec.as_ref()?;
    if is_same_codec(wanted, &found.compression_codec) {
        return None;
    }
    let alteration = Alteration::SetCodec {
        column: column.name.clone(),
        codec: wanted.clone(),
    };
    let subject = format!("codec of {}", column.name);
    let difference = warning(&subject, wanted, or_none(&found.compression_codec), "");
    Some(Finding::mended_by(
        table,
        difference,
        alteration,
        Consent::None,
    ))
}

pub(super) fn find_ttl(expected: &TableDefinition, text: &EngineText) -> Option<Finding> {
    let wanted = expected.ttl.as_deref().unwrap_or_default();
    let found = text.ttl();
    if normalise(wanted) == normalise(&found) {
        return None;
    }
    let alteration = if wanted.is_empty() {
        Alteration::RemoveTtl
    } else {
        Alteration::SetTtl(wanted.to_owned())
    };
    let difference = warning("TTL", or_none(wanted), or_none(&found), "");
    Some(Finding::mended_by(
        expected,
        difference,
        alteration,
        Consent::None,
    ))
}

pub(super) fn find_indexes(expected: &TableDefinition, observed: &ObservedTable) -> Vec<Finding> {
    let missing = expected.indexes.iter().filter_map(|wanted| {
        let found = observed
            .indexes
            .iter()
            .find(|found| found.name == wanted.name);
        match found {
            Some(found) if is_same_index(wanted, found) => None,
            found => Some(find_index(expected, wanted, found)),
        }
    });
    missing.collect()
}

fn find_index(
    table: &TableDefinition,
    wanted: &IndexDefinition,
    found: Option<&IndexDefinition>,
) -> Finding {
    let subject = format!("index {}", wanted.name);
    let expected = render_index(wanted);
    let Some(found) = found else {
        let difference = warning(&subject, &expected, "no such index", "");
        let add = Alteration::AddIndex(wanted.clone());
        return Finding::mended_by(table, difference, add, Consent::None);
    };
    let remedy = "declare it under another name, or drop the one that is there by hand: an index cannot be changed";
    Finding::of(warning(&subject, &expected, &render_index(found), remedy))
}

fn is_same_index(wanted: &IndexDefinition, found: &IndexDefinition) -> bool {
    normalise_key(&wanted.expression) == normalise_key(&found.expression)
        && is_same_index_type(&wanted.index_type, &found.index_type)
        && wanted.granularity == found.granularity
}

fn render_index(index: &IndexDefinition) -> String {
    format!(
        "{} TYPE {} GRANULARITY {}",
        index.expression, index.index_type, index.granularity
    )
}

const fn or_none(text: &str) -> &str {
    if text.is_empty() { NONE } else { text }
}
