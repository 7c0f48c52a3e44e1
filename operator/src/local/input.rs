//! The YAML files of local mode: read, checked, and made into declarations.
//!
//! Must not be here: what the documents mean (the contract crate), what the server says about them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clickhouse_sink_crds::api::ClickHouseSink;
use clickhouse_sink_crds::manifest::{Manifest, ManifestError, SecretManifest, parse_manifests};
use clickhouse_sink_crds::resolve::{expected_table, namespace, rejected_table};
use clickhouse_sink_crds::validate::validate_update;
use clickhouse_sink_crds::violation::Violation;

use crate::controller::declaration::Declaration;
use crate::local::state_folder::StateFolder;
use crate::warehouse::Account;

/// One thing that is wrong with the files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// A file or folder that cannot be read.
    #[error("{}: cannot be read: {why}", .file.display())]
    Unreadable {
        /// The file or folder.
        file: PathBuf,
        /// What the system said.
        why: String,
    },
    /// A document, with line and column.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A sink that is valid by itself but not here.
    #[error("{}: sink {sink}: {message}", .file.display())]
    Sink {
        /// The file it is in.
        file: PathBuf,
        /// `namespace/name`.
        sink: String,
        /// What was expected, what was found, what to do.
        message: String,
    },
    /// Files without a sink.
    #[error("expected at least one document of kind ClickHouseSink, found none in {files}")]
    NoSink {
        /// The files.
        files: String,
    },
}

type Secrets = BTreeMap<(String, String), SecretManifest>;

/// Reads and checks all files; folders stand for the YAML files in them.
///
/// # Errors
/// Everything that is wrong.
pub fn read_declarations(
    paths: &[PathBuf],
    folder: &StateFolder,
) -> Result<Vec<Declaration>, Vec<InputError>> {
    let mut errors = Vec::new();
    let (mut sinks, mut secrets) = (Vec::new(), Secrets::new());
    for (file, manifests) in read_manifests(paths, &mut errors) {
        for manifest in manifests {
            match manifest {
                Manifest::Sink(sink) => sinks.push((file.clone(), *sink)),
                Manifest::Secret(secret) => {
                    secrets.insert((secret.namespace.clone(), secret.name.clone()), secret);
                }
            }
        }
    }
    if sinks.is_empty() && errors.is_empty() {
        let files = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join(", ");
        errors.push(InputError::NoSink { files });
    }
    let declarations = build_declarations(&sinks, &secrets, folder, &mut errors);
    if errors.is_empty() {
        Ok(declarations)
    } else {
        Err(errors)
    }
}

fn read_manifests(
    paths: &[PathBuf],
    errors: &mut Vec<InputError>,
) -> Vec<(PathBuf, Vec<Manifest>)> {
    let mut all = Vec::new();
    for (file, text) in read_texts(paths) {
        match text {
            Err(why) => errors.push(InputError::Unreadable { file, why }),
            Ok(text) => match parse_manifests(&text, &file.display().to_string()) {
                Ok(manifests) => all.push((file, manifests)),
                Err(found) => errors.extend(found.into_iter().map(InputError::from)),
            },
        }
    }
    all
}

/// True for `-`.
#[must_use]
pub fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The text of each file, or why there is none. Folders stand for the YAML files in them, `-` for standard input.
#[must_use]
pub fn read_texts(paths: &[PathBuf]) -> Vec<(PathBuf, Result<String, String>)> {
    let mut texts = Vec::new();
    for path in paths {
        if is_standard_input(path) {
            let text = io::read_to_string(io::stdin()).map_err(|error| error.to_string());
            texts.push((path.clone(), text));
            continue;
        }
        match list_files(path) {
            Ok(files) => texts.extend(files.into_iter().map(|file| {
                let text = fs::read_to_string(&file).map_err(|error| error.to_string());
                (file, text)
            })),
            Err(error) => texts.push((path.clone(), Err(error.to_string()))),
        }
    }
    texts
}

