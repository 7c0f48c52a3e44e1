//! What the table is asked about a range, behind a trait so that the order of a batch's steps can be tested.
//!
//! Must not be here: the questions themselves (`crate::verify`).

use clickhouse::Client;
use clickhouse_sink_crds::commit::Range;
use futures_util::future::BoxFuture;

use super::class::Failure;
use crate::batch::{Batch, Part};
use crate::table_watch::TableWatch;
use crate::verify::{TableName, Verdict, VerifyRequest, count_rows_of, verify_range};

/// Questions about a range of offsets.
pub trait TableQuestions: Send + Sync {
    /// Which rows of a replayed batch's only part have to be sent.
    fn verify<'a>(
        &'a self,
        batch: &'a Batch,
        part: &'a Part,
    ) -> BoxFuture<'a, Result<Verdict, Failure>>;

    /// How many rows of a range the table has.
    fn count<'a>(&'a self, part: &'a Part, range: &'a Range)
    -> BoxFuture<'a, Result<u64, Failure>>;
}

/// Asks the server.
pub struct ServerQuestions {
    /// Client of the server.
    pub client: Client,
    /// Database of the table.
    pub database: String,
    /// Name of the table.
    pub table_name: String,
    /// The table's state.
    pub table: TableWatch,
}

impl ServerQuestions {
    fn name(&self) -> TableName<'_> {
        TableName {
            database: &self.database,
            table: &self.table_name,
        }
    }
}

impl TableQuestions for ServerQuestions {
    fn verify<'a>(
        &'a self,
        batch: &'a Batch,
        part: &'a Part,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        Box::pin(async move {
            let Some(rows) = &part.rows else {
                return Ok(Verdict::AllThere);
            };
            let report = self.table.report();
            let request = VerifyRequest {
                table: self.name(),
                topic: &part.topic,
                range: &part.range,
                rows,
                declared_at_s: batch.declared_at_s,
                known_settings: &report.known_settings,
            };
            verify_range(&self.client, &request).await
        })
    }

    fn count<'a>(
        &'a self,
        part: &'a Part,
        range: &'a Range,
    ) -> BoxFuture<'a, Result<u64, Failure>> {
        Box::pin(async move {
            let report = self.table.report();
            let known = &report.known_settings;
            let offsets = (range.start, range.end);
            count_rows_of(
                &self.client,
                self.name(),
                known,
                &part.topic,
                range.partition,
                offsets,
            )
            .await
        })
    }
}
