//! Whether a sink may have a table: a pure decision from the record that is there.
//!
//! Must not be here: clients, statements.

use crate::ownership::record::{Owner, Recorded};

/// All that the decision rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerFacts<'a> {
    /// Who is recorded.
    pub recorded: &'a Recorded,
    /// Who asks.
    pub mine: &'a Owner,
    /// The recorded resource is still there.
    pub other_is_there: bool,
    /// The uid that a person has named: its tables may be taken over.
    pub adopt: Option<&'a str>,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerDecision {
    /// It is ours as recorded.
    Keep,
    /// It is ours from now on, by this record.
    Record(Owner),
    /// It is somebody's, who cannot be told: it is used, and its record stays.
    LeaveUnreadable,
    /// It is another one's.
    Refuse(Owner),
}

/// The first rule that applies.
#[must_use]
pub fn decide_owner(facts: &OwnerFacts<'_>) -> OwnerDecision {
    let recorded = match facts.recorded {
        Recorded::Nobody => {
            return OwnerDecision::Record(Owner {
                adopted: true,
                ..facts.mine.clone()
            });
        }
        Recorded::Unreadable => return OwnerDecision::LeaveUnreadable,
        Recorded::Owner(recorded) => recorded,
    };
    if !may_have(recorded, facts) {
        return OwnerDecision::Refuse(recorded.clone());
    }
    let mine = Owner {
        adopted: recorded.adopted,
        ..facts.mine.clone()
    };
    if mine == *recorded {
        OwnerDecision::Keep
    } else {
        OwnerDecision::Record(mine)
    }
}

fn may_have(recorded: &Owner, facts: &OwnerFacts<'_>) -> bool {
    if recorded.uid == facts.mine.uid || facts.adopt == Some(recorded.uid.as_str()) {
        return true;
    }
    // A resource made again has its name; another name comes after one that is gone.
    let is_successor = recorded.sink == facts.mine.sink || !facts.other_is_there;
    recorded.cluster == facts.mine.cluster && is_successor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str, sink: &str, cluster: &str, adopted: bool) -> Owner {
        Owner {
            uid: uid.to_owned(),
            sink: sink.to_owned(),
            cluster: cluster.to_owned(),
            fingerprint: "f".to_owned(),
            adopted,
            read_instead: None,
        }
    }

    /// Over the full product: uid, name, cluster, adopted, whether the other one is there, what a person has said.
    #[test]
    fn every_record_is_kept_taken_over_or_refused_by_the_rules() {
        let mine = owner("u-me", "ns/me", "c-me", false);
        let mut refused = 0;
        for uid in ["u-me", "u-other"] {
            for sink in ["ns/me", "ns/other"] {
                for cluster in ["c-me", "c-other"] {
                    for adopted in [false, true] {
                        for other_is_there in [false, true] {
                            for adopt in [None, Some("u-other"), Some("u-third")] {
                                let there = owner(uid, sink, cluster, adopted);
                                let recorded = Recorded::Owner(there.clone());
                                let decision = decide_owner(&OwnerFacts {
                                    recorded: &recorded,
                                    mine: &mine,
                                    other_is_there,
                                    adopt,
                                });
                                let allowed = match (uid, cluster, sink) {
                                    ("u-me", ..) => true,
                                    _ if adopt == Some("u-other") => true,
                                    (_, "c-me", "ns/me") => true,
                                    (_, "c-me", _) => !other_is_there,
                                    _ => false,
                                };
                                let now_mine = owner("u-me", "ns/me", "c-me", adopted);
                                let expected = if !allowed {
                                    refused += 1;
                                    OwnerDecision::Refuse(there)
                                } else if there == now_mine {
                                    OwnerDecision::Keep
                                } else {
                                    OwnerDecision::Record(now_mine)
                                };
                                assert_eq!(decision, expected);
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(refused, 20);
    }

    #[test]
    fn what_nobody_owns_is_adopted_and_never_dropped() {
        let mine = owner("u-me", "ns/me", "c-me", false);
        let facts = |recorded| {
            decide_owner(&OwnerFacts {
                recorded,
                mine: &mine,
                other_is_there: true,
                adopt: None,
            })
        };
        let adopted = Owner {
            adopted: true,
            ..mine.clone()
        };
        assert_eq!(facts(&Recorded::Nobody), OwnerDecision::Record(adopted));
        assert_eq!(facts(&Recorded::Unreadable), OwnerDecision::LeaveUnreadable);
    }
}
