//! Free ports of this machine, each lent to one run at a time.
//!
//! Must not be here: who listens on a port.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result, bail};

use crate::paths;

/// Ports are taken from below the range that the kernel gives to outgoing connections.
const FIRST: u16 = 15_000;
const COUNT: u16 = 16_000;

/// A port of 127.0.0.1 that no other run of the harness takes while this value lives.
#[derive(Debug)]
pub struct PortLease {
    port: u16,
    _lock: File,
}

impl PortLease {
    /// Takes a port on which nothing listens.
    ///
    /// # Errors
    /// Where none is free, or the cache folder cannot be written.
    pub fn take() -> Result<Self> {
        let locks = paths::cache_dir()?.join("ports");
        fs::create_dir_all(&locks).with_context(|| format!("cannot make {}", locks.display()))?;
        let start = random_below(COUNT);
        for step in 0..COUNT {
            let port = FIRST + (start + step) % COUNT;
            let lock = File::create(locks.join(port.to_string()))?;
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Ok(Self { port, _lock: lock });
            }
        }
        bail!(
            "expected a free port between {FIRST} and {}, found none",
            FIRST + COUNT
        )
    }

    /// Takes several ports.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn take_many(count: usize) -> Result<Vec<Self>> {
        (0..count).map(|_| Self::take()).collect()
    }

    /// Its number.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:<port>`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

fn random_below(limit: u16) -> u16 {
    let random = uuid::Uuid::new_v4().as_u128() % u128::from(limit);
    u16::try_from(random).unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn two_leases_never_have_the_same_port_and_each_can_be_bound() {
        let leases = PortLease::take_many(20).unwrap();
        let mut ports: Vec<u16> = leases.iter().map(PortLease::port).collect();
        let _bound: Vec<TcpListener> = ports
            .iter()
            .map(|port| TcpListener::bind(("127.0.0.1", *port)).unwrap())
            .collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
    }
}
