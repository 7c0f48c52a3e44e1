//! A Secret in a file.
//!
//! Must not be here: what the keys are used for.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde_json::Value;

use super::SecretManifest;
use crate::schema::check_schema;
use crate::violation::Violation;

pub(super) fn read_secret(value: &Value) -> Result<SecretManifest, Vec<Violation>> {
    let mut violations = check_schema(&secret_schema(), value, "");
    let mut data = BTreeMap::new();
    for (key, encoded) in value["data"].as_object().into_iter().flatten() {
        match serde_json::from_value::<ByteString>(encoded.clone()) {
            Ok(ByteString(bytes)) => drop(data.insert(key.clone(), bytes)),
            Err(_) => violations.push(Violation::new(
                &crate::schema::field_path("data", key),
                "expected base64, found other text; encode the value, or write it as it is under `stringData`",
            )),
        }
    }
    for (key, text) in value["stringData"].as_object().into_iter().flatten() {
        data.insert(
            key.clone(),
            text.as_str().unwrap_or_default().as_bytes().to_vec(),
        );
    }
    if !violations.is_empty() {
        return Err(violations);
    }
    let metadata = |field: &str| value["metadata"][field].as_str();
    Ok(SecretManifest {
        namespace: metadata("namespace").unwrap_or("default").to_owned(),
        name: metadata("name").unwrap_or_default().to_owned(),
        data,
    })
}

fn secret_schema() -> Value {
    let texts =
        serde_json::json!({ "type": "object", "additionalProperties": { "type": "string" } });
    serde_json::json!({
        "type": "object",
        "required": ["metadata"],
        "properties": {
            "apiVersion": {}, "kind": {}, "type": {}, "immutable": {},
            "metadata": {
                "type": "object",
                "required": ["name"],
                "x-kubernetes-preserve-unknown-fields": true,
                "description": "name and namespace of the Secret",
                "properties": {
                    "name": { "type": "string", "description": "name of the Secret" },
                    "namespace": { "type": "string" },
                },
            },
            "data": texts,
            "stringData": texts,
        },
    })
}
