//! The decision over the full product of its inputs, against the rules as they are written, and each rule by name.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use super::*;

const OF: &str = "ops.flat";
const NOW: u64 = 1_000_000;
const ME: &str = "c/ns/me";
const MY_UID: &str = "u-me";

fn fp(number: u8) -> String {
    format!("{number:02x}").repeat(16)
}

fn entry(owner: &str, uid: &str, generation: i64, number: u8) -> Entry {
    Entry {
        owner: owner.to_owned(),
        uid: uid.to_owned(),
        generation,
        fp: fp(number),
        at: NOW - 2 * FIGHT_S,
        promoted: None,
    }
}

fn mine(generation: i64) -> Entry {
    Entry {
        at: NOW,
        ..entry(ME, MY_UID, generation, 1)
    }
}

fn lineage(entries: &[Entry]) -> Lineage {
    entries.iter().fold(Lineage::new(OF), |lineage, entry| {
        lineage.with(entry.clone()).unwrap()
    })
}

fn facts(found: Found, mine: Entry) -> ViewFacts {
    ViewFacts {
        of: OF.to_owned(),
        found,
        catalog: None,
        mine,
    }
}

fn decide(entries: &[Entry], mine: Entry) -> Decision {
    decide_view(&facts(Found::Ours(lineage(entries)), mine))
}

fn is_replaced(decision: &Decision) -> bool {
    matches!(decision, Decision::Replace(_))
}

/// One place in the product.
#[derive(Debug, Clone, Copy)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an axis of the product"
)]
struct Case {
    last_is_mine: bool,
    last_has_my_uid: bool,
    last_generation: i64,
    last_has_my_fp: bool,
    /// How often my definition was there before, and whether lately.
    before: (usize, bool),
    newer_of_mine: bool,
    generation: i64,
    /// A person's word: none, new, or one that has acted.
    word: u8,
}

