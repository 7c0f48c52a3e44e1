//! Checks a value against the schema as the API server would: types, bounds, enums, patterns, unknown fields.
//!
//! Must not be here: CEL, defaults.

use regex::Regex;
use serde_json::{Map, Value};

use crate::lint::names::SCHEMA;
use crate::nearest::nearest;
use crate::violation::Violation;

/// Everything in `value` that the schema does not allow. Paths begin with `path` (may be empty).
#[must_use]
pub fn check_schema(schema: &Value, value: &Value, path: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    check_value(schema, value, path, &mut violations);
    let of_rule = |violation: Violation| violation.of_rule(SCHEMA);
    violations.into_iter().map(of_rule).collect()
}

/// The path of a field; a name with dots or brackets is put in quotes.
pub(crate) fn field_path(path: &str, name: &str) -> String {
    let plain = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match (path.is_empty(), plain) {
        (true, true) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{name:?}]"),
    }
}

fn check_value(schema: &Value, value: &Value, path: &str, violations: &mut Vec<Violation>) {
    // A null is an absent field; one that is required is reported by its parent.
    if value.is_null() {
        return;
    }
    match (schema["type"].as_str(), value) {
        (Some("object"), Value::Object(fields)) => check_object(schema, fields, path, violations),
        (Some("array"), Value::Array(items)) => check_array(schema, items, path, violations),
        (Some("string"), Value::String(text)) => check_text(schema, text, path, violations),
        (Some("integer"), Value::Number(number)) if !number.is_f64() => {
            check_number(
                schema,
                number.as_i64().unwrap_or(i64::MAX),
                path,
                violations,
            );
        }
        (Some("boolean"), Value::Bool(_)) | (None, _) => {}
        (Some(expected), found) => {
            let remedy = if expected == "string" {
                "; put the value into quotes"
            } else {
                ""
            };
            let message = format!(
                "expected {}, found {}{remedy}",
                kind_name(expected),
                describe(found)
            );
            violations.push(Violation::new(path, &message));
        }
    }
}

fn check_object(
    schema: &Value,
    fields: &Map<String, Value>,
    path: &str,
    violations: &mut Vec<Violation>,
) {
    check_count(
        schema,
        ("minProperties", "maxProperties"),
        fields.len(),
        "entries",
        path,
        violations,
    );
    for required in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if fields.get(required).is_none_or(Value::is_null) {
            violations.push(Violation::new(path, &missing_field(schema, required)));
        }
    }
    for (name, inner) in fields {
        let inner_path = field_path(path, name);
        if let Some(known) = schema["properties"].get(name) {
            check_value(known, inner, &inner_path, violations);
        } else if schema["additionalProperties"].is_object() {
            check_value(
                &schema["additionalProperties"],
                inner,
                &inner_path,
                violations,
            );
        } else if !is_open(schema) {
            violations.push(Violation::new(&inner_path, &unknown_field(schema, name)));
        }
    }
}

/// Parts of the schema that say nothing about their fields, such as `metadata`.
fn is_open(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn missing_field(schema: &Value, name: &str) -> String {
    let description = schema["properties"][name]["description"]
        .as_str()
        .unwrap_or_default();
    let first = description
        .split(['.', ';', ','])
        .next()
        .unwrap_or_default();
    format!("expected the field `{name}`, found none; add it ({first})")
}

fn unknown_field(schema: &Value, name: &str) -> String {
    let known: Vec<&str> = schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str)
        .collect();
    match nearest(name, &known) {
        Some(meant) => format!("expected a known field, found `{name}`; did you mean `{meant}`?"),
        None if known.is_empty() => format!("expected no field here, found `{name}`; write {{}}"),
        None => format!(
            "expected a known field, found `{name}`; there are {}",
            list(&known)
        ),
    }
}

