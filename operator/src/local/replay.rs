//! `replay`: resolves a sink as `local` does, and has a worker insert its rejected records again.
//!
//! Must not be here: what a replay does (the worker), changes of tables.

use std::path::Path;
use std::str::FromStr as _;

use clickhouse_sink_crds::violation::Violation;
use clickhouse_sink_crds::worker_config::WorkerConfig;
use k8s_openapi::jiff::Timestamp;
use secrecy::ExposeSecret as _;
use tokio::process::Command;

use crate::cli::ReplayArgs;
use crate::controller::declaration::Declaration;
use crate::controller::observe::observe;
use crate::controller::plan::{Places, build_config};
use crate::controller::validate::{Validation, reason_of, validate};
use crate::fleet::dry::DryFleet;
use crate::fleet::local::files::{make_private_folder, write_private_file};
use crate::local::input::read_declarations;
use crate::local::replay_place::ReplayPlace;
use crate::local::state_folder::StateFolder;
use crate::local::{LocalError, build_warehouse, find_worker_bin, locate_state_folder};

/// Replays the sinks of the files; the exit code: 0, or the worker's.
///
/// # Errors
/// What keeps it from starting.
pub async fn run_replay(args: &ReplayArgs) -> Result<u8, LocalError> {
    let since_ms = args.since.as_deref().map(read_since).transpose()?;
    let worker_bin = find_worker_bin(args.worker_bin.as_deref())?;
    let folder = StateFolder::open_beside(&locate_state_folder(&args.files))?;
    let declarations = read_declarations(&args.files.files, &folder).map_err(LocalError::Input)?;
    let mut code = 0;
    for declaration in choose(&declarations, args.sink.as_deref())? {
        let sink = folder.locate_sink(declaration.namespace(), declaration.name());
        let place = ReplayPlace::make(&sink).map_err(|source| LocalError::Replay {
            sink: declaration.qualified_name(),
            source,
        })?;
        let ran = replay(declaration, place.path(), &worker_bin, args, since_ms).await;
        code = code.max(ran?);
    }
    Ok(code)
}

fn read_since(text: &str) -> Result<i64, LocalError> {
    Timestamp::from_str(text)
        .map(Timestamp::as_millisecond)
        .map_err(|_| LocalError::Since(text.to_owned()))
}

fn choose<'a>(
    declarations: &'a [Declaration],
    name: Option<&str>,
) -> Result<Vec<&'a Declaration>, LocalError> {
    let is_wanted = |sink: &&Declaration| name.is_none_or(|name| sink.qualified_name() == name);
    let chosen: Vec<_> = declarations.iter().filter(is_wanted).collect();
    if chosen.is_empty() {
        let known: Vec<_> = declarations
            .iter()
            .map(Declaration::qualified_name)
            .collect();
        return Err(LocalError::NoSuchSink {
            name: name.unwrap_or_default().to_owned(),
            known: known.join(", "),
        });
    }
    Ok(chosen)
}

async fn replay(
    declaration: &Declaration,
    place: &Path,
    worker_bin: &Path,
    args: &ReplayArgs,
    since_ms: Option<i64>,
) -> Result<u8, LocalError> {
    let fail = |source| LocalError::Replay {
        sink: declaration.qualified_name(),
        source,
    };
    let config = resolve_config(declaration, place).await?;
    let path = place.join("config.json");
    write_files(declaration, &path, &config).map_err(fail)?;
    let mut command = Command::new(worker_bin);
    command.arg("replay").arg("--config").arg(&path);
    if let Some(code) = &args.reason {
        command.arg("--reason").arg(code);
    }
    if let Some(since_ms) = since_ms {
        command.arg("--since").arg(since_ms.to_string());
    }
    let status = command.kill_on_drop(true).status().await.map_err(fail)?;
    // One that was ended by a signal has no code.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(1))
}

async fn resolve_config(
    declaration: &Declaration,
    place: &Path,
) -> Result<WorkerConfig, LocalError> {
    let observation = observe(&build_warehouse(declaration), &DryFleet, declaration).await;
    let not_now = |reason, message| LocalError::NotNow {
        sink: declaration.qualified_name(),
        reason,
        message,
    };
    match validate(declaration, &observation) {
        Validation::Valid(validated) => {
            let places = Places {
                credentials_dir: declaration
                    .account
                    .as_ref()
                    .map(|_| place.join("credentials")),
                facts_path: None,
            };
            Ok(build_config(declaration, &validated, places))
        }
        Validation::Unknown(why) => Err(not_now(why.reason, why.message)),
        Validation::Invalid(violations) => {
            let texts: Vec<_> = violations.iter().map(Violation::to_string).collect();
            Err(not_now(reason_of(&violations), texts.join("; ")))
        }
    }
}

fn write_files(
    declaration: &Declaration,
    path: &Path,
    config: &WorkerConfig,
) -> std::io::Result<()> {
    if let (Some(folder), Some(account)) =
        (&config.clickhouse.credentials_dir, &declaration.account)
    {
        make_private_folder(folder)?;
        write_private_file(&folder.join("username"), account.username.as_bytes())?;
        let password = account.password.expose_secret();
        write_private_file(&folder.join("password"), password.as_bytes())?;
    }
    write_private_file(path, &serde_json::to_vec_pretty(config)?)
}