fn all_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let flags = [false, true];
    for (last_is_mine, last_has_my_uid) in [(true, true), (true, false), (false, false)] {
        for last_generation in [1, 3, 5] {
            for last_has_my_fp in flags {
                for before in [(0, false), (1, false), (2, false), (1, true), (2, true)] {
                    for newer_of_mine in flags {
                        for generation in [0, 3] {
                            for word in 0..3 {
                                cases.push(Case {
                                    last_is_mine,
                                    last_has_my_uid,
                                    last_generation,
                                    last_has_my_fp,
                                    before,
                                    newer_of_mine,
                                    generation,
                                    word,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    cases
}

fn build(case: &Case) -> ViewFacts {
    let mut entries = Vec::new();
    let (times, is_lately) = case.before;
    for _ in 0..times {
        let at = if is_lately { NOW - 60 } else { NOW - FIGHT_S };
        entries.push(Entry {
            at,
            ..entry("c/ns/third", "u-third", 1, 1)
        });
        entries.push(entry("c/ns/fourth", "u-fourth", 1, 9));
    }
    if case.newer_of_mine {
        entries.push(entry(ME, MY_UID, 7, 8));
    }
    if case.word == 2 {
        entries.push(Entry {
            promoted: Some("word".to_owned()),
            ..entry(ME, MY_UID, case.generation, 7)
        });
    }
    let owner = if case.last_is_mine { ME } else { "c/ns/other" };
    let uid = match (case.last_is_mine, case.last_has_my_uid) {
        (true, true) => MY_UID,
        (true, false) => "u-before",
        (false, _) => "u-other",
    };
    let number = if case.last_has_my_fp { 1 } else { 2 };
    entries.push(entry(owner, uid, case.last_generation, number));
    let promoted = (case.word > 0).then(|| "word".to_owned());
    let mine = Entry {
        promoted,
        ..mine(case.generation)
    };
    facts(Found::Ours(lineage(&entries)), mine)
}

/// The rules, in the words of the contract.
fn expect(case: &Case) -> &'static str {
    let known = case.before.0 > 0 || case.last_has_my_fp;
    let third_time = case.before == (2, true);
    let word = case.word == 1;
    let has_generation = case.generation > 0;
    let newer = case.newer_of_mine && 7 > case.generation
        || case.last_has_my_uid && case.last_generation > case.generation;
    let replace = if third_time { "fighting" } else { "replace" };
    match case {
        // 4.
        _ if case.last_has_my_fp && case.last_is_mine && (!case.last_has_my_uid || word) => {
            "rewrite"
        }
        _ if case.last_has_my_fp => "current",
        // A person's way out.
        _ if word => replace,
        // 5.
        _ if newer => "newer",
        // 6. without generations there is no such rule.
        _ if has_generation && case.last_is_mine && !case.last_has_my_uid => replace,
        _ if has_generation && case.last_is_mine && case.last_generation < case.generation => {
            replace
        }
        // 6. and 7.
        _ if known => "replaced",
        _ => replace,
    }
}

fn name(decision: &Decision) -> &'static str {
    match decision {
        Decision::Create(_) => "create",
        Decision::Replace(_) => "replace",
        Decision::Rewrite(_) => "rewrite",
        Decision::Leave(Why::Current) => "current",
        Decision::Leave(Why::NameTaken) => "taken",
        Decision::Leave(Why::Unreadable) => "unreadable",
        Decision::Leave(Why::Newer(_)) => "newer",
        Decision::Leave(Why::Replaced(_)) => "replaced",
        Decision::Leave(Why::Fighting(_)) => "fighting",
        Decision::Leave(Why::Full) => "full",
    }
}

#[test]
fn the_rules_hold_over_the_full_product_of_their_inputs() {
    let cases = all_cases();
    let mut seen = BTreeSet::new();
    for case in &cases {
        let decision = decide_view(&build(case));
        assert_eq!(name(&decision), expect(case), "{case:?}");
        seen.insert(name(&decision));
    }
    assert_eq!(cases.len(), 3 * 3 * 2 * 5 * 2 * 2 * 3);
    assert_eq!(seen.len(), 6, "{seen:?}");
}

#[test]
fn what_was_done_is_not_wanted_again() {
    for case in all_cases() {
        let mut facts = build(&case);
        let (Decision::Replace(next) | Decision::Rewrite(next)) = decide_view(&facts) else {
            continue;
        };
        facts.found = Found::Ours(next);
        assert_eq!(
            decide_view(&facts),
            Decision::Leave(Why::Current),
            "{case:?}"
        );
    }
}

#[test]
fn rule_1_a_missing_view_is_made_with_what_the_catalog_remembers() {
    let made = decide_view(&facts(Found::Missing, mine(3)));
    let Decision::Create(lineage_of_it) = made else {
        panic!("{made:?}")
    };
    assert_eq!(lineage_of_it, lineage(&[mine(3)]));
    let before = lineage(&[entry("c/ns/other", "u-other", 1, 5)]);
    let remembered = ViewFacts {
        catalog: Some(before.clone()),
        ..facts(Found::Missing, mine(3))
    };
    let made = decide_view(&remembered);
    assert_eq!(made, Decision::Create(before.with(mine(3)).unwrap()));
}

#[test]
fn rules_2_and_3_what_is_not_ours_or_cannot_be_read_is_left() {
    let other = Lineage::new("ops.else").with(mine(3)).unwrap();
    for found in [Found::Foreign, Found::Ours(other)] {
        let decision = decide_view(&facts(found, mine(3)));
        assert_eq!(decision, Decision::Leave(Why::NameTaken));
    }
    let decision = decide_view(&facts(Found::Unreadable, mine(3)));
    assert_eq!(decision, Decision::Leave(Why::Unreadable));
}

#[test]
fn rule_6_the_owner_may_roll_back_and_two_versions_on_one_spec_settle() {
    let back = [entry(ME, MY_UID, 1, 1), entry(ME, MY_UID, 2, 2)];
    assert!(is_replaced(&decide(&back, mine(3))));
    // The newer operator renders generation 3 anew; the older one then knows its own as replaced.
    let one = [entry(ME, MY_UID, 3, 2)];
    let Decision::Replace(next) = decide(&one, mine(3)) else {
        panic!("unknown is newer")
    };
    let older = Entry {
        fp: fp(2),
        ..mine(3)
    };
    let decision = decide_view(&facts(Found::Ours(next), older));
    assert_eq!(name(&decision), "replaced");
}

#[test]
fn rule_7_an_old_manifest_of_another_owner_never_wins() {
    let entries = [
        entry("c/ns/other", "u-other", 0, 1),
        entry("c/ns/other", "u-other", 0, 2),
    ];
    assert_eq!(name(&decide(&entries, mine(3))), "replaced");
    assert_eq!(name(&decide(&entries, mine(0))), "replaced");
}

#[test]
fn rule_8_two_writers_who_overwrote_each_other_converge() {
    let before = lineage(&[entry("c/ns/third", "u-third", 1, 9)]);
    let other = Entry {
        at: NOW,
        ..entry("c/ns/other", "u-other", 3, 2)
    };
    let decide_for = |lineage: &Lineage, mine: &Entry| {
        decide_view(&facts(Found::Ours(lineage.clone()), mine.clone()))
    };
    // Both read the same lineage; the second one's write hides the first one's.
    assert!(is_replaced(&decide_for(&before, &mine(3))));
    let Decision::Replace(second) = decide_for(&before, &other) else {
        panic!("unknown is newer")
    };
    let Decision::Replace(third) = decide_for(&second, &mine(3)) else {
        panic!("mine is not in it")
    };
    assert_eq!(name(&decide_for(&third, &other)), "replaced");
    assert_eq!(name(&decide_for(&third, &mine(3))), "current");
}

#[test]
fn a_full_lineage_waits_for_a_persons_word() {
    let mut full = Lineage::new(OF);
    let mut number = 0_u32;
    loop {
        let next = Entry {
            fp: format!("{number:016x}{number:016x}"),
            ..entry(ME, "u-before", 1, 2)
        };
        match full.with(next) {
            Ok(lineage) => full = lineage,
            Err(_) => break,
        }
        number += 1;
    }
    let wants = |promoted: Option<&str>| {
        let mine = Entry {
            promoted: promoted.map(str::to_owned),
            ..mine(3)
        };
        decide_view(&facts(Found::Ours(full.clone()), mine))
    };
    assert_eq!(name(&wants(None)), "full");
    let Decision::Replace(begun) = wants(Some("3")) else {
        panic!("a person said so")
    };
    assert_eq!(begun.entries().count(), 2);
}
