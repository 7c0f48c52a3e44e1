//! Every field of the resource has an effect, and a test that shows it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clickhouse_sink_crds::schema::schema_leaves;
use clickhouse_sink_tests::paths::workspace_dir;

/// Each leaf of the spec's schema and the test that shows its effect.
const TESTS: [(&str, &str); 73] = [
    (
        "spec.batch.compression",
        "each_compression_brings_the_same_rows_and_the_better_one_sends_fewer_bytes",
    ),
    (
        "spec.batch.lingerMilliseconds",
        "the_first_record_of_a_batch_waits_for_others_as_long_as_the_linger_says",
    ),
    ("spec.batch.maxBytes", "a_batch_is_cut_at_its_bytes"),
    (
        "spec.batch.maxRows",
        "a_batch_is_cut_at_its_rows_and_what_is_left_waits_for_the_linger",
    ),
    (
        "spec.batch.maxInsertsPerSecond",
        "inserts_that_the_linger_causes_are_no_more_a_second_than_the_sink_allows",
    ),
    (
        "spec.clickhouse.credentialsSecretRef.name",
        "an_account_comes_from_the_secret_and_a_wrong_one_is_mended_in_the_file",
    ),
    (
        "spec.clickhouse.database",
        "local_makes_the_database_that_is_missing",
    ),
    (
        "spec.clickhouse.url",
        "a_server_that_cannot_be_reached_or_refuses_the_account_ends_with_4_and_no_secret_is_shown",
    ),
    (
        "spec.deadLetter.maxRejectedPercent",
        "a_topic_of_mostly_bad_records_is_held_before_any_is_rejected_and_goes_on_when_it_is_answered",
    ),
    (
        "spec.deadLetter.table.name",
        "a_rejected_table_that_is_missing_holds_the_records_and_goes_on_when_it_is_made",
    ),
    (
        "spec.delivery.guarantee",
        "a_worker_killed_between_insert_and_commit_leaves_copies_that_final_hides_in_a_table_without_a_window",
    ),
    (
        "spec.delivery.insertTimeoutSeconds",
        "an_insert_without_an_answer_is_tried_again_after_its_timeout",
    ),
    (
        "spec.format.json.unknownFields",
        "a_field_that_no_column_takes_is_ignored_or_rejects_the_record",
    ),
    (
        "spec.format.maxRecordBytes",
        "a_record_over_max_record_bytes_is_rejected_whole_and_its_neighbours_are_rows",
    ),
    (
        "spec.format.tombstones",
        "tombstones_that_are_to_be_rejected_are_rejected_with_their_keys",
    ),
    (
        "spec.kafka.bootstrapServers[]",
        "a_wrong_kafka_address_is_told_and_mended_in_the_file",
    ),
    (
        "spec.kafka.groupId",
        "two_sinks_of_one_group_are_refused_with_2",
    ),
    (
        "spec.kafka.groupProtocol",
        "the_broker_assigns_the_partitions_where_the_sink_says_so",
    ),
    (
        "spec.kafka.onDataLoss",
        "records_that_kafka_deleted_hold_the_partition_or_are_skipped_and_recorded",
    ),
    (
        "spec.kafka.properties{}",
        "a_property_reaches_the_kafka_client_and_one_that_it_does_not_know_is_named",
    ),
    (
        "spec.kafka.startFrom",
        "a_sink_that_starts_at_the_latest_record_reads_what_comes_after_its_start",
    ),
    (
        "spec.kafka.startTimestamp",
        "a_sink_that_starts_at_a_time_reads_the_first_record_at_or_after_it",
    ),
    (
        "spec.kafka.topics[]",
        "one_sink_reads_several_topics_into_its_table",
    ),
    (
        "spec.paused",
        "a_paused_sink_drains_its_workers_and_goes_on_where_it_was",
    ),
    (
        "spec.replicas",
        "more_and_fewer_replicas_start_and_drain_workers_and_the_others_stay",
    ),
    (
        "spec.resolutions[].action",
        "a_topic_of_mostly_bad_records_is_held_before_any_is_rejected_and_goes_on_when_it_is_answered",
    ),
    (
        "spec.resolutions[].hold",
        "a_topic_of_mostly_bad_records_is_held_before_any_is_rejected_and_goes_on_when_it_is_answered",
    ),
    (
        "spec.resolutions[].partition",
        "an_answer_to_a_hold_reaches_the_facts_and_restarts_no_worker",
    ),
    (
        "spec.shutdown.finalFlushTimeoutSeconds",
        "a_worker_that_cannot_flush_is_not_ready_and_ends_with_3_after_its_final_flush_timeout",
    ),
    (
        "spec.table.columns[].comment",
        "local_makes_the_table_as_it_is_declared_and_a_second_run_changes_nothing",
    ),
    (
        "spec.table.columns[].default",
        "a_missing_field_takes_the_default_that_the_server_made_of_its_expression",
    ),
    (
        "spec.table.columns[].from",
        "a_column_takes_the_value_that_its_path_names_and_otherwise_the_field_of_its_own_name",
    ),
    (
        "spec.table.columns[].name",
        "a_column_takes_the_value_that_its_path_names_and_otherwise_the_field_of_its_own_name",
    ),
    (
        "spec.table.columns[].onError",
        "a_value_that_does_not_fit_is_rejected_replaced_or_clamped_as_its_column_says_and_counted",
    ),
    (
        "spec.table.columns[].onMissing",
        "a_missing_value_is_rejected_null_or_the_default_as_its_column_says",
    ),
    (
        "spec.table.columns[].type",
        "a_value_keeps_all_its_digits_in_the_type_that_its_column_declares",
    ),
    (
        "spec.table.columns[].unit",
        "a_number_into_a_time_is_read_in_the_unit_of_its_column_and_without_one_rejected",
    ),
    (
        "spec.table.ddl",
        "without_ddl_a_table_of_another_shape_is_written_as_it_is",
    ),
    (
        "spec.table.engine.mergeTree",
        "a_merge_tree_keeps_equal_keys_and_a_replacing_one_keeps_the_latest_version",
    ),
    (
        "spec.table.engine.replacingMergeTree.versionColumn",
        "a_merge_tree_keeps_equal_keys_and_a_replacing_one_keeps_the_latest_version",
    ),
    (
        "spec.table.metadataColumns.mode",
        "rows_say_where_they_come_from_unless_metadata_columns_are_off",
    ),
    (
        "spec.table.name",
        "a_file_that_becomes_invalid_is_told_and_what_ran_before_goes_on",
    ),
    (
        "spec.table.orderBy[]",
        "local_makes_the_table_as_it_is_declared_and_a_second_run_changes_nothing",
    ),
    (
        "spec.table.partitionBy",
        "local_makes_the_table_as_it_is_declared_and_a_second_run_changes_nothing",
    ),
    (
        "spec.table.recheckPeriodSeconds",
        "a_quiet_worker_looks_at_its_table_again_after_the_recheck_period",
    ),
    (
        "spec.table.settings{}",
        "local_makes_the_table_as_it_is_declared_and_a_second_run_changes_nothing",
    ),
    (
        "spec.table.ttl",
        "local_makes_the_table_as_it_is_declared_and_a_second_run_changes_nothing",
    ),
    (
        "spec.clickhouse.cluster.ddl",
        "a_replicated_database_passes_statements_on_itself",
    ),
    (
        "spec.clickhouse.cluster.name",
        "a_table_of_a_cluster_is_replicated_and_every_statement_says_so",
    ),
    (
        "spec.deletionPolicy",
        "delete_drops_exactly_what_the_sink_made",
    ),
    (
        "spec.delivery.quorum",
        "a_quorum_is_asked_for_only_where_the_sink_says_so",
    ),
    (
        "spec.derived[].backfill",
        "a_new_derived_table_is_filled_from_what_is_there_while_records_flow",
    ),
    (
        "spec.derived[].engine.mergeTree",
        "a_derived_table_has_the_key_the_settings_and_the_ttl_that_are_declared",
    ),
    (
        "spec.derived[].engine.replacingMergeTree.versionColumn",
        "the_current_state_of_each_alert_is_its_newest_version",
    ),
    ("spec.derived[].name", "every_line_of_an_order_is_a_row"),
    (
        "spec.derived[].orderBy[]",
        "a_derived_table_has_the_key_the_settings_and_the_ttl_that_are_declared",
    ),
    (
        "spec.derived[].partitionBy",
        "a_derived_table_has_the_key_the_settings_and_the_ttl_that_are_declared",
    ),
    (
        "spec.derived[].select",
        "a_changed_select_under_flow_of_two_workers_misses_and_doubles_no_row",
    ),
    (
        "spec.derived[].settings{}",
        "a_derived_table_has_the_key_the_settings_and_the_ttl_that_are_declared",
    ),
    (
        "spec.derived[].ttl",
        "a_derived_table_has_the_key_the_settings_and_the_ttl_that_are_declared",
    ),
    (
        "spec.flatView.columns[].expression",
        "elements_of_tuples_are_columns_and_expressions_are_computed",
    ),
    (
        "spec.flatView.columns[].name",
        "an_old_file_never_wins_and_a_person_promotes_it_once",
    ),
    (
        "spec.flatView.name",
        "a_table_of_that_name_survives_with_its_rows_and_data_flows",
    ),
    (
        "spec.flatView.read",
        "final_and_latest_by_give_the_newest_version_of_each_key_and_plain_gives_all",
    ),
    ("spec.flatView.source", "a_view_may_read_a_derived_table"),
    (
        "spec.table.columns[].codec",
        "comments_codecs_defaults_ttl_settings_and_indexes_follow_the_declaration",
    ),
    (
        "spec.table.indexes[].expression",
        "comments_codecs_defaults_ttl_settings_and_indexes_follow_the_declaration",
    ),
    (
        "spec.table.indexes[].granularity",
        "comments_codecs_defaults_ttl_settings_and_indexes_follow_the_declaration",
    ),
    (
        "spec.table.indexes[].name",
        "comments_codecs_defaults_ttl_settings_and_indexes_follow_the_declaration",
    ),
    (
        "spec.table.indexes[].type",
        "comments_codecs_defaults_ttl_settings_and_indexes_follow_the_declaration",
    ),
    (
        "spec.table.wideningPolicy",
        "a_column_is_widened_only_with_the_policy_and_takes_larger_values_then",
    ),
    (
        "spec.workers.memoryBudget",
        "a_worker_reads_no_further_than_its_memory_budget_and_the_rest_waits_in_kafka",
    ),
    (
        "spec.workers.threads",
        "a_worker_has_a_member_of_the_group_for_each_thread",
    ),
];

