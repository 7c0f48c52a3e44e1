//! `cargo xtask`: the developer's commands. Thin: each is in `clickhouse_sink_tests::tasks`.

use std::process::ExitCode;

fn main() -> ExitCode {
    clickhouse_sink_tests::tasks::run()
}
