//! The CRD, its schema, and CEL run in process.
//!
//! Must not be here: checks beyond the schema (`validate`), files (`codegen`).

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::CustomResourceExt;
use kube::core::cel::Validator;
use serde_json::Value;

use crate::api::ClickHouseSink;
use crate::lint::names::CEL_RULE;
use crate::violation::Violation;

pub use check::check_schema;
pub(crate) use check::field_path;

mod check;

/// The CRD as it is installed. An explicit null means the same as an absent field: fields are not nullable, so that
/// the API server drops nulls before it fills in defaults and runs rules.
///
/// # Panics
/// Never: only a flag is removed from a CRD that was valid.
#[must_use]
pub fn crd() -> CustomResourceDefinition {
    let value = serde_json::from_value(crd_value().clone());
    value.expect("only the flag `nullable` was removed from a CRD that was valid")
}

/// The CRD as JSON.
#[must_use]
pub fn crd_value() -> &'static Value {
    static CRD: LazyLock<Value> = LazyLock::new(|| {
        let mut crd = serde_json::to_value(ClickHouseSink::crd())
            .expect("a CRD is plain data and always becomes JSON");
        remove_nullable(&mut crd);
        crd
    });
    &CRD
}

/// The schema of the whole resource.
#[must_use]
pub fn resource_schema() -> &'static Value {
    &crd_value()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// Every leaf of the spec's schema, for example `spec.kafka.topics[]`, `spec.table.settings{}`, `spec.paused`.
#[must_use]
pub fn schema_leaves() -> Vec<String> {
    let mut leaves = Vec::new();
    collect_leaves(
        &resource_schema()["properties"]["spec"],
        "spec",
        &mut leaves,
    );
    leaves
}

fn collect_leaves(schema: &Value, path: &str, leaves: &mut Vec<String>) {
    if let Some(properties) = schema["properties"]
        .as_object()
        .filter(|properties| !properties.is_empty())
    {
        for (name, inner) in properties {
            collect_leaves(inner, &format!("{path}.{name}"), leaves);
        }
    } else if schema["items"].is_object() {
        collect_leaves(&schema["items"], &format!("{path}[]"), leaves);
    } else if schema["additionalProperties"].is_object() {
        collect_leaves(
            &schema["additionalProperties"],
            &format!("{path}{{}}"),
            leaves,
        );
    } else {
        leaves.push(path.to_owned());
    }
}

/// The CEL rules of the CRD that the resource breaks; with `old`, the rules about changes too.
#[must_use]
pub fn check_cel(resource: &Value, old: Option<&Value>) -> Vec<Violation> {
    let Err(errors) = Validator::new().validate(resource_schema(), resource, old) else {
        return Vec::new();
    };
    errors
        .into_vec()
        .into_iter()
        .map(|error| Violation::new(&error.field_path, &error.message).of_rule(CEL_RULE))
        .collect()
}

fn remove_nullable(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("nullable") == Some(&Value::Bool(true)) {
                fields.remove("nullable");
            }
            fields.values_mut().for_each(remove_nullable);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nullable),
        _ => {}
    }
}
