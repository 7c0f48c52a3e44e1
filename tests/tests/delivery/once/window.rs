//! A replay that comes later than the table remembers tokens.
//!
//! Must not be here: what a verification asks (the `window` tests).

use std::time::Duration;

use clickhouse_sink_crds::worker_config::GroupProtocol::Classic;
use clickhouse_sink_tests::proxy::{Fault, On};
use serde_json::json;

use super::{Once, wait_metric};
use crate::support::SOON;

/// Blocks of somebody else push the tokens out of a window of two.
fn forget_tokens(once: &Once) {
    let client = once.scene.client();
    client
        .query("ALTER TABLE vision_events MODIFY SETTING non_replicated_deduplication_window = 2")
        .unwrap();
    for offset in 0..6 {
        client
            .query(&format!(
                "INSERT INTO vision_events SELECT * REPLACE('other' AS _topic, {offset} AS _offset) FROM vision_events LIMIT 1"
            ))
            .unwrap();
    }
}

#[test]
fn a_range_whose_token_is_forgotten_is_sent_again_only_where_the_table_does_not_have_it() {
    let once = Once::new("forgotten", 2, Classic)
        .change(|sink| sink.set("delivery.insertTimeoutSeconds", 5));
    once.make_table();
    once.scene.produce_stats(0, 0, 3);
    once.scene.produce_stats(1, 0, 6);
    let mut worker = once.worker("killed");
    once.wait_plans(&[(3, &[]), (6, &[])]);
    once.scene.proxy.set_on(
        Fault::DelayReply(Duration::from_mins(5)),
        On::Containing("3-6".into()),
    );
    once.scene.produce_stats(0, 3, 6);
    once.scene.wait_rows(12);
    once.scene
        .proxy
        .set_on(Fault::Hang, On::Containing("6-9".into()));
    once.scene.produce_stats(1, 6, 9);
    once.wait_plans(&[(3, &[6]), (6, &[9])]);
    let before = once.scene.wait_inserts(5);
    worker.program.kill().unwrap();
    once.scene.proxy.pass();
    forget_tokens(&once);
    // Its use is counted in the log of parts, which the server writes out every few seconds.
    once.scene.client().flush_logs().unwrap();
    let mut next = once.worker("next");
    once.wait_plans(&[(6, &[]), (9, &[])]);
    wait_metric(&next, "ranges_verified_total", 2);
    assert_eq!(next.program.term_and_wait(SOON).unwrap(), 0);
    let select = "SELECT count() AS rows, uniqExact(_partition, _offset) AS offsets FROM vision_events WHERE _topic != 'other'";
    assert_eq!(
        once.scene.client().rows(select).unwrap(),
        [json!({ "rows": 15, "offsets": 15 })]
    );
    // What had landed was not sent again; what had not was sent under the token that was declared.
    let after = once.scene.proxy.inserts();
    let tokens = |from: usize| -> Vec<String> {
        let tokens = after
            .iter()
            .skip(from)
            .filter_map(|it| it.param("insert_deduplication_token"));
        tokens.map(str::to_owned).collect()
    };
    let (first, second) = (tokens(0), tokens(before.len()));
    assert!(
        second
            .iter()
            .all(|token| token.ends_with("1/6-9") && first[..before.len()].contains(token)),
        "{second:?}"
    );
    assert!(!second.is_empty());
}
