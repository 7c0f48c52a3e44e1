//! `spec.clickhouse`: the server that rows go to.
//!
//! Must not be here: credentials themselves.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The server that rows go to.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("self.database == oldSelf.database")
    .message("`database` cannot be changed: make a new sink for another table").field_path(".database"))]
#[serde(rename_all = "camelCase")]
pub struct ClickHouseSpec {
    /// Address of the HTTP interface, `http://host:port`.
    #[schemars(
        length(max = 300),
        regex(pattern = r"^http://[^\s/?#@]+:[0-9]{1,5}/?$")
    )]
    pub url: String,
    /// Database of the table and of the rejected table, which must exist; it cannot be changed.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\x00-\x1f/]+$"))]
    pub database: String,
    /// Secret with the keys `username` and `password`; by default the user `default` without a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretReference>,
    /// The cluster whose servers each have the table; by default the server is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterSpec>,
}

/// A cluster of servers that each have the table; its engine is the replicated one, with the servers' default path.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Name of the cluster in the servers' `remote_servers`.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\x00-\x1f]+$"))]
    pub name: String,
    /// How statements reach every server: `OnCluster` says `ON CLUSTER` in each; `ReplicatedDatabase` leaves it to the database, whose engine is `Replicated`.
    pub ddl: ClusterDdl,
}

/// How statements reach every server of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClusterDdl {
    /// Each statement says `ON CLUSTER`.
    OnCluster,
    /// The database passes statements on.
    ReplicatedDatabase,
}

/// A Secret in the namespace of the sink.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Name of the Secret.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
}
