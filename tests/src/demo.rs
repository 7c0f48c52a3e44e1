//! What `cargo xtask demo` shows.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::stack::Stack;
use crate::tasks::demo::DemoArgs;

/// Runs the demo on a stack that is ready.
///
/// # Errors
/// Where something is not as promised.
pub fn run(_args: &DemoArgs, _stack: &mut Stack) -> Result<ExitCode> {
    bail!("the demo is not written yet")
}
