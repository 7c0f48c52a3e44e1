//! Batches that are handed over and not acknowledged, with the bytes that they hold.
//!
//! Pure. Must not be here: what is in them.

use std::collections::BTreeMap;

/// The batches, and the sum of their bytes: it is asked for once for each partition and turn.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    by_batch: BTreeMap<u64, u64>,
    bytes: u64,
}

impl InFlight {
    /// A batch was handed over.
    pub(super) fn insert(&mut self, batch: u64, bytes: u64) {
        let before = self.by_batch.insert(batch, bytes).unwrap_or(0);
        self.bytes = self.bytes - before + bytes;
    }

    /// A batch is done with; one that is not known, or was done with before, changes nothing.
    pub(super) fn remove(&mut self, batch: u64) {
        self.bytes -= self.by_batch.remove(&batch).unwrap_or(0);
    }

    /// Number of batches.
    pub(super) fn len(&self) -> usize {
        self.by_batch.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_batch.is_empty()
    }

    /// Bytes that they hold with their encoded copies.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes + self.bytes / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_batches_that_are_left() {
        let mut in_flight = InFlight::default();
        in_flight.insert(1, 100);
        in_flight.insert(2, 40);
        in_flight.insert(2, 60);
        assert_eq!((in_flight.len(), in_flight.bytes()), (2, 240));
        in_flight.remove(1);
        in_flight.remove(1);
        in_flight.remove(7);
        assert_eq!((in_flight.len(), in_flight.bytes()), (1, 90));
        in_flight.remove(2);
        assert!(in_flight.is_empty() && in_flight.bytes() == 0);
    }
}
