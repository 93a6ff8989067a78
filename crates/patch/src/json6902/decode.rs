//! The texts of patches.
//!
//! Upstream counterpart: `DecodePatch` of both versions, V5's `validatePatch`, and Kyverno's conversion from YAML
//! (`sigs.k8s.io/yaml` `YAMLToJSON`).

use kyvtest_go_compat::{
    value::go_json,
    yaml::{self, Kind, Node},
};

use super::{
    Error, Fields, OperationValue, Patch, Version,
    raw::{self, Raw},
};

/// Reads a patch. V5 checks the fields of all operations, V4 leaves that to their execution.
pub(super) fn read(text: &str, version: Version) -> Result<Patch, Error> {
    let failed = |message: String| match version {
        Version::V4 => Error::Decode(message),
        Version::V5 => Error::Decode(format!("failed to decode patches: {message}")),
    };
    if let Err(error) = go_json::check_syntax(text) {
        return Err(failed(match version {
            Version::V4 => error,
            Version::V5 => "invalid state detected".to_owned(),
        }));
    }
    let patch = Raw::new(text);
    let operations = match patch.first() {
        b'[' => patch.elements(),
        b'n' => Vec::new(),
        first => return Err(failed(mismatch(first, "jsonpatch.Patch"))),
    };
    let wrong = operations.iter().flatten().find(|operation| operation.first() != b'{');
    if let Some(wrong) = wrong {
        return Err(failed(mismatch(wrong.first(), "jsonpatch.Operation")));
    }
    let operations: Vec<_> = operations.iter().map(|operation| fields(operation.as_ref())).collect();
    if version == Version::V5 {
        for (fields, members) in &operations {
            validate(fields).map_err(|message| {
                let members = marshal(members.as_deref());
                failed(format!("invalid operation {members}: {message}"))
            })?;
        }
    }
    Ok(Patch {
        operations: operations.into_iter().map(|(fields, _)| fields).collect(),
    })
}

type Members = Vec<(String, Option<Raw>)>;

fn fields(operation: Option<&Raw>) -> (Fields, Option<Members>) {
    let Some(operation) = operation else {
        return (Fields::default(), None);
    };
    let members = operation.members();
    let mut fields = Fields::default();
    for (key, value) in &members {
        match key.as_str() {
            "op" => fields.op.clone_from(value),
            "path" => fields.path.clone_from(value),
            "from" => fields.from.clone_from(value),
            "value" => fields.value = value.clone().map_or(OperationValue::Nil, OperationValue::Text),
            _ => {}
        }
    }
    (fields, Some(members))
}

fn mismatch(first: u8, target: &str) -> String {
    let kind = match first {
        b'{' => "object",
        b'[' => "array",
        b'"' => "string",
        b't' | b'f' => "bool",
        _ => "number",
    };
    format!("json: cannot unmarshal {kind} into Go value of type {target}")
}

fn validate(fields: &Fields) -> Result<(), String> {
    match fields.kind().as_str() {
        "add" | "replace" => {
            if matches!(fields.value, OperationValue::Missing) {
                return Err("failed to decode 'value': operation, missing value field: missing value".to_owned());
            }
        }
        "move" | "copy" => {
            fields
                .from()
                .map_err(|error| format!("failed to decode 'from': {error}"))?;
        }
        "remove" | "test" => {}
        _ => return Err("unsupported operation".to_owned()),
    }
    fields
        .path()
        .map_err(|error| format!("failed to decode 'path': {error}"))?;
    Ok(())
}

impl Fields {
    /// The operation, or `unknown`.
    pub(super) fn kind(&self) -> String {
        let op = self.op.as_ref().map(text);
        op.and_then(Result::ok).unwrap_or_else(|| "unknown".to_owned())
    }

    pub(super) fn path(&self) -> Result<String, String> {
        let missing = || Err("operation missing path field: missing value".to_owned());
        self.path.as_ref().map_or_else(missing, text)
    }

    pub(super) fn from(&self) -> Result<String, String> {
        let missing = || Err("operation, missing from field: missing value".to_owned());
        self.from.as_ref().map_or_else(missing, text)
    }
}

fn text(raw: &Raw) -> Result<String, String> {
    if raw.first() != b'"' {
        return Err(mismatch(raw.first(), "string"));
    }
    if raw.as_str().contains('\\') {
        // Operations that were not read from JSON may have texts that cannot be read.
        go_json::read(raw.as_str())?;
    }
    Ok(raw::string(raw.as_str()).into_owned())
}

/// The operation as Go marshals its map.
fn marshal(members: Option<&[(String, Option<Raw>)]>) -> String {
    let Some(members) = members else {
        return "null".to_owned();
    };
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by(|left, right| left.0.cmp(&right.0));
    let mut out = String::from("{");
    for (i, (key, value)) in sorted.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        go_json::write_escaped(&mut out, key, true, false);
        out.push(':');
        raw::compact(&mut out, value.as_ref().map_or("null", Raw::as_str), true);
    }
    out.push('}');
    out
}

/// The JSON text of the first YAML document.
pub(super) fn yaml_to_json(text: &str) -> Result<String, Error> {
    let failed = |message: &str| Error::Decode(format!("failed to convert patchesJSON6902 to JSON: {message}"));
    let tree =
        yaml::read_first(text, yaml::Mode::Lax, &yaml::Limits::default()).map_err(|error| failed(&error.go_text()))?;
    let mut out = String::new();
    write(&mut out, tree.root()).map_err(|error| failed(&error))?;
    Ok(out)
}

fn write(out: &mut String, node: Node<'_>) -> Result<(), String> {
    match node.kind() {
        Kind::Null => out.push_str("null"),
        Kind::Bool(value) => out.push_str(if value { "true" } else { "false" }),
        Kind::Int(value) => go_json::write_display(out, value),
        Kind::Uint(value) => go_json::write_display(out, value),
        Kind::Float(value) => go_json::write_double(out, value)?,
        Kind::Str(text) => go_json::write_string(out, text),
        Kind::Seq(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(out, item)?;
            }
            out.push(']');
        }
        Kind::Map(entries) => {
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_by_key(|entry| entry.key);
            out.push('{');
            for (i, entry) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                go_json::write_string(out, entry.key);
                out.push(':');
                write(out, entry.value)?;
            }
            out.push('}');
        }
    }
    Ok(())
}
