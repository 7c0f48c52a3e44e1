//! The fleet as child processes on this machine.
//!
//! Must not be here: which process is started or stopped next (`decide.rs`), anything about tables.

pub mod decide;
pub mod files;
mod health;
mod memory;
mod plans;
mod process;
mod supervisor;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clickhouse_sink_crds::group_plans::GroupPlans;
use clickhouse_sink_crds::worker_config::WorkerConfig;
use secrecy::ExposeSecret as _;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::controller::memory::Memory;
use crate::fleet::local::files::{make_private_folder, write_private_file};
use crate::fleet::local::supervisor::{Orders, Supervisor};
use crate::fleet::{Fleet, FleetError, FleetSpec, FleetState, render_revision};
use crate::warehouse::Account;

/// The workers of one sink.
#[derive(Debug)]
pub struct LocalFleet {
    folder: PathBuf,
    salt: Arc<[u8]>,
    worker_bin: PathBuf,
    plans: Mutex<Option<GroupPlans>>,
    writing: Arc<Mutex<()>>,
    orders: watch::Sender<Orders>,
    state: watch::Receiver<FleetState>,
    supervisor: JoinHandle<()>,
}

impl LocalFleet {
    /// A fleet without workers.
    ///
    /// `folder` is this sink's in the state folder; `salt` keeps the names of credential folders from being a plain
    /// hash of a password.
    ///
    /// # Errors
    /// Where the folder cannot be made.
    pub fn new(
        name: &str,
        folder: PathBuf,
        salt: Arc<[u8]>,
        worker_bin: PathBuf,
    ) -> Result<Self, FleetError> {
        make_private_folder(&folder).map_err(|source| FleetError::File {
            path: folder.clone(),
            source,
        })?;
        let (orders, orders_receiver) = watch::channel(Orders::default());
        let (state_sender, state) = watch::channel(FleetState::default());
        let writing = Arc::new(Mutex::new(()));
        let supervisor = Supervisor::new(
            name.to_owned(),
            folder.clone(),
            worker_bin.clone(),
            Arc::clone(&writing),
            state_sender,
        );
        let supervisor = tokio::spawn(supervisor.run(orders_receiver));
        Ok(Self {
            folder,
            salt,
            worker_bin,
            plans: Mutex::default(),
            writing,
            orders,
            state,
            supervisor,
        })
    }

    /// The state as it changes.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<FleetState> {
        self.state.clone()
    }

    /// A way to hurry the workers while [`Self::wait_stopped`] waits.
    #[must_use]
    pub fn hurry_handle(&self) -> HurryHandle {
        HurryHandle(self.orders.clone())
    }

    /// Asks all workers to stop, each within its termination budget; again: passes the hurry on.
    pub fn begin_stop(&self) {
        self.orders.send_modify(|orders| orders.stop_signals += 1);
    }

    /// Waits until all workers have ended.
    pub async fn wait_stopped(self) -> FleetState {
        let _ = self.supervisor.await;
        self.state.borrow().clone()
    }

    fn write_files(&self, spec: &FleetSpec, account: Option<&Account>) -> Result<(), FleetError> {
        if let (Some(folder), Some(account)) = (&spec.config.clickhouse.credentials_dir, account) {
            write_credentials(folder, account).map_err(|source| FleetError::File {
                path: folder.clone(),
                source,
            })?;
        }
        let path = locate_config(&self.folder, &spec.revision);
        let text = serde_json::to_vec_pretty(&spec.config)?;
        write_private_file(&path, &text).map_err(|source| FleetError::File { path, source })
    }
}

/// Passes further stop signals on.
#[derive(Debug)]
pub struct HurryHandle(watch::Sender<Orders>);

impl HurryHandle {
    /// As [`LocalFleet::begin_stop`].
    pub fn begin_stop(&self) {
        self.0.send_modify(|orders| orders.stop_signals += 1);
    }
}

impl Fleet for LocalFleet {
    fn locate_credentials(&self, account: &Account) -> PathBuf {
        let mut bytes = self.salt.to_vec();
        for part in [account.username.as_str(), account.password.expose_secret()] {
            bytes.extend_from_slice(&part.len().to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        self.folder
            .join(format!("credentials-{}", render_revision(&bytes)))
    }

    fn locate_facts(&self) -> Option<PathBuf> {
        Some(memory::locate_facts(&self.folder))
    }

    async fn fetch_memory(&self) -> Result<Memory, FleetError> {
        memory::read_memory(&self.folder)
    }

    async fn apply_memory(&self, memory: &Memory) -> Result<(), FleetError> {
        memory::write_memory(&self.folder, memory)
    }

    async fn fetch_plans(&self, config: &WorkerConfig) -> Result<GroupPlans, FleetError> {
        let plans = plans::run_plans(&self.worker_bin, &self.folder, config).await?;
        *self.plans.lock().unwrap_or_else(PoisonError::into_inner) = Some(plans.clone());
        Ok(plans)
    }

    fn recall_plans(&self) -> Option<GroupPlans> {
        self.plans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn forget_plans(&self) {
        *self.plans.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn fetch_state(&self) -> FleetState {
        self.state.borrow().clone()
    }

    async fn apply_replicas(&self, replicas: u32) -> Result<(), FleetError> {
        self.orders.send_modify(|orders| {
            if let Some(spec) = &mut orders.spec {
                spec.replicas = replicas;
            }
        });
        Ok(())
    }

    async fn apply(&self, spec: &FleetSpec, account: Option<&Account>) -> Result<(), FleetError> {
        {
            let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            self.write_files(spec, account)?;
            self.orders
                .send_modify(|orders| orders.spec = Some(spec.clone()));
        }
        // What is asked for shows at once in the state, so that the next plan is empty.
        let mut state = self.state.clone();
        let _ = state
            .wait_for(|state| {
                state.wanted_revision.as_deref() == Some(&spec.revision)
                    && state.wanted_replicas == spec.replicas
            })
            .await;
        Ok(())
    }
}

fn write_credentials(folder: &Path, account: &Account) -> io::Result<()> {
    make_private_folder(folder)?;
    write_private_file(&folder.join("username"), account.username.as_bytes())?;
    write_private_file(
        &folder.join("password"),
        account.password.expose_secret().as_bytes(),
    )
}

fn locate_config(folder: &Path, revision: &str) -> PathBuf {
    folder.join(format!("config-{revision}.json"))
}
