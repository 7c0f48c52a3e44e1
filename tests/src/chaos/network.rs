//! What is done to the ways between workers and servers: always a little, and now and then a trouble that ends.
//!
//! Must not be here: when.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use super::crew::Crew;
use super::plan::Trouble;
use super::scene::Servers;
use super::tally::Tally;
use crate::proxy::{ApiKey, ClickHouseProxy, Fault, KafkaFault, Mix, On};

/// Answers to INSERTs come this late, so that ranges are in flight nearly all the time.
const ANSWER_DELAY: Duration = Duration::from_millis(350);

/// INSERTs as they always are: late answers, some lost, some requests and answers cut in their midst.
fn rough(seed: u64) -> Fault {
    Fault::Mix(Mix {
        seed,
        faults: vec![
            (70, Fault::DelayReply(ANSWER_DELAY)),
            (10, Fault::Delay(ANSWER_DELAY)),
            (8, Fault::DelayReply(ANSWER_DELAY * 4)),
            (5, Fault::DropReply),
            (3, Fault::TruncateReply(0)),
            (2, Fault::TruncateRequest(120)),
            (2, Fault::Cut),
        ],
    })
}

/// The proxies' state as far as it is not each worker's own.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) clickhouse: ClickHouseProxy,
    seed: u64,
    calm: bool,
}

impl Network {
    pub(crate) fn new(clickhouse: ClickHouseProxy, seed: u64) -> Self {
        let network = Self {
            clickhouse,
            seed,
            calm: false,
        };
        network.restore();
        network
    }

    /// As it is between troubles.
    fn restore(&self) {
        let fault = if self.calm {
            Fault::DelayReply(ANSWER_DELAY)
        } else {
            rough(self.seed)
        };
        self.clickhouse.set_on(fault, On::Inserts);
    }

    /// With `calm` no answer gets lost, only late.
    pub(crate) fn set_calm(&mut self, calm: bool) {
        self.calm = calm;
        self.seed = self.seed.wrapping_add(1);
        self.restore();
    }

    pub(crate) fn begin(
        &self,
        trouble: Trouble,
        slot: usize,
        crew: &Crew,
        servers: &Servers,
    ) -> Result<()> {
        let kafka = |fault| {
            if let Some(proxy) = crew.kafka(slot) {
                proxy.set(fault);
            }
        };
        match trouble {
            Trouble::CommitRepliesLost => kafka(KafkaFault::HoldReplies(ApiKey::OFFSET_COMMIT)),
            Trouble::CommitsLate => kafka(KafkaFault::HoldRequests(ApiKey::OFFSET_COMMIT)),
            Trouble::KafkaCut => kafka(KafkaFault::Cut),
            Trouble::KafkaHangs => kafka(KafkaFault::Hang),
            Trouble::ClickHouseCut => self.clickhouse.set(Fault::Cut),
            Trouble::ClickHouseHangs => servers.clickhouse.stop_hang()?,
            Trouble::RepliesLost => self.clickhouse.set_on(Fault::DropReply, On::Inserts),
        }
        Ok(())
    }

    pub(crate) fn end(
        &self,
        trouble: Trouble,
        slot: usize,
        crew: &Crew,
        servers: &Servers,
    ) -> Result<()> {
        match trouble {
            Trouble::ClickHouseCut | Trouble::RepliesLost => self.restore(),
            Trouble::ClickHouseHangs => servers.clickhouse.resume()?,
            Trouble::CommitRepliesLost => {
                // What was kept is lost with its connection.
                if let Some(proxy) = crew.kafka(slot) {
                    proxy.set(KafkaFault::Cut);
                    proxy.pass();
                }
            }
            Trouble::CommitsLate | Trouble::KafkaCut | Trouble::KafkaHangs => {
                if let Some(proxy) = crew.kafka(slot) {
                    proxy.pass();
                }
            }
        }
        Ok(())
    }

    /// Counts what was done to INSERTs since the last time.
    pub(crate) fn count(&self, tally: &mut Tally) {
        let seen = self.clickhouse.inserts();
        self.clickhouse.clear_seen();
        let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
        for insert in &seen {
            if let Some(label) = label(&insert.fault) {
                *counts.entry(label).or_default() += 1;
            }
        }
        for (label, count) in counts {
            tally.troubled(label, count);
        }
    }
}

/// Name of what loses or cuts something.
fn label(fault: &Fault) -> Option<&'static str> {
    match fault {
        Fault::DropReply | Fault::TruncateReply(_) => Some("INSERTs whose answer was lost or cut"),
        Fault::TruncateRequest(_) => Some("INSERTs cut in their midst"),
        Fault::Cut => Some("INSERTs that were not passed on"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_late_is_no_trouble() {
        assert_eq!(label(&Fault::DelayReply(ANSWER_DELAY)), None);
        assert!(label(&Fault::TruncateReply(0)).is_some());
    }
}
