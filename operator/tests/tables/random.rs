//! Random tables, and random changes that are allowed.
//!
//! Must not be here: what a test expects.

use std::collections::BTreeMap;

use clickhouse_sink_crds::table::{
    ColumnDefinition, Engine, IndexDefinition, ObservedColumn, ObservedTable, TableDefinition,
};

/// The window that every table is made with.
pub(crate) const WINDOW: &str = "non_replicated_deduplication_window";

/// A small generator whose runs can be repeated (`splitmix64`).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed of its own, or the one in `CHSINK_TABLES_SEED`; printed, so that a failure can be repeated.
    pub(crate) fn seeded(what: &str) -> Self {
        let seed = std::env::var("CHSINK_TABLES_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
        println!("{what}: CHSINK_TABLES_SEED={seed}");
        Self::new(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub(crate) fn is(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Types of which each may become any later one of its row, and none may go back.
pub(crate) const CHAINS: [&[&str]; 8] = [
    &["UInt8", "UInt16", "UInt32", "UInt64", "Nullable(UInt64)"],
    &["Int8", "Int32", "Int64", "Int128", "Nullable(Int256)"],
    &["Float32", "Float64", "Nullable(Float64)"],
    &["FixedString(4)", "String", "Nullable(String)"],
    &[
        "Enum8('a' = 1)",
        "Enum8('a' = 1, 'b' = 2)",
        "Enum8('a' = 1, 'b' = 2, 'it\\'s' = 3)",
        "Enum16('a' = 1, 'b' = 2, 'it\\'s' = 3, 'd' = 300)",
    ],
    &["Date", "Nullable(Date)"],
    &["DateTime64(3, 'UTC')", "Nullable(DateTime64(3, 'UTC'))"],
    &["LowCardinality(String)", "LowCardinality(Nullable(String))"],
];

const OTHER_TYPES: [&str; 6] = [
    "Array(UInt8)",
    "Map(String, UInt8)",
    "Tuple(a UInt8, b String)",
    "Bool",
    "Decimal(10, 2)",
    "UUID",
];

const CODECS: [&str; 5] = ["ZSTD", "ZSTD(3)", "LZ4", "LZ4HC", "NONE"];
const INDEX_TYPES: [&str; 4] = ["minmax", "set(100)", "bloom_filter(0.01)", "bloom_filter"];
const TTLS: [&str; 3] = [
    "toDateTime(ts) + toIntervalDay(400)",
    "toDateTime(ts) + toIntervalYear(4)",
    "toDate(ts) + toIntervalMonth(7)",
];

/// Any type of those above.
pub(crate) fn any_type(random: &mut Random) -> String {
    if random.is(15) {
        (*random.pick(&OTHER_TYPES)).to_owned()
    } else {
        let chain = CHAINS[random.below(CHAINS.len())];
        (*random.pick(chain)).to_owned()
    }
}

fn column(name: &str, data_type: &str) -> ColumnDefinition {
    ColumnDefinition {
        name: name.to_owned(),
        data_type: data_type.to_owned(),
        default: None,
        comment: None,
        codec: None,
    }
}

/// A default that is canonical already, and right for the type.
fn default_of(data_type: &str) -> String {
    if data_type.starts_with("Enum") {
        "'a'".to_owned()
    } else {
        let name = data_type.replace('\\', "\\\\").replace('\'', "\\'");
        format!("defaultValueOfTypeName('{name}')")
    }
}

fn decorate(random: &mut Random, column: &mut ColumnDefinition) {
    if random.is(30) {
        column.default = Some(default_of(&column.data_type));
    }
    if random.is(30) {
        column.comment = Some(format!("it's \"{}\"\n`;", random.below(9)));
    }
    if random.is(30) {
        column.codec = Some((*random.pick(&CODECS)).to_owned());
    }
}

fn add_column(random: &mut Random, table: &mut TableDefinition) {
    let mut new = column(&format!("c{}", table.columns.len() - 3), &any_type(random));
    decorate(random, &mut new);
    table.columns.push(new);
}

fn add_index(random: &mut Random, table: &mut TableDefinition) {
    table.indexes.push(IndexDefinition {
        name: format!("ix {}", table.indexes.len()),
        expression: (*random.pick(&["id", "lower(id)", "(id, ver)"])).to_owned(),
        index_type: (*random.pick(&INDEX_TYPES)).to_owned(),
        granularity: 1 + random.next() % 8,
    });
}

/// A table with a key, a version, a time, and some more.
pub(crate) fn table(random: &mut Random, database: &str, name: &str) -> TableDefinition {
    let mut table = TableDefinition {
        database: database.to_owned(),
        name: name.to_owned(),
        engine: if random.is(50) {
            Engine::MergeTree
        } else {
            Engine::ReplacingMergeTree {
                version_column: "ver".to_owned(),
            }
        },
        columns: vec![
            column("id", "String"),
            column("ver", "UInt32"),
            column("ts", "DateTime64(3, 'UTC')"),
        ],
        order_by: vec!["id".to_owned(), "ts".to_owned()],
        partition_by: random.is(50).then(|| "toYYYYMM(ts)".to_owned()),
        ttl: random.is(30).then(|| (*random.pick(&TTLS)).to_owned()),
        settings: BTreeMap::from([(WINDOW.to_owned(), "100000".to_owned())]),
        indexes: Vec::new(),
        cluster: None,
    };
    for _ in 0..=random.below(5) {
        add_column(random, &mut table);
    }
    if random.is(40) {
        add_index(random, &mut table);
    }
    table
}

/// The table after changes that are all allowed with `wideningPolicy: Mutate`.
pub(crate) fn allowed_change(random: &mut Random, from: &TableDefinition) -> TableDefinition {
    let mut to = from.clone();
    for index in 0..to.columns.len() {
        change_column(random, &mut to, index);
    }
    for _ in 0..random.below(3) {
        add_column(random, &mut to);
    }
    if random.is(40) {
        add_index(random, &mut to);
    }
    if random.is(50) {
        to.ttl = random.is(70).then(|| (*random.pick(&TTLS)).to_owned());
    }
    if random.is(50) {
        let seconds = 3_600 + random.below(9_999);
        to.settings
            .insert("merge_with_ttl_timeout".to_owned(), seconds.to_string());
    }
    if random.is(30) {
        to.settings.insert(WINDOW.to_owned(), "200000".to_owned());
    }
    to
}

fn change_column(random: &mut Random, table: &mut TableDefinition, index: usize) {
    let is_key = table.is_in_key(&table.columns[index].name);
    let column = &mut table.columns[index];
    if random.is(40) {
        column.comment = Some(format!("comment; {}", random.below(99)));
    }
    if random.is(30) {
        column.codec = Some((*random.pick(&CODECS)).to_owned());
    }
    if is_key || column.name == "ver" {
        return;
    }
    let chain = CHAINS.iter().find_map(|chain| {
        chain
            .iter()
            .position(|one| *one == column.data_type)
            .map(|at| &chain[at..])
    });
    if let Some(chain) = chain.filter(|_| random.is(60)) {
        column.data_type = (*random.pick(chain)).to_owned();
        column.default = column
            .default
            .as_ref()
            .map(|_| default_of(&column.data_type));
    }
    if random.is(30) {
        column.default = Some(default_of(&column.data_type));
    }
}

/// What a server would show of the table.
pub(crate) fn observe(table: &TableDefinition) -> ObservedTable {
    let (engine, arguments) = match &table.engine {
        Engine::MergeTree => ("MergeTree", String::new()),
        Engine::ReplacingMergeTree { version_column } => {
            ("ReplacingMergeTree", format!("({version_column})"))
        }
    };
    let ttl = table
        .ttl
        .as_ref()
        .map_or_else(String::new, |ttl| format!(" TTL {ttl}"));
    let settings: Vec<_> = table
        .settings
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    ObservedTable {
        uuid: String::new(),
        engine: engine.to_owned(),
        engine_full: format!(
            "{engine}{arguments} ORDER BY x{ttl} SETTINGS {}",
            settings.join(", ")
        ),
        sorting_key: table.order_by.join(", "),
        partition_key: table.partition_by.clone().unwrap_or_default(),
        comment: String::new(),
        columns: table.columns.iter().map(observe_column).collect(),
        indexes: table.indexes.clone(),
        views: Vec::new(),
    }
}

fn observe_column(column: &ColumnDefinition) -> ObservedColumn {
    ObservedColumn {
        name: column.name.clone(),
        data_type: column.data_type.clone(),
        default_kind: column
            .default
            .as_ref()
            .map_or_else(String::new, |_| "DEFAULT".to_owned()),
        default_expression: column.default.clone().unwrap_or_default(),
        comment: column.comment.clone().unwrap_or_default(),
        compression_codec: column
            .codec
            .as_ref()
            .map_or_else(String::new, |codec| format!("CODEC({codec})")),
    }
}
