//! Hostile names of everything that has one: made, changed and read back on the server.

use std::collections::BTreeMap;

use clickhouse_sink_crds::api::{DdlMode, WideningPolicy};
use clickhouse_sink_crds::table::{ColumnDefinition, Engine, IndexDefinition, TableDefinition};
use clickhouse_sink_operator::ddl::TablesPlan;
use clickhouse_sink_operator::ddl::render_create_table;
use clickhouse_sink_operator::sql::render_identifier;
use clickhouse_sink_operator::warehouse::Warehouse as _;

use crate::random::{Random, WINDOW};
use crate::server::Scratch;

/// Pieces of which names are made: quotes of all kinds, ends of statements, comments, line ends, other scripts.
const PIECES: [&str; 24] = [
    "a",
    "B",
    "7",
    "_",
    "`",
    "'",
    "\"",
    "\\",
    ";",
    "--",
    "/*",
    "*/",
    "\n",
    "\t",
    " ",
    "(",
    ")",
    "$$",
    "é",
    "—",
    "😀",
    "`; DROP TABLE x; --",
    "' OR 1 = 1",
    "{a:String}",
];

fn name(random: &mut Random, used: &mut Vec<String>) -> String {
    loop {
        let pieces = (0..=random.below(6)).map(|_| *random.pick(&PIECES));
        let name: String = pieces.collect();
        if !used.contains(&name) && !name.trim().is_empty() {
            used.push(name.clone());
            return name;
        }
    }
}

/// As an operator has it: expressions in the server's own form.
async fn canonical(scratch: &Scratch, name: &str) -> String {
    let quoted = render_identifier(name);
    scratch
        .server
        .fetch_canonical(&quoted)
        .await
        .unwrap()
        .unwrap()
}

async fn hostile_table(scratch: &Scratch, random: &mut Random) -> TableDefinition {
    let mut used = Vec::new();
    let key = name(random, &mut used);
    let column = |name: String, comment: String| ColumnDefinition {
        name,
        data_type: "String".to_owned(),
        default: None,
        comment: Some(comment),
        codec: Some("ZSTD(2)".to_owned()),
    };
    let comment = name(random, &mut used);
    TableDefinition {
        database: scratch.database.clone(),
        name: name(random, &mut used),
        engine: Engine::MergeTree,
        columns: vec![column(key.clone(), comment)],
        order_by: vec![canonical(scratch, &key).await],
        partition_by: None,
        ttl: None,
        settings: BTreeMap::from([(WINDOW.to_owned(), "100000".to_owned())]),
        indexes: vec![IndexDefinition {
            name: name(random, &mut used),
            expression: canonical(scratch, &key).await,
            index_type: "minmax".to_owned(),
            granularity: 1,
        }],
        cluster: None,
    }
}

/// Another column, comments and an index, all with names of that kind.
async fn change(scratch: &Scratch, random: &mut Random, table: &mut TableDefinition) {
    let mut used: Vec<_> = table.columns.iter().map(|one| one.name.clone()).collect();
    used.extend(table.indexes.iter().map(|one| one.name.clone()));
    let new = ColumnDefinition {
        name: name(random, &mut used),
        comment: Some(name(random, &mut used)),
        default: Some(render_identifier("x").replace('`', "'")),
        ..table.columns[0].clone()
    };
    table.columns[0].comment = Some(name(random, &mut used));
    table.indexes.push(IndexDefinition {
        name: name(random, &mut used),
        expression: canonical(scratch, &new.name).await,
        ..table.indexes[0].clone()
    });
    table.columns.push(new);
}

#[tokio::test]
async fn names_stay_names_in_every_statement() {
    let mut random = Random::seeded("hostile");
    let auto = (DdlMode::Auto, WideningPolicy::Refuse);
    for _ in 0..40 {
        let database = format!("{} {}", name(&mut random, &mut Vec::new()), random.next());
        let scratch = Scratch::named(&database.replace('/', "|")).await;
        let mut table = hostile_table(&scratch, &mut random).await;
        table.name = table.name.replace('/', "|");
        scratch.run(&render_create_table(&table)).await;
        let nothing = TablesPlan::default();
        assert_eq!(scratch.plan(auto, &table).await, nothing, "{table:#?}");
        change(&scratch, &mut random, &mut table).await;
        let plan = scratch.plan(auto, &table).await;
        assert_eq!((plan.steps.len(), plan.held), (3, vec![]), "{table:#?}");
        for step in &plan.steps {
            scratch.run(&step.render()).await;
        }
        assert_eq!(scratch.plan(auto, &table).await, nothing, "{table:#?}");
        let found = scratch.fetch(&table.name).await;
        for (wanted, found) in table.columns.iter().zip(&found.columns) {
            assert_eq!(
                (&wanted.name, wanted.comment.as_ref()),
                (&found.name, Some(&found.comment))
            );
        }
        scratch.drop().await;
    }
}
