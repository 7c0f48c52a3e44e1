//! Tokens of INSERTs: the real ones, shortened.
//!
//! Must not be here: what is sent under them.

use clickhouse_sink_crds::commit::{Range, range_token, set_token};

use super::worker::Slot;
use super::world::{CLUSTER, GROUP};

/// The real token, shortened to a number.
pub(super) fn token_of(slot: &Slot, range: (i64, i64)) -> u64 {
    range_of(slot, range).map_or(0, |range| shorten(&range_token(GROUP, CLUSTER, &range)))
}

/// The real token of an INSERT that no commit declares.
pub(super) fn shared_token_of(slot: &Slot, range: (i64, i64), mapping: &str) -> u64 {
    range_of(slot, range).map_or(0, |range| {
        shorten(&set_token(GROUP, CLUSTER, mapping, &[range]))
    })
}

fn range_of(slot: &Slot, (start, end): (i64, i64)) -> Option<Range> {
    let identity = slot.session.identity()?;
    Some(Range {
        topic_id: identity.topic_id.clone(),
        partition: slot.place.partition as i32,
        epoch: identity.epoch.clone(),
        start,
        end,
    })
}

fn shorten(token: &str) -> u64 {
    token.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
