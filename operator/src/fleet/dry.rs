//! A fleet that never is: for commands that only look at tables.
//!
//! Must not be here: processes.

use std::path::PathBuf;

use clickhouse_sink_crds::group_plans::GroupPlans;
use clickhouse_sink_crds::worker_config::WorkerConfig;

use crate::controller::memory::Memory;
use crate::fleet::{Fleet, FleetError, FleetSpec, FleetState};
use crate::warehouse::Account;

/// Takes every order and starts nothing.
#[derive(Debug, Clone, Copy)]
pub struct DryFleet;

impl Fleet for DryFleet {
    fn locate_credentials(&self, _account: &Account) -> PathBuf {
        PathBuf::from("credentials")
    }

    fn locate_facts(&self) -> Option<PathBuf> {
        None
    }

    async fn fetch_memory(&self) -> Result<Memory, FleetError> {
        Ok(Memory::default())
    }

    async fn apply_memory(&self, _memory: &Memory) -> Result<(), FleetError> {
        Ok(())
    }

    async fn fetch_plans(&self, _config: &WorkerConfig) -> Result<GroupPlans, FleetError> {
        Err(FleetError::Plans {
            detail: "this command runs no workers and cannot tell whether any run elsewhere; `local` does it".to_owned(),
        })
    }

    async fn fetch_state(&self) -> FleetState {
        FleetState::default()
    }

    async fn apply_replicas(&self, _replicas: u32) -> Result<(), FleetError> {
        Ok(())
    }

    async fn apply(&self, _spec: &FleetSpec, _account: Option<&Account>) -> Result<(), FleetError> {
        Ok(())
    }
}
