//! One thing that is wrong with a resource.
//!
//! Must not be here: the checks.

use std::fmt;

use serde::Serialize;

use crate::lint::names::INVALID_VALUE;

/// One thing that is wrong with a resource, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Violation {
    /// Where: `spec.table.columns[3].type`.
    pub path: String,
    /// What was expected, what was found, what to do.
    pub message: String,
    /// Name of the lint rule that it breaks.
    pub rule: &'static str,
}

impl Violation {
    /// A violation at a path.
    #[must_use]
    pub fn new(path: &str, message: &str) -> Self {
        Self {
            path: path.to_owned(),
            message: message.to_owned(),
            rule: INVALID_VALUE,
        }
    }

    /// The violation under the name of a lint rule of its own; without one it is an [`INVALID_VALUE`].
    #[must_use]
    pub fn of_rule(self, rule: &'static str) -> Self {
        Self { rule, ..self }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}
