//! A server that answers each INSERT as scripted, and remembers what it was sent.
//!
//! Must not be here: what is expected of that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use tokio::sync::Notify;

/// What the server does with an INSERT that nothing was scripted for: take it.
pub(super) enum Answer {
    Take,
    Refuse(&'static str),
    /// Take it, once told.
    TakeWhen(Arc<Notify>),
}

/// An INSERT that reached the server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) rejected: bool,
    pub(super) token: Option<String>,
    pub(super) body: Bytes,
}

#[derive(Default)]
pub(super) struct Server {
    pub(super) seen: Mutex<Vec<Seen>>,
    pub(super) inserts: Mutex<VecDeque<Answer>>,
    pub(super) rejects: Mutex<VecDeque<Answer>>,
}

pub(super) async fn serve(
    State(server): State<Arc<Server>>,
    Query(query): Query<BTreeMap<String, String>>,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let rejected = query["query"].contains("rejected");
    let token = query.get("insert_deduplication_token").cloned();
    server.seen.lock().unwrap().push(Seen {
        rejected,
        token,
        body,
    });
    let script = if rejected {
        &server.rejects
    } else {
        &server.inserts
    };
    let answer = script.lock().unwrap().pop_front();
    match answer {
        None | Some(Answer::Take) => (StatusCode::OK, ""),
        Some(Answer::Refuse(text)) => (StatusCode::INTERNAL_SERVER_ERROR, text),
        Some(Answer::TakeWhen(told)) => {
            told.notified().await;
            (StatusCode::OK, "")
        }
    }
}
