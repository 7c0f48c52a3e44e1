//! The gate of a session as the async side meets it: waiting for it, and ending at once where it is closed.
//!
//! Must not be here: what opens a gate (`session/gate.rs`), sending.

use tokio::sync::watch;

use crate::boot::boot_now;
use crate::session::gate::{GateView, MaySend};

/// The gate is closed: whatever was being done for the partition ends here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

/// The gate of a batch; one that is shared by several partitions has none, and is never closed.
#[derive(Clone, Debug)]
pub(super) struct Gate(Option<watch::Receiver<GateView>>);

impl Gate {
    pub(super) const fn new(views: Option<watch::Receiver<GateView>>) -> Self {
        Self(views)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|views| views.has_changed().is_err() || !views.borrow().open)
    }

    /// Whether an attempt may start now: for a range, or, without one, for what needs no declaration.
    pub(super) fn may_send(&self, range: Option<(i64, i64)>) -> MaySend {
        if self.is_closed() {
            return MaySend::Never;
        }
        match (&self.0, range) {
            (Some(views), Some((start, end))) => views.borrow().may_send(start, end, boot_now()),
            _ => MaySend::Yes,
        }
    }

    /// Waits until `[start, end)` is declared by a young commit.
    pub(super) async fn opened(&self, (start, end): (i64, i64)) -> Result<(), Closed> {
        let Some(views) = &self.0 else {
            return Ok(());
        };
        let mut views = views.clone();
        let decided =
            views.wait_for(|view| view.may_send(start, end, boot_now()) != MaySend::NotYet);
        let open = decided.await.is_ok_and(|view| view.open);
        if open && !self.is_closed() {
            Ok(())
        } else {
            Err(Closed)
        }
    }

    /// Goes on with something until it is done or the gate is closed.
    pub(super) async fn or_closed<T>(&self, task: impl Future<Output = T>) -> Result<T, Closed> {
        if self.is_closed() {
            return Err(Closed);
        }
        tokio::select! {
            done = task => Ok(done),
            () = self.closed() => Err(Closed),
        }
    }

    async fn closed(&self) {
        let Some(views) = &self.0 else {
            return std::future::pending().await;
        };
        // Without a sender the partition is gone, which is the same.
        let _ = views.clone().wait_for(|view| !view.open).await;
    }
}
