//! Why "nothing found" may not mean "never written".
//!
//! Must not be here: which rows are missing, what follows from a doubt.

use clickhouse::query::Query;
use clickhouse_sink_crds::check::EngineText;

use super::ask::{Asker, Facts, failed};
use super::{VerifyRequest, sql};
use crate::insert::class::Failure;

/// Engines that keep every row as it was written.
const KEEPING_ENGINES: [&str; 3] = ["MergeTree", "ReplicatedMergeTree", "SharedMergeTree"];
/// `ACCESS_DENIED`.
const DENIED: u32 = 497;
/// `UNKNOWN_TABLE`: a log that is not kept.
const NO_TABLE: u32 = 60;

/// All doubts at once, in words; empty: what is not found was never written.
pub(super) async fn fetch_doubts(
    asker: &Asker<'_>,
    request: &VerifyRequest<'_>,
    facts: &Facts,
) -> Result<Vec<String>, Failure> {
    let mut doubts = plan_doubts(facts, request);
    doubts.extend(fetch_mutations(asker, request).await?);
    doubts.extend(fetch_patches(asker, request, facts).await?);
    doubts.extend(fetch_hidden(asker).await?);
    doubts.extend(fetch_witness(asker, request).await?);
    Ok(doubts)
}

/// What needs no further question.
fn plan_doubts(facts: &Facts, request: &VerifyRequest<'_>) -> Vec<String> {
    let mut doubts = Vec::new();
    if !KEEPING_ENGINES.contains(&facts.engine.as_str()) {
        let engine = &facts.engine;
        doubts.push(format!(
            "the engine {engine} takes rows away when it merges"
        ));
    }
    if EngineText::read(&facts.engine_full).has_row_ttl() {
        doubts.push("the table has a TTL, which takes rows away".to_owned());
    }
    if request.range.epoch.is_reset() {
        doubts.push(
            "the position was moved before this range, so rows of another pass may be in the table or gone from it"
                .to_owned(),
        );
    }
    doubts
}

/// A mutation may have deleted the rows, or changed what they are looked for by.
async fn fetch_mutations(
    asker: &Asker<'_>,
    request: &VerifyRequest<'_>,
) -> Result<Option<String>, Failure> {
    let Some(since) = request.declared_at_s else {
        return Ok(Some(
            "it is not known when the range was declared".to_owned(),
        ));
    };
    let question = asker.about_table(sql::MUTATIONS).param("since", since);
    let ids = question.fetch_all::<String>().await.map_err(failed);
    let ids = match ids {
        Err(failure) if failure.code == Some(DENIED) => {
            return Ok(Some(denied("system.mutations")));
        }
        ids => ids?,
    };
    Ok((!ids.is_empty()).then(|| {
        format!(
            "rows were changed or deleted since the range was declared (mutations {})",
            ids.join(", ")
        )
    }))
}

/// Lightweight updates and deletes are no mutations: they leave parts of their own, which merges make disappear.
async fn fetch_patches(
    asker: &Asker<'_>,
    request: &VerifyRequest<'_>,
    facts: &Facts,
) -> Result<Option<String>, Failure> {
    let text = EngineText::read(&facts.engine_full);
    let is_on = |name: &str| text.setting(name) == Some("1");
    let possible = is_on("enable_block_number_column") && is_on("enable_block_offset_column");
    let found = || Some("rows were changed or deleted by lightweight updates".to_owned());
    match fetch_count(asker.about_table(sql::PATCHES)).await? {
        Some(0) if !possible => return Ok(None),
        Some(0) => {}
        Some(_) => return Ok(found()),
        None => return Ok(Some(denied("system.parts"))),
    }
    let since = request.declared_at_s.unwrap_or(0);
    let logged = asker.about_table(sql::LOGGED_PATCHES).param("since", since);
    Ok(match fetch_count(logged).await? {
        Some(0) => None,
        Some(_) => found(),
        None => Some(
            "the table takes lightweight updates, and system.part_log does not tell whether there were any".to_owned(),
        ),
    })
}

/// Rows that are stored and not seen: a row policy hides them, and may hide those of the range.
async fn fetch_hidden(asker: &Asker<'_>) -> Result<Option<String>, Failure> {
    // In this order: rows that come in between are only seen, never missed.
    let Some(stored) = fetch_count(asker.about_table(sql::STORED_ROWS)).await? else {
        return Ok(Some(denied("system.parts")));
    };
    let all = asker.plain(&sql::render_count_all(asker.table));
    let seen = all.fetch_one::<u64>().await.map_err(failed)?;
    if seen < stored {
        return Ok(Some(format!(
            "the table holds {stored} rows and this user sees {seen}; a row policy must not hide rows from the sink"
        )));
    }
    let unseen_parts = stored == 0 && seen > 0;
    Ok(unseen_parts.then(|| denied("system.parts")))
}

/// The same question must find what was acknowledged before the range.
async fn fetch_witness(
    asker: &Asker<'_>,
    request: &VerifyRequest<'_>,
) -> Result<Option<String>, Failure> {
    let sql = sql::render_witness(asker.table);
    let before = (0, request.range.start);
    let question = asker.about_range(&sql, request.topic, request.range.partition, before);
    let seen = question.fetch_one::<u64>().await.map_err(failed)?;
    Ok((seen == 0).then(|| {
        "no row of this partition before the range is seen either, so not seeing rows proves nothing".to_owned()
    }))
}

/// One number; `None` where there is no such system table, or no right to read it.
async fn fetch_count(question: Query) -> Result<Option<u64>, Failure> {
    match question.fetch_one::<u64>().await.map_err(failed) {
        Ok(count) => Ok(Some(count)),
        Err(failure) if matches!(failure.code, Some(DENIED | NO_TABLE)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn denied(table: &str) -> String {
    format!("{table} cannot be read; grant SELECT ON {table} to the sink's user")
}