#[test]
fn every_field_of_the_resource_has_a_test_and_every_test_of_a_field_its_field() {
    let leaves: BTreeSet<String> = schema_leaves().into_iter().collect();
    let listed: BTreeSet<String> = TESTS.iter().map(|(leaf, _)| (*leaf).to_owned()).collect();
    let missing: Vec<&String> = leaves.difference(&listed).collect();
    let stale: Vec<&String> = listed.difference(&leaves).collect();
    assert!(
        missing.is_empty(),
        "expected a test for each field, found none for {missing:?}"
    );
    assert!(
        stale.is_empty(),
        "expected only fields of the schema, found {stale:?}"
    );
    assert_eq!(listed.len(), TESTS.len(), "a field is listed twice");
}

#[test]
fn every_test_that_is_named_for_a_field_exists() {
    let root = workspace_dir();
    let mut sources = String::new();
    for part in ["tests", "sink-worker", "crds", "operator"] {
        read_sources(&root.join(part), &mut sources);
    }
    // Tests of a module within a file are indented.
    let sources: Vec<&str> = sources.lines().map(str::trim_start).collect();
    let sources = sources.join("\n");
    let missing: Vec<&str> = TESTS
        .iter()
        .map(|(_, test)| *test)
        .filter(|test| !sources.contains(&format!("#[test]\nfn {test}(")))
        .collect();
    assert!(
        missing.is_empty(),
        "expected these tests, found none: {missing:?}"
    );
}

fn read_sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if path.is_dir() && name != "target" {
            read_sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}
