//! Materialized views on a table: a retry fills what they fill twice, where that has no window.

use clickhouse_sink_crds::api::{DdlMode, WideningPolicy};
use clickhouse_sink_crds::check::{check_table, may_write};
use clickhouse_sink_operator::ddl::render_create_table;

use crate::random::{Random, WINDOW, table};
use crate::server::Scratch;

#[tokio::test]
async fn a_view_whose_target_has_no_window_is_warned_of_with_the_statement_that_gives_it_one() {
    let scratch = Scratch::new().await;
    let wanted = table(&mut Random::new(2), &scratch.database, "t");
    scratch.run(&render_create_table(&wanted)).await;
    let database = &scratch.database;
    scratch.run(&format!("CREATE TABLE {database}.good (id String) ENGINE = MergeTree ORDER BY id SETTINGS {WINDOW} = 10")).await;
    scratch
        .run(&format!(
            "CREATE TABLE {database}.bad (id String) ENGINE = MergeTree ORDER BY id"
        ))
        .await;
    for target in ["good", "bad"] {
        scratch.run(&format!("CREATE MATERIALIZED VIEW {database}.{target}_mv TO {database}.{target} AS SELECT id FROM {database}.t")).await;
    }
    let found = scratch.fetch("t").await;
    assert_eq!(found.views.len(), 2, "{found:?}");
    let differences = check_table(&wanted, &found);
    assert!(may_write(&differences));
    let [one] = differences.as_slice() else {
        panic!("{differences:?}")
    };
    assert_eq!(one.subject, format!("materialized view {database}.bad_mv"));
    let sql = one.remedy.strip_prefix("run ").unwrap();
    scratch.run(sql.split(": ").next().unwrap()).await;
    let auto = (DdlMode::Auto, WideningPolicy::Refuse);
    assert_eq!(scratch.plan(auto, &wanted).await.warnings, vec![]);
    scratch.drop().await;
}
