//! Writes the generated files below the repository's root; with `--check`, fails where one is stale.
//!
//! Must not be here: what is in them (`codegen`).

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its output is for the person who runs it"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use clickhouse_sink_crds::codegen::render;

fn main() -> ExitCode {
    let check = env::args().skip(1).any(|argument| argument == "--check");
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut code = ExitCode::SUCCESS;
    for (path, text) in render() {
        match bring_up_to_date(&root.join(&path), &text, check) {
            Ok(Outcome::Current) => println!("{path} is current"),
            Ok(Outcome::Written) => println!("{path} written"),
            Ok(Outcome::Stale) => {
                eprintln!("{path} is stale; run cargo xtask codegen");
                code = ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("expected to write {path}, found: {error}; check the folder's rights");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

enum Outcome {
    Current,
    Written,
    Stale,
}

fn bring_up_to_date(path: &Path, text: &str, check: bool) -> io::Result<Outcome> {
    if fs::read_to_string(path).is_ok_and(|found| found == text) {
        return Ok(Outcome::Current);
    }
    if check {
        return Ok(Outcome::Stale);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)?;
    Ok(Outcome::Written)
}
