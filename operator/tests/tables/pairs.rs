//! Random pairs of tables on the server: what is allowed converges within one apply, and keeps what is there; what is
//! refused names a statement that a person can run as it is.

use clickhouse_sink_crds::api::{DdlMode, WideningPolicy};
use clickhouse_sink_crds::table::{Difference, TableDefinition};
use clickhouse_sink_operator::ddl::{TablesPlan, render_create_table};
use clickhouse_sink_operator::sql::render_identifier;
use clickhouse_sink_operator::warehouse::Warehouse as _;

use crate::random::{Random, allowed_change, table};
use crate::server::Scratch;

const AUTO: (DdlMode, WideningPolicy) = (DdlMode::Auto, WideningPolicy::Mutate);
const VALIDATE: (DdlMode, WideningPolicy) = (DdlMode::Validate, WideningPolicy::Refuse);
/// Pairs of one run.
const PAIRS: usize = 60;

/// A sum over the text of all rows of the columns; a Float's text changes with its width.
async fn sum_of(scratch: &Scratch, table: &TableDefinition) -> String {
    let columns = table
        .columns
        .iter()
        .filter(|column| !column.data_type.contains("Float"));
    let texts: Vec<_> = columns
        .map(|column| format!("toString({})", render_identifier(&column.name)))
        .collect();
    // Of a subquery the port's own way to read one value makes JSON.
    let sql = format!(
        "(SELECT toString(sum(cityHash64(tuple({})))) || ' ' || toString(count()) FROM {}.{})",
        texts.join(", "),
        scratch.database,
        table.name
    );
    scratch
        .server
        .fetch_constant(&sql, "String")
        .await
        .unwrap()
        .unwrap()
}

async fn make(scratch: &Scratch, table: &TableDefinition) {
    scratch.run(&render_create_table(table)).await;
    let columns: Vec<_> = table
        .columns
        .iter()
        .map(|one| render_identifier(&one.name))
        .collect();
    let structure: Vec<_> = table
        .columns
        .iter()
        .map(|one| format!("{} {}", render_identifier(&one.name), one.data_type))
        .collect();
    let structure = structure
        .join(", ")
        .replace('\\', "\\\\")
        .replace('\'', "\\'");
    // A key's time in one month, so that no TTL and no limit of partitions gets in the way.
    scratch
        .run(&format!(
            "INSERT INTO {}.{} ({}) SELECT * REPLACE (toDateTime64('2099-03-14 01:02:03.004', 3, 'UTC') AS ts) \
             FROM generateRandom('{structure}', 1, 8, 2) LIMIT 5",
            scratch.database,
            table.name,
            columns.join(", ")
        ))
        .await;
}

fn assert_nothing_left(plan: &TablesPlan, context: &str) {
    assert_eq!(*plan, TablesPlan::default(), "{context}");
}

#[tokio::test]
async fn every_allowed_pair_converges_within_one_apply_and_keeps_its_rows() {
    let mut random = Random::seeded("pairs");
    let scratch = Scratch::new().await;
    for number in 0..PAIRS {
        let before = table(&mut random, &scratch.database, &format!("t{number}"));
        make(&scratch, &before).await;
        assert_nothing_left(&scratch.plan(AUTO, &before).await, &format!("{before:#?}"));
        let sum = sum_of(&scratch, &before).await;
        let after = allowed_change(&mut random, &before);
        let plan = scratch.plan(AUTO, &after).await;
        assert_eq!((plan.held, plan.warnings), (vec![], vec![]));
        for step in &plan.steps {
            scratch.run(&step.render()).await;
        }
        let again = scratch.plan(AUTO, &after).await;
        assert_nothing_left(&again, &format!("{before:#?}\n{after:#?}"));
        assert_eq!(
            sum_of(&scratch, &before).await,
            sum,
            "{before:#?}\n{after:#?}"
        );
        for step in &plan.steps {
            scratch.run_again(&step.render()).await;
        }
    }
    scratch.drop().await;
}

/// The statement that a remedy names.
fn statement(difference: &Difference) -> &str {
    let at = difference.remedy.find("run ALTER TABLE ");
    &difference.remedy[at.unwrap_or_else(|| panic!("{difference:?}")) + 4..]
}

#[tokio::test]
async fn each_remedy_is_a_statement_that_a_person_can_run_as_it_is() {
    let mut random = Random::seeded("remedies");
    let scratch = Scratch::new().await;
    for number in 0..PAIRS / 2 {
        let before = table(&mut random, &scratch.database, &format!("t{number}"));
        make(&scratch, &before).await;
        let after = allowed_change(&mut random, &before);
        let plan = scratch.plan(VALIDATE, &after).await;
        assert!(plan.steps.is_empty());
        for difference in plan.held.iter().chain(&plan.warnings) {
            scratch.run(statement(difference)).await;
        }
        let again = scratch.plan(VALIDATE, &after).await;
        assert_nothing_left(&again, &format!("{before:#?}\n{after:#?}"));
    }
    scratch.drop().await;
}

#[tokio::test]
async fn what_only_a_person_does_is_told_with_a_statement_that_works() {
    let scratch = Scratch::new().await;
    let mut random = Random::new(1);
    let mut wanted = table(&mut random, &scratch.database, "t");
    wanted.ttl = None;
    scratch.run(&render_create_table(&wanted)).await;
    for change in [
        "ADD COLUMN extra DateTime('UTC')",
        "ADD COLUMN volatile UInt64 DEFAULT rand64()",
        "ADD COLUMN computed UInt64 MATERIALIZED rand64()",
        "MODIFY COLUMN c0 REMOVE DEFAULT",
    ] {
        let table = format!("{}.t", scratch.database);
        // The last one fails where there is no default to remove: the column is made a computed one either way.
        let _ = scratch
            .server
            .apply_statement(&format!("ALTER TABLE {table} {change}"))
            .await;
    }
    wanted.columns.truncate(3);
    scratch
        .run(&format!(
            "ALTER TABLE {}.t ADD COLUMN shown UInt8 MATERIALIZED 1",
            scratch.database
        ))
        .await;
    let mut shown = wanted.columns[0].clone();
    "shown".clone_into(&mut shown.name);
    "UInt8".clone_into(&mut shown.data_type);
    (shown.default, shown.codec, shown.comment) = (None, None, None);
    wanted.columns.push(shown);
    let plan = scratch.plan(AUTO, &wanted).await;
    assert!(plan.steps.is_empty());
    let held: Vec<_> = plan.held.iter().map(|one| one.subject.as_str()).collect();
    for subject in ["shown", "extra", "volatile", "computed"] {
        assert!(held.contains(&subject), "{held:?}");
    }
    for difference in &plan.held {
        scratch.run(statement(difference)).await;
    }
    assert_eq!(scratch.plan(AUTO, &wanted).await.held, vec![]);
    scratch.drop().await;
}
