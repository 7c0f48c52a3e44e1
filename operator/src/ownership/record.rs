//! The record of the owner in a table's comment, behind any text of the user's. Pure.
//!
//! Must not be here: what follows from it (`decide.rs`).

use serde::{Deserialize, Serialize};

/// How the record begins.
const BEGIN: &str = "{\"clickhouse-sink\":";

/// Which resource made a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// uid of the resource.
    pub uid: String,
    /// `namespace/name`.
    pub sink: String,
    /// The cluster it is in.
    pub cluster: String,
    /// Fingerprint of the definition.
    pub fingerprint: String,
    /// It was there before: never dropped with the resource.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
    /// The view to read instead of a table whose copies are merged late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_instead: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Comment {
    #[serde(rename = "clickhouse-sink")]
    owner: Owner,
}

/// What a comment says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// Nobody.
    Nobody,
    /// Somebody, but not readably.
    Unreadable,
    /// This resource.
    Owner(Owner),
}

/// The user's own text in a comment.
#[must_use]
pub fn text_of_user(comment: &str) -> &str {
    comment
        .find(BEGIN)
        .map_or(comment, |at| &comment[..at])
        .trim_end()
}

/// Reads a comment.
#[must_use]
pub fn read_owner(comment: &str) -> Recorded {
    let Some(at) = comment.find(BEGIN) else {
        return Recorded::Nobody;
    };
    match serde_json::from_str(comment[at..].trim()) {
        Ok(Comment { owner }) => Recorded::Owner(owner),
        Err(_) => Recorded::Unreadable,
    }
}

/// The comment with this record behind the user's text.
#[must_use]
pub fn render_comment(before: &str, owner: &Owner) -> String {
    let comment = Comment {
        owner: owner.clone(),
    };
    // Texts only: it can always be written.
    let record = serde_json::to_string(&comment).unwrap_or_default();
    match text_of_user(before) {
        "" => record,
        text => format!("{text}\n{record}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn owner(uid: &str) -> Owner {
        Owner {
            uid: uid.to_owned(),
            sink: "ns/events".to_owned(),
            cluster: "c".to_owned(),
            fingerprint: "ab".to_owned(),
            adopted: false,
            read_instead: None,
        }
    }

    #[test]
    fn the_users_text_stays_and_the_record_is_renewed() {
        let first = render_comment("Alerts of the night shift.", &owner("u1"));
        assert_eq!(read_owner(&first), Recorded::Owner(owner("u1")));
        let full = Owner {
            adopted: true,
            read_instead: Some("events_flat".to_owned()),
            ..owner("u2")
        };
        let second = render_comment(&first, &full);
        assert_eq!(text_of_user(&second), "Alerts of the night shift.");
        assert_eq!(read_owner(&second), Recorded::Owner(full));
        insta::assert_snapshot!(second);
        assert_eq!(
            read_owner(&render_comment("", &owner("u"))),
            Recorded::Owner(owner("u"))
        );
    }

    #[test]
    fn a_comment_without_a_record_is_nobodys_and_a_broken_one_somebodys() {
        for comment in ["", "plain", "{\"other\": 1}"] {
            assert_eq!(read_owner(comment), Recorded::Nobody);
        }
        let whole = render_comment("x", &owner("u"));
        for comment in [&whole[..whole.len() - 2], &format!("{whole} and more")] {
            assert_eq!(read_owner(comment), Recorded::Unreadable, "{comment}");
        }
    }

    proptest! {
        #[test]
        fn any_comment_is_read_without_a_panic_and_any_text_stays(text in any::<String>(), name in any::<String>()) {
            let _ = read_owner(&text);
            prop_assume!(!text.contains(BEGIN));
            let owner = Owner { sink: name, ..owner("u") };
            let comment = render_comment(&text, &owner);
            prop_assert_eq!(text_of_user(&comment), text.trim_end());
            prop_assert_eq!(read_owner(&comment), Recorded::Owner(owner));
        }
    }
}
