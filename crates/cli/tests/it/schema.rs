//! The schema of JSON output, `docs/schema/unspool.schema.json`, applied to lines.
//!
//! A validator of the keywords that the schema uses; any other keyword fails. The usual crates bring fifty others with them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::sync::OnceLock;

use serde_json::Value;
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

/// The verb that the last line names, if it is a summary that the schema describes.
pub(crate) fn verb_of(lines: &[Value]) -> Option<&'static str> {
    let last = lines.last().filter(|line| line["kind"] == "summary")?;
    verbs().into_iter().find(|verb| last["verb"] == *verb)
}

/// Whether a line of this verb is valid.
pub(crate) fn is_valid(verb: &str, line: &Value) -> bool {
    matches(&schema()["$defs"][verb], line)
}

/// Asserts that a line of this verb is valid.
#[track_caller]
pub(crate) fn check(verb: &str, line: &Value) {
    assert!(is_valid(verb, line), "not as the schema describes a line of '{verb}': {line}");
}

fn matches(schema: &Value, value: &Value) -> bool {
    let keywords = schema.as_object().unwrap_or_else(|| panic!("not a schema: {schema}"));
    keywords.iter().all(|(keyword, argument)| match keyword.as_str() {
        "description" => true,
        "$ref" => matches(definition(argument.as_str().unwrap()), value),
        "anyOf" => argument.as_array().unwrap().iter().any(|schema| matches(schema, value)),
        "const" => argument == value,
        "enum" => argument.as_array().unwrap().contains(value),
        "type" => match argument {
            Value::Array(types) => types.iter().any(|name| is_of_type(name.as_str().unwrap(), value)),
            name => is_of_type(name.as_str().unwrap(), value),
        },
        "minimum" => value.as_f64().is_none_or(|number| number >= argument.as_f64().unwrap()),
        "pattern" => value.as_str().is_none_or(|text| has_pattern(argument.as_str().unwrap(), text)),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| matches(argument, item))),
        "required" => argument.as_array().unwrap().iter().all(|key| value.get(key.as_str().unwrap()).is_some()),
        "properties" => argument.as_object().unwrap().iter().all(|(key, schema)| {
            let value = value.get(key);
            value.is_none_or(|value| matches(schema, value))
        }),
        "additionalProperties" => value.as_object().is_none_or(|object| {
            let is_listed = |key: &String| schema.get("properties").is_some_and(|listed| listed.get(key).is_some());
            let mut others = object.iter().filter(|(key, _)| !is_listed(key));
            others.all(|(_, value)| *argument != Value::Bool(false) && matches(argument, value))
        }),
        other => panic!("the validator has no keyword '{other}'"),
    })
}

fn definition(reference: &str) -> &'static Value {
    let found = schema().pointer(reference.strip_prefix('#').unwrap());
    found.unwrap_or_else(|| panic!("no {reference}"))
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("the validator has no type '{other}'"),
    }
}

/// The regular expressions of the schema.
fn has_pattern(pattern: &str, text: &str) -> bool {
    let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let digits = text.strip_prefix("0x").map(str::as_bytes);
    let is_hex = digits.is_some_and(|digits| digits.iter().all(|digit| is_digit(*digit)));
    match pattern {
        "^0x[0-9a-f]+$" => is_hex && text.len() > 2,
        "^0x([0-9a-f]{2})*$" => is_hex && text.len().is_multiple_of(2),
        r"^([0-9a-f]{2}|\.\.)*$" => {
            text.len().is_multiple_of(2)
                && text.as_bytes().chunks(2).all(|pair| pair == b".." || pair.iter().all(|digit| is_digit(*digit)))
        }
        other => panic!("the validator has no pattern '{other}'"),
    }
}
