//! Materialized views on the table: what they fill must know a retry again as well.
//!
//! Must not be here: views of our own making.

use super::{EngineText, warning};
use crate::ddl::render_table_name;
use crate::table::{Difference, ObservedTable, ObservedView};

/// A retry is always pushed to the views (whether the table drops it or not), so each needs a window of its own.
pub(super) fn check_views(observed: &ObservedTable) -> Vec<Difference> {
    observed.views.iter().filter_map(check_view).collect()
}

fn check_view(view: &ObservedView) -> Option<Difference> {
    let text = view.target_engine_full.as_str();
    let engine = text
        .find(|c: char| !c.is_ascii_alphanumeric())
        .map_or(text, |end| &text[..end]);
    // A replicated table has a window by default; other engines cannot drop a retry at all.
    if !engine.ends_with("MergeTree")
        || engine.starts_with("Replicated")
        || engine.starts_with("Shared")
    {
        return None;
    }
    let setting = "non_replicated_deduplication_window";
    let window = EngineText::read(text).setting(setting).map(str::to_owned);
    if window.as_deref().is_some_and(|window| window != "0") {
        return None;
    }
    let remedy = format!(
        "run ALTER TABLE {} MODIFY SETTING {setting} = 100000: a retried INSERT fills it twice",
        render_table_name(&view.target_database, &view.target)
    );
    let subject = format!("materialized view {}.{}", view.database, view.name);
    let expected = "a table with a deduplication window behind it";
    let found = format!("{}.{} without one", view.target_database, view.target);
    Some(warning(&subject, expected, &found, &remedy))
}