fn list(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn check_array(schema: &Value, items: &[Value], path: &str, violations: &mut Vec<Violation>) {
    check_count(
        schema,
        ("minItems", "maxItems"),
        items.len(),
        "entries",
        path,
        violations,
    );
    check_duplicates(schema, items, path, violations);
    for (index, item) in items.iter().enumerate() {
        let inner = format!("{path}[{index}]");
        if item.is_null() {
            violations.push(Violation::new(
                &inner,
                "expected a value, found nothing; remove the entry or write its value",
            ));
        }
        check_value(&schema["items"], item, &inner, violations);
    }
}

/// Lists that are sets, or maps by a key, hold each entry once.
fn check_duplicates(schema: &Value, items: &[Value], path: &str, violations: &mut Vec<Violation>) {
    let key = schema["x-kubernetes-list-map-keys"][0].as_str();
    let identity = |item: &Value| match (schema["x-kubernetes-list-type"].as_str(), key) {
        (Some("set"), _) => item.as_str().map(str::to_owned),
        (Some("map"), Some(key)) => item[key].as_str().map(str::to_owned),
        _ => None,
    };
    let mut seen = std::collections::BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let Some(name) = identity(item) else { continue };
        if !seen.insert(name.clone()) {
            let message =
                format!("expected each entry once, found `{name}` again; remove or rename one");
            violations.push(Violation::new(&format!("{path}[{index}]"), &message));
        }
    }
}

fn check_count(
    schema: &Value,
    (min, max): (&str, &str),
    count: usize,
    what: &str,
    path: &str,
    violations: &mut Vec<Violation>,
) {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    if let Some(min) = schema[min].as_i64().filter(|min| count < *min) {
        violations.push(Violation::new(
            path,
            &format!("expected at least {min} {what}, found {count}; add what is missing"),
        ));
    }
    if let Some(max) = schema[max].as_i64().filter(|max| count > *max) {
        violations.push(Violation::new(
            path,
            &format!("expected at most {max} {what}, found {count}; shorten it"),
        ));
    }
}

fn check_text(schema: &Value, text: &str, path: &str, violations: &mut Vec<Violation>) {
    check_count(
        schema,
        ("minLength", "maxLength"),
        text.chars().count(),
        "characters",
        path,
        violations,
    );
    let allowed: Vec<&str> = schema["enum"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if !allowed.is_empty() && !allowed.contains(&text) {
        let meant = nearest(text, &allowed)
            .map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
        let message = format!("expected one of {}, found `{text}`{meant}", list(&allowed));
        violations.push(Violation::new(path, &message));
    }
    // Patterns of ours always compile (tested); one that did not would not be enforced by the API server either.
    let pattern = schema["pattern"]
        .as_str()
        .and_then(|pattern| Some((pattern, Regex::new(pattern).ok()?)));
    if let Some((pattern, regex)) = pattern
        && !regex.is_match(text)
    {
        let shown: String = text.escape_debug().take(60).collect();
        let message = format!(
            "expected text like {pattern}, found `{shown}`; {}",
            pattern_remedy(schema)
        );
        violations.push(Violation::new(path, &message));
    }
}

/// The field's description says what its pattern means.
fn pattern_remedy(schema: &Value) -> String {
    schema["description"]
        .as_str()
        .map_or("change it".to_owned(), |text| {
            format!("it is: {}", text.trim_end_matches('.'))
        })
}

fn check_number(schema: &Value, number: i64, path: &str, violations: &mut Vec<Violation>) {
    // Bounds may be written as floats (`1.0`); they are small whole numbers.
    let bound = |name: &str| schema[name].as_f64();
    #[allow(
        clippy::cast_precision_loss,
        reason = "a bound is far below 2^53, where the comparison is exact"
    )]
    let found = number as f64;
    if let Some(min) = bound("minimum").filter(|min| found < *min) {
        violations.push(Violation::new(
            path,
            &format!("expected at least {min}, found {number}; raise it"),
        ));
    }
    if let Some(max) = bound("maximum").filter(|max| found > *max) {
        violations.push(Violation::new(
            path,
            &format!("expected at most {max}, found {number}; lower it"),
        ));
    }
}

fn kind_name(kind: &str) -> &str {
    match kind {
        "object" => "fields",
        "array" => "a list",
        "string" => "text",
        "integer" => "a whole number",
        "boolean" => "true or false",
        other => other,
    }
}

/// What a value is, without showing long ones.
fn describe(value: &Value) -> String {
    match value {
        Value::Object(_) => "fields".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(text) => format!("the text `{}`", text.chars().take(60).collect::<String>()),
        other => format!("`{other}`"),
    }
}
