//! What a user declares, with all that is known about it without asking anybody.
//!
//! Must not be here: reading files or the cluster, what the server says.

use clickhouse_sink_crds::api::{ClickHouseSink, DdlMode};
use clickhouse_sink_crds::table::TableDefinition;
use clickhouse_sink_crds::validate::views::view_name;

use secrecy::ExposeSecret as _;

use crate::sql::{is_plain_identifier, render_identifier};
use crate::warehouse::Account;

/// One sink, declared.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// The resource.
    pub sink: ClickHouseSink,
    /// `metadata.uid`, or what stands for it in local mode.
    pub uid: String,
    /// The cluster that it is declared in: uid of `kube-system`, or the id of the state folder.
    pub cluster: String,
    /// Sinks that are declared there, by `namespace/name`.
    pub siblings: Vec<String>,
    /// Consumer group where the resource names none.
    pub default_group_id: String,
    /// The table, as declared; expressions as the user wrote them.
    pub expected: TableDefinition,
    /// The table of rejected records.
    pub rejected: TableDefinition,
    /// Who we are to ClickHouse; none: the default user without a password.
    pub account: Option<Account>,
}

impl Declaration {
    /// `namespace/name`.
    #[must_use]
    pub fn qualified_name(&self) -> String {
        format!("{}/{}", self.namespace(), self.name())
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.sink.metadata.namespace.as_deref().unwrap_or("default")
    }

    /// True where nothing that matters differs, credentials included.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        let secret = |account: &Option<Account>| {
            account.as_ref().map(|account| {
                (
                    account.username.clone(),
                    account.password.expose_secret().to_owned(),
                )
            })
        };
        self.sink == other.sink
            && self.siblings == other.siblings
            && secret(&self.account) == secret(&other.account)
    }

    /// `metadata.generation`; 0 in local mode, which has none.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.sink.metadata.generation.unwrap_or(0)
    }

    /// An annotation.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let annotations = self.sink.metadata.annotations.as_ref()?;
        annotations.get(name).map(String::as_str)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.sink.metadata.name.as_deref().unwrap_or_default()
    }

    /// Names of everything that the sink has, its topics included.
    #[must_use]
    pub fn list_names(&self) -> Vec<String> {
        let spec = &self.sink.spec;
        let derived = spec.derived.iter();
        let derived = derived.flat_map(|it| [it.name.clone(), view_name(&it.name)]);
        let mut names = vec![self.expected.name.clone(), self.rejected.name.clone()];
        names.extend(derived);
        names.extend(spec.flat_view.as_ref().map(|view| view.name.clone()));
        names.extend(spec.kafka.topics.iter().cloned());
        names
    }

    /// What may be done to the table.
    #[must_use]
    pub const fn mode(&self) -> DdlMode {
        self.sink.spec.table.ddl
    }

    /// Workers that should run now: none while the sink is paused.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        if self.sink.spec.paused {
            0
        } else {
            u32::try_from(self.sink.spec.replicas).unwrap_or(0)
        }
    }

    /// Milliseconds until the tables are looked at again where all is well.
    #[must_use]
    pub fn recheck_ms(&self) -> u64 {
        u64::try_from(self.sink.spec.table.recheck_period_seconds)
            .unwrap_or(60)
            .max(1)
            * 1_000
    }
}

/// An expression of a table, and where the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    /// Path in the resource, for example `spec.table.ttl`.
    pub path: String,
    /// The text.
    pub text: String,
}

/// All expressions of a table. A sorting key's part that is a column's plain name is a name, not an expression.
#[must_use]
pub fn list_expressions(table: &TableDefinition) -> Vec<Expression> {
    let one = |path: &str, text: &Option<String>| {
        text.as_ref().map(|text| Expression {
            path: path.to_owned(),
            text: text.clone(),
        })
    };
    let order_by = table
        .order_by
        .iter()
        .map(|part| quote_column(table, part))
        .filter(|part| !is_column(table, part));
    let order_by = order_by.map(|text| Expression {
        path: "spec.table.orderBy".to_owned(),
        text,
    });
    let columns = table.columns.iter().enumerate();
    let defaults = columns.filter_map(|(index, column)| one(&default_path(index), &column.default));
    let indexes = table.indexes.iter().enumerate();
    let indexes = indexes.map(|(number, index)| Expression {
        path: format!("spec.table.indexes[{number}].expression"),
        text: index.expression.clone(),
    });
    order_by
        .chain(indexes)
        .chain(one("spec.table.partitionBy", &table.partition_by))
        .chain(one("spec.table.ttl", &table.ttl))
        .chain(defaults)
        .collect()
}

/// Path of a column's default, by the column's place.
#[must_use]
pub fn default_path(index: usize) -> String {
    format!("spec.table.columns[{index}].default")
}

/// A sorting key's part: the name of a column is quoted where it must be.
#[must_use]
pub fn quote_column(table: &TableDefinition, part: &str) -> String {
    let must_quote = is_column(table, part) && !is_plain_identifier(part);
    if must_quote {
        render_identifier(part)
    } else {
        part.to_owned()
    }
}

fn is_column(table: &TableDefinition, part: &str) -> bool {
    table.columns.iter().any(|column| column.name == part)
}
