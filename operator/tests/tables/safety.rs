//! No plan destroys anything, whatever the two tables are.

use clickhouse_sink_crds::api::{DdlMode, WideningPolicy};
use clickhouse_sink_crds::ddl::Alteration;
use clickhouse_sink_crds::table::{Engine, TableDefinition};
use clickhouse_sink_operator::ddl::{DdlStep, TableCase, plan_tables};

use crate::random::{CHAINS, Random, any_type, observe, table};

/// Two tables that have little to do with each other.
fn any_pair(random: &mut Random) -> (TableDefinition, TableDefinition) {
    let there = table(random, "d", "t");
    let mut wanted = table(random, "d", "t");
    for column in &mut wanted.columns {
        if random.is(20) {
            column.data_type = any_type(random);
        }
    }
    if random.is(20) {
        wanted.order_by.reverse();
    }
    if random.is(60) {
        wanted.engine = there.engine.clone();
        wanted.partition_by.clone_from(&there.partition_by);
    }
    (wanted, there)
}

/// How values are stored makes a type neither wider nor narrower.
fn bare(data_type: &str) -> &str {
    let inner = data_type.strip_prefix("LowCardinality(");
    inner.map_or(data_type, |inner| inner.strip_suffix(')').unwrap_or(inner))
}

fn is_wider(from: &str, to: &str) -> bool {
    let (from, to) = (bare(from), bare(to));
    let is_restored = from == to;
    is_restored
        || CHAINS.iter().any(|chain| {
            let place = |wanted: &str| chain.iter().position(|one| *one == wanted);
            matches!((place(from), place(to)), (Some(from), Some(to)) if from < to)
        })
}

fn check_step(step: &DdlStep, wanted: &TableDefinition, there: &TableDefinition) {
    let sql = step.render();
    for word in [
        "DROP",
        "RENAME",
        "TRUNCATE",
        "REPLACE ",
        "CLEAR",
        "DELETE",
        "MODIFY ORDER BY",
    ] {
        assert!(!sql.contains(word), "{word} in {sql}");
    }
    let DdlStep::AlterTable { change, .. } = step else {
        panic!("a table that is there is only altered: {sql}")
    };
    if let Alteration::WidenColumn { column, data_type } = change {
        let before = there.columns.iter().find(|one| one.name == *column);
        assert!(is_wider(&before.unwrap().data_type, data_type), "{sql}");
        let is_version = matches!(&wanted.engine, Engine::ReplacingMergeTree { version_column } if version_column == column);
        assert!(
            !is_version && !wanted.order_by.contains(column) && column != "ts",
            "{sql}"
        );
    }
    assert!(
        !matches!(
            change,
            Alteration::FillColumn { .. } | Alteration::MakeOrdinary { .. }
        ),
        "only a person does this: {sql}"
    );
}

#[test]
fn no_plan_drops_renames_narrows_or_touches_a_key() {
    let mut random = Random::seeded("safety");
    let mut steps = 0;
    for _ in 0..20_000 {
        let (wanted, there) = any_pair(&mut random);
        let observed = observe(&there);
        let case = TableCase {
            expected: &wanted,
            observed: Some(&observed),
            was_there: true,
        };
        let plan = plan_tables(DdlMode::Auto, WideningPolicy::Mutate, true, &[case]);
        for step in &plan.steps {
            check_step(step, &wanted, &there);
        }
        assert!(plan.held.is_empty() || plan.steps.is_empty());
        steps += plan.steps.len();
        let refusing = plan_tables(DdlMode::Auto, WideningPolicy::Refuse, true, &[case]);
        assert!(refusing.steps.iter().all(|step| plan.steps.contains(step)));
        for mode in [DdlMode::Validate, DdlMode::None] {
            let plan = plan_tables(mode, WideningPolicy::Mutate, true, &[case]);
            assert!(plan.steps.is_empty());
        }
    }
    assert!(steps > 300, "the pairs are too far apart: {steps} steps");
}
