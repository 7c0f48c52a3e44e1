//! Which definition a flat view shows: a pure decision that every operator, sink and replayed manifest makes alike, so that the
//! view moves forward once and never flaps.
//!
//! Must not be here: clients, clocks, statements.

use crate::flat_view::lineage::{Entry, Lineage};

/// A definition that would come back so often within [`FIGHT_S`] is left alone.
const FIGHT_TIMES: usize = 2;
/// Seconds within which definitions that replace each other are fighting.
const FIGHT_S: u64 = 3_600;

/// What has the view's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Missing,
    /// A table, another kind of view, or a view that is not ours.
    Foreign,
    /// A view with a mark of ours that cannot be read.
    Unreadable,
    /// A view of ours.
    Ours(Lineage),
}

/// All that the decision rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewFacts {
    /// `database.name` of the view.
    pub of: String,
    /// What is there.
    pub found: Found,
    /// The last lineage of that name in the catalog.
    pub catalog: Option<Lineage>,
    /// The definition that would be put there, and whose it is; its `promoted` is a person's word, if there is one.
    pub mine: Entry,
}

/// What is to be done about the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is made.
    Create(Lineage),
    /// It gets the declared definition.
    Replace(Lineage),
    /// Its comment alone is written anew.
    Rewrite(Lineage),
    /// It stays as it is.
    Leave(Why),
}

/// Why a view stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It shows the declared definition.
    Current,
    /// Something else has its name.
    NameTaken,
    /// Its comment was edited.
    Unreadable,
    /// A newer generation of the same resource stands there.
    Newer(Entry),
    /// The declared definition was replaced before; this one stands.
    Replaced(Entry),
    /// Definitions replace each other; this one stands.
    Fighting(Entry),
    /// The lineage is full.
    Full,
}

/// The first rule that applies.
#[must_use]
pub fn decide_view(facts: &ViewFacts) -> Decision {
    let lineage = match &facts.found {
        Found::Missing => {
            let before = facts.catalog.clone();
            let before = before.unwrap_or_else(|| Lineage::new(&facts.of));
            return add(&before, &facts.mine, Decision::Create);
        }
        Found::Foreign => return Decision::Leave(Why::NameTaken),
        Found::Unreadable => return Decision::Leave(Why::Unreadable),
        Found::Ours(lineage) if lineage.of() != facts.of => {
            return Decision::Leave(Why::NameTaken);
        }
        Found::Ours(lineage) => lineage,
    };
    // A lineage that was read has an entry.
    let Some(last) = lineage.last() else {
        return Decision::Leave(Why::Unreadable);
    };
    decide_ours(lineage, last, &facts.mine)
}

fn decide_ours(lineage: &Lineage, last: &Entry, mine: &Entry) -> Decision {
    let is_promoted = is_promoted(lineage, mine);
    if last.fp == mine.fp {
        // A word that was said about what stands there already has acted too: it does not act later.
        return if last.owner == mine.owner && (last.uid != mine.uid || is_promoted) {
            Decision::Rewrite(lineage.with_last_of(mine))
        } else {
            Decision::Leave(Why::Current)
        };
    }
    if is_promoted {
        return replace(lineage, last, mine);
    }
    let is_newer = |entry: &&Entry| entry.uid == mine.uid && entry.generation > mine.generation;
    if let Some(newer) = lineage.entries().find(is_newer) {
        return Decision::Leave(Why::Newer(newer.clone()));
    }
    if moves_forward(lineage, last, mine) {
        replace(lineage, last, mine)
    } else {
        Decision::Leave(Why::Replaced(last.clone()))
    }
}

/// A person's word acts once.
fn is_promoted(lineage: &Lineage, mine: &Entry) -> bool {
    let acted = |entry: &Entry| entry.uid == mine.uid && entry.promoted == mine.promoted;
    mine.promoted.is_some() && !lineage.entries().any(acted)
}

/// The same resource may go back to what was there before; another one, or one without generations, may not.
fn moves_forward(lineage: &Lineage, last: &Entry, mine: &Entry) -> bool {
    let has_generations = mine.generation > 0;
    let is_own = last.owner == mine.owner && has_generations;
    let is_own_word = is_own && (last.uid != mine.uid || last.generation < mine.generation);
    is_own_word || !lineage.knows(&mine.fp)
}

fn replace(lineage: &Lineage, last: &Entry, mine: &Entry) -> Decision {
    let lately = |entry: &&Entry| entry.fp == mine.fp && entry.at + FIGHT_S > mine.at;
    if lineage.entries().filter(lately).count() >= FIGHT_TIMES {
        return Decision::Leave(Why::Fighting(last.clone()));
    }
    match add(lineage, mine, Decision::Replace) {
        Decision::Leave(Why::Full) if is_promoted(lineage, mine) => {
            let begun_anew = Lineage::new(lineage.of()).with(last.clone());
            begun_anew.map_or(Decision::Leave(Why::Full), |lineage| {
                add(&lineage, mine, Decision::Replace)
            })
        }
        decision => decision,
    }
}

fn add(lineage: &Lineage, mine: &Entry, decision: impl FnOnce(Lineage) -> Decision) -> Decision {
    lineage
        .with(mine.clone())
        .map_or(Decision::Leave(Why::Full), decision)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
