//! One INSERT attempt over HTTP.
//!
//! Must not be here: retries, what a failure means.

use std::time::Duration;

use bytes::Bytes;
use clickhouse::Client;
use clickhouse::error::Error;
use clickhouse_sink_crds::worker_config::ClickHouseTarget;
use secrecy::{ExposeSecret, SecretString};

use super::class::Failure;

/// Body chunk that is handed to the connection at once, in bytes.
const CHUNK_BYTES: usize = 1 << 20;

/// User and password of the server.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// User name.
    pub username: String,
    /// Password.
    pub password: SecretString,
}

/// Why the credentials cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot read the credentials file {path}: {source}; it must hold the {what} and be readable by the worker"
)]
pub struct CredentialsError {
    path: String,
    what: &'static str,
    source: std::io::Error,
}

/// Reads the mounted files `username` and `password`; user `default` without a password where none are mounted.
///
/// # Errors
/// Where a file is missing or unreadable.
pub fn read_credentials(target: &ClickHouseTarget) -> Result<Credentials, CredentialsError> {
    let Some(folder) = &target.credentials_dir else {
        return Ok(Credentials {
            username: "default".into(),
            password: SecretString::default(),
        });
    };
    let read = |what: &'static str| {
        let path = folder.join(what);
        std::fs::read_to_string(&path).map_err(|source| CredentialsError {
            path: path.display().to_string(),
            what,
            source,
        })
    };
    let trimmed = |text: String| text.trim_end_matches(['\n', '\r']).to_owned();
    Ok(Credentials {
        username: trimmed(read("username")?),
        password: trimmed(read("password")?).into(),
    })
}

/// A client of the target server; bodies are compressed by us, so its own compression is off.
///
/// # Errors
/// Where the credentials cannot be read.
pub fn build_client(target: &ClickHouseTarget) -> Result<Client, CredentialsError> {
    let credentials = read_credentials(target)?;
    Ok(Client::default()
        .with_url(&target.url)
        .with_database(&target.database)
        .with_compression(clickhouse::Compression::None)
        .with_user(credentials.username)
        .with_password(credentials.password.expose_secret()))
}

/// A statement with its settings and an encoded body.
#[derive(Clone, Debug)]
pub struct Request {
    /// `INSERT INTO … FORMAT …`.
    pub sql: String,
    /// Settings, the token included.
    pub settings: Vec<(String, String)>,
    /// The body, compressed by us where the settings say `decompress=1`.
    pub body: Bytes,
}

/// Sends the request once; success is a complete answer without an exception anywhere in it.
///
/// # Errors
/// The classified failure; without an answer within `timeout` the outcome is unknown.
pub async fn send_once(
    client: &Client,
    request: &Request,
    query_id: String,
    timeout: Duration,
) -> Result<(), Failure> {
    match tokio::time::timeout(timeout, send(client, request, query_id)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(classify_error(&error)),
        Err(_) => Err(Failure::no_answer(&format!(
            "no answer within {} s",
            timeout.as_secs()
        ))),
    }
}

async fn send(client: &Client, request: &Request, query_id: String) -> Result<(), Error> {
    let mut client = client.clone().with_setting("query_id", query_id);
    for (name, value) in &request.settings {
        client = client.with_setting(name.as_str(), value.as_str());
    }
    let mut insert = client.insert_formatted_with(request.sql.as_str());
    let mut rest = request.body.clone();
    while !rest.is_empty() {
        insert
            .send(rest.split_to(rest.len().min(CHUNK_BYTES)))
            .await?;
    }
    insert.end().await
}

/// What an error of the client means.
#[must_use]
pub fn classify_error(error: &Error) -> Failure {
    match error {
        Error::BadResponse(text) => Failure::answered(text),
        other => Failure::no_answer(&error_chain(other)),
    }
}

/// An error with its causes, which the client's own text leaves out.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
