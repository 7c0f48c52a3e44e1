//! Statements about flat views.
//!
//! Must not be here: when they run.

use crate::flat_view::definition::{Read, ViewDefinition};
use crate::flat_view::lineage::{Lineage, Mark, read_mark};
use crate::sql::{render_identifier, render_literal, render_table_name};

/// What stands between a view's SELECT and its comment.
const COMMENT: &str = "\nCOMMENT ";

/// `CREATE VIEW`; never over anything that is there.
#[must_use]
pub fn render_create(view: &ViewDefinition, lineage: &Lineage) -> String {
    format!("CREATE VIEW {}", render_body(view, lineage))
}

/// `CREATE OR REPLACE VIEW`: readers see the old one or the new one. It would replace a table too, so it is for views that
/// were just seen to be ours.
#[must_use]
pub fn render_replace(view: &ViewDefinition, lineage: &Lineage) -> String {
    format!("CREATE OR REPLACE VIEW {}", render_body(view, lineage))
}

/// The comment alone.
#[must_use]
pub fn render_rewrite(view: &ViewDefinition, lineage: &Lineage) -> String {
    format!(
        "ALTER TABLE {} MODIFY COMMENT {}",
        render_table_name(&view.database, &view.name),
        render_literal(&lineage.render())
    )
}

fn render_body(view: &ViewDefinition, lineage: &Lineage) -> String {
    format!(
        "{} SQL SECURITY INVOKER\nAS {}{COMMENT}{}",
        render_table_name(&view.database, &view.name),
        render_select(view),
        render_literal(&lineage.render())
    )
}

fn render_select(view: &ViewDefinition) -> String {
    let columns = view.columns.iter();
    let columns: Vec<_> = columns
        .map(|(name, expression)| {
            let name = render_identifier(name);
            if *expression == name {
                name
            } else {
                format!("{expression} AS {name}")
            }
        })
        .collect();
    let source = render_table_name(&view.database, &view.source);
    let from = match &view.read {
        Read::Plain => source,
        Read::Final => format!("{source} FINAL"),
        Read::LatestBy {
            key,
            version,
            others,
        } => render_latest(&source, key, version, others),
    };
    format!("SELECT {} FROM {from}", columns.join(", "))
}

/// The newest row of each key, whole: one `argMax` over all columns, so that no row is put together of two.
fn render_latest(source: &str, key: &[String], version: &str, others: &[String]) -> String {
    let quoted = |names: &[String]| -> Vec<String> {
        names.iter().map(|name| render_identifier(name)).collect()
    };
    let (key, others) = (quoted(key), quoted(others));
    let of_source: Vec<_> = others.iter().map(|name| format!("s.{name}")).collect();
    let elements = others.iter().enumerate();
    let elements =
        elements.map(|(index, name)| format!("tupleElement(l, {}) AS {name}", index + 1));
    let columns: Vec<_> = key.iter().cloned().chain(elements).collect();
    let keys: Vec<_> = key
        .iter()
        .map(|name| format!("s.{name} AS {name}"))
        .collect();
    let by: Vec<_> = key.iter().map(|name| format!("s.{name}")).collect();
    format!(
        "(SELECT {} FROM (SELECT {}, argMax(tuple({}), s.{}) AS l FROM {source} AS s GROUP BY {}))",
        columns.join(", "),
        keys.join(", "),
        of_source.join(", "),
        render_identifier(version),
        by.join(", ")
    )
}

/// The lineage in a `CREATE VIEW` that was written down once.
#[must_use]
pub fn read_lineage(definition: &str) -> Option<Lineage> {
    let (_, literal) = definition.rsplit_once(COMMENT)?;
    match read_mark(&unquote(literal)?) {
        Mark::Lineage(lineage) => Some(lineage),
        Mark::None | Mark::Unreadable => None,
    }
}

/// The text of a literal as `render_literal` writes it.
fn unquote(literal: &str) -> Option<String> {
    let inner = literal.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => match chars.next()? {
                '0' => '\0',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            },
            other => other,
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;
    use crate::flat_view::lineage::Entry;

    fn view(read: Read) -> ViewDefinition {
        let column = |name: &str, expression: &str| (name.to_owned(), expression.to_owned());
        ViewDefinition {
            database: "o`ps".to_owned(),
            name: "flat".to_owned(),
            source: "events".to_owned(),
            read,
            columns: vec![
                column("id", "`id`"),
                column("day", "toDate(ts)"),
                column("it's", "tupleElement(`box`, 'x')"),
            ],
        }
    }

    fn lineage(owner: &str) -> Lineage {
        let entry = Entry {
            owner: owner.to_owned(),
            uid: "u".to_owned(),
            generation: 1,
            fp: "ab".repeat(16),
            at: 7,
            promoted: None,
        };
        Lineage::new("o`ps.flat").with(entry).unwrap()
    }

    #[test]
    fn a_view_names_its_columns_and_reads_as_declared() {
        let latest = Read::LatestBy {
            key: vec!["id".to_owned()],
            version: "version".to_owned(),
            others: vec!["version".to_owned(), "ts".to_owned()],
        };
        let views = [Read::Plain, Read::Final, latest].map(view);
        let lineage = lineage("c/ns/it's");
        let statements = [
            render_create(&views[0], &lineage),
            render_replace(&views[1], &lineage),
            render_create(&views[2], &lineage),
            render_rewrite(&views[0], &lineage),
        ];
        insta::assert_snapshot!(statements.join("\n\n"));
    }

    proptest! {
        #[test]
        fn a_lineage_reads_back_from_a_definition_whatever_names_are_in_it(owner in any::<String>()) {
            let lineage = lineage(&owner);
            let written = render_create(&view(Read::Final), &lineage);
            prop_assert_eq!(read_lineage(&written), Some(lineage));
        }

        #[test]
        fn any_definition_is_looked_at_without_a_panic(text in any::<String>()) {
            let _ = read_lineage(&text);
            let _ = read_lineage(&format!("x\nCOMMENT '{text}'"));
        }
    }
}