fn list_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let is_yaml = file
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml");
        if is_yaml && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn build_declarations(
    sinks: &[(PathBuf, ClickHouseSink)],
    secrets: &Secrets,
    folder: &StateFolder,
    errors: &mut Vec<InputError>,
) -> Vec<Declaration> {
    let mut declarations: Vec<Declaration> = Vec::new();
    for (file, sink) in sinks {
        let built = build_declaration(sink, secrets, folder).and_then(|declaration| {
            check_alone(&declaration, &declarations)?;
            Ok(declaration)
        });
        match built {
            Ok(declaration) => declarations.push(declaration),
            Err(message) => {
                let sink = format!(
                    "{}/{}",
                    namespace(sink),
                    sink.metadata.name.as_deref().unwrap_or_default()
                );
                errors.push(InputError::Sink {
                    file: file.clone(),
                    sink,
                    message,
                });
            }
        }
    }
    let names: Vec<String> = declarations
        .iter()
        .map(Declaration::qualified_name)
        .collect();
    for declaration in &mut declarations {
        declaration.siblings.clone_from(&names);
    }
    declarations
}

fn build_declaration(
    sink: &ClickHouseSink,
    secrets: &Secrets,
    folder: &StateFolder,
) -> Result<Declaration, String> {
    let (namespace, name) = (
        namespace(sink),
        sink.metadata.name.as_deref().unwrap_or_default(),
    );
    check_namespace(namespace)?;
    Ok(Declaration {
        uid: folder.build_uid(namespace, name),
        cluster: folder.cluster_id(),
        siblings: Vec::new(),
        default_group_id: format!("local.{namespace}.{name}"),
        expected: expected_table(sink),
        rejected: rejected_table(sink),
        account: find_account(sink, namespace, secrets)?,
        sink: sink.clone(),
    })
}

/// It names a folder here, and a group.
fn check_namespace(namespace: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !namespace.is_empty() && namespace.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!(
        "metadata.namespace: expected lower-case letters, digits and `-`, found {namespace:?}"
    ))
}

/// Two sinks of one name are a mistake; two in one consumer group would each get a part of the records.
fn check_alone(declaration: &Declaration, others: &[Declaration]) -> Result<(), String> {
    let group = |declaration: &Declaration| {
        declaration
            .sink
            .spec
            .kafka
            .group_id
            .clone()
            .unwrap_or_else(|| declaration.default_group_id.clone())
    };
    for other in others {
        if other.qualified_name() == declaration.qualified_name() {
            return Err("expected one sink of this name, found two: rename one".to_owned());
        }
        if group(other) == group(declaration) {
            let (group, name) = (group(other), other.qualified_name());
            return Err(format!(
                "spec.kafka.groupId: expected a group of its own, found {group} of sink {name}: each would get a part of the records"
            ));
        }
    }
    Ok(())
}

fn find_account(
    sink: &ClickHouseSink,
    namespace: &str,
    secrets: &Secrets,
) -> Result<Option<Account>, String> {
    let Some(reference) = &sink.spec.clickhouse.credentials_secret_ref else {
        return Ok(None);
    };
    let name = &reference.name;
    let secret = secrets.get(&(namespace.to_owned(), name.clone())).ok_or_else(|| {
        format!(
            "spec.clickhouse.credentialsSecretRef: expected a document of kind Secret named {name} in namespace {namespace}, found none: add it to the files"
        )
    })?;
    let username = read_key(secret, "username")?;
    let password = read_key(secret, "password")?.into();
    Ok(Some(Account { username, password }))
}

fn read_key(secret: &SecretManifest, key: &str) -> Result<String, String> {
    let name = &secret.name;
    let value = secret.data.get(key).ok_or_else(|| {
        format!("expected the key {key} in Secret {name}, found none: add it under stringData")
    })?;
    String::from_utf8(value.clone())
        .map_err(|_| format!("expected UTF-8 text under {key} in Secret {name}, found other bytes"))
}

/// What cannot be changed in a sink that runs, and what is wrong with the new one.
#[must_use]
pub fn check_change(current: &Declaration, new: &Declaration) -> Vec<Violation> {
    validate_update(&new.sink, &current.sink)
}

/// Notices that files have changed, by what is in them.
#[derive(Debug)]
pub struct FileWatch {
    paths: Vec<PathBuf>,
    last: Vec<(PathBuf, Result<String, String>)>,
}

impl FileWatch {
    /// Starts from what is in the files now.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let last = read_texts(&paths);
        Self { paths, last }
    }

    /// The files and folders.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// True once after each change.
    pub fn has_changed(&mut self) -> bool {
        let now = read_texts(&self.paths);
        let changed = now != self.last;
        self.last = now;
        changed
    }
}
