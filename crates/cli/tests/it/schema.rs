//! The schema of JSON output, `docs/schema/unspool.schema.json`, applied to lines.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Value, json};
use unspool_testing::repository;

/// The schema.
pub(crate) fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let text = fs::read_to_string(repository("docs/schema/unspool.schema.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    })
}

/// The verbs that the schema describes.
pub(crate) fn verbs() -> Vec<&'static str> {
    let names = schema()["anyOf"].as_array().unwrap().iter().map(|verb| verb["$ref"].as_str().unwrap());
    names.map(|name| name.strip_prefix("#/$defs/").unwrap()).collect()
}

/// Validators of the lines of each verb.
fn validators() -> &'static BTreeMap<&'static str, Validator> {
    static VALIDATORS: OnceLock<BTreeMap<&'static str, Validator>> = OnceLock::new();
    VALIDATORS.get_or_init(|| {
        let of = |verb: &str| {
            let mut schema = schema().clone();
            schema["anyOf"] = json!([{"$ref": format!("#/$defs/{verb}")}]);
            jsonschema::validator_for(&schema).unwrap()
        };
        verbs().into_iter().map(|verb| (verb, of(verb))).collect()
    })
}

/// The verb that the last line names, if it is a summary that the schema describes.
pub(crate) fn verb_of(lines: &[Value]) -> Option<String> {
    let last = lines.last().filter(|line| line["kind"] == "summary")?;
    let verb = last["verb"].as_str().filter(|verb| validators().contains_key(verb))?;
    Some(verb.to_string())
}

/// Whether a line of this verb is valid.
pub(crate) fn is_valid(verb: &str, line: &Value) -> bool {
    validators()[verb].is_valid(line)
}

/// Asserts that a line of this verb is valid.
#[track_caller]
pub(crate) fn check(verb: &str, line: &Value) {
    assert!(is_valid(verb, line), "not as the schema describes a line of '{verb}': {line}");
}
