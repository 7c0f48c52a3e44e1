//! JSON records into rows: exact, or rejected; never altered in silence.
//!
//! The same bytes under the same mapping give the same row, always: no clock, no host settings. Must not be here:
//! when a batch is cut, what happens to a rejected record, anything about the server.

mod cursor;
mod escape;
mod fault;
mod keyset;
mod number;
mod object;
mod quick;
mod scalar;
mod scan;
mod skip;
mod state;
mod time;
mod value;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::column::Column;
use crate::native::BlockBuilder;
use crate::schema::Schema;
use crate::schema::kind::Kind;
use cursor::Cursor;
use fault::Fault;
pub use fault::{RejectCode, Rejection};
use state::State;

/// Where a record stands in Kafka; fills the metadata columns.
#[derive(Clone, Copy, Debug)]
pub struct RecordPosition<'a> {
    /// Topic.
    pub topic: &'a str,
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
    /// Kafka's timestamp, milliseconds since the epoch.
    pub timestamp_ms: i64,
}

/// A record that became a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Values that did not fit and were replaced as their column's `onError` says.
    pub fallbacks: u32,
}

/// Turns payloads into rows; one per thread.
#[derive(Debug)]
pub struct Decoder {
    schema: Arc<Schema>,
    state: State,
}

impl Decoder {
    /// A decoder for a compiled mapping.
    #[must_use]
    pub fn new(schema: Arc<Schema>) -> Self {
        let state = State::new(&schema);
        Self { schema, state }
    }

    /// Appends the record as a row to a builder of the same schema.
    ///
    /// # Errors
    /// Why the record cannot be a row; the builder is then as it was before.
    #[inline]
    pub fn decode(
        &mut self,
        payload: &[u8],
        at: &RecordPosition<'_>,
        into: &mut BlockBuilder,
    ) -> Result<Decoded, Rejection> {
        debug_assert!(
            Arc::ptr_eq(&self.schema, into.schema()),
            "builder and decoder have one schema"
        );
        match read(
            &self.schema,
            &mut self.state,
            payload,
            into.mapped_columns(),
        ) {
            Ok(()) => {
                into.end_row(at, self.state.grown);
                Ok(Decoded {
                    fallbacks: self.state.fallbacks,
                })
            }
            Err(fault) => {
                self.undo(into.mapped_columns());
                Err(self.rejection(fault))
            }
        }
    }

    /// Takes the row that failed out of the columns it had reached.
    #[cold]
    fn undo(&self, columns: &mut [Column]) {
        for (plan, column) in self.schema.columns.iter().zip(columns) {
            if self.state.has_seen(plan.edge) {
                column.rollback();
            }
        }
    }

    #[cold]
    fn rejection(&self, fault: Fault) -> Rejection {
        let plan = self
            .state
            .column
            .filter(|_| !fault.spoils_record())
            .and_then(|index| self.schema.columns.get(index));
        let message = match plan {
            Some(plan) => format!("{} (type {})", fault.message(), plan.type_text),
            None => fault.message().to_owned(),
        };
        Rejection {
            column: plan.map(|plan| plan.name.clone()),
            code: fault.code(),
            message,
        }
    }
}

#[inline]
fn read(
    schema: &Schema,
    state: &mut State,
    payload: &[u8],
    columns: &mut [Column],
) -> Result<(), Fault> {
    state.start_record();
    if payload.len() > schema.max_record_bytes {
        return Err(Fault::TooLarge);
    }
    if simdutf8::basic::from_utf8(payload).is_err() {
        return Err(Fault::InvalidUtf8);
    }
    object::record(schema, columns, &mut Cursor::new(payload), state)
}

/// Reads a column's default, given as JSON.
pub(crate) fn decode_default(
    kind: &Kind,
    json: &str,
    column: &mut Column,
) -> Result<(), &'static str> {
    let mut cursor = Cursor::new(json.as_bytes());
    value::value(kind, column, &mut cursor, &mut State::for_defaults())
        .and_then(|()| cursor.expect_end())
        .map_err(Fault::message)
}
