//! Attestors of classic rules: sets of entries of which a number must vouch.
//!
//! Upstream counterpart: `AttestorSet` of `api/kyverno/v1/image_verification_types.go` and `ExpandStaticKeys` of
//! `pkg/engine/internal/utils.go` (1.19).

use std::sync::Arc;

use kyvtest_go_compat::value::Data;

const END: &str = "-----END PUBLIC KEY-----";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AttestorSet {
    /// How many entries must vouch.
    pub required: usize,
    /// The entries as written, each public key of a list of keys by itself.
    pub(crate) entries: Vec<Data>,
}

impl AttestorSet {
    /// Reads a set as a rule writes it. Several keys in one entry become several entries; all but the first then begin with a
    /// line break, as upstream splits them.
    pub(crate) fn read(set: &Data) -> Self {
        let mut entries = Vec::new();
        for entry in set.get("entries").and_then(Data::as_list).unwrap_or_default() {
            let keys = entry
                .at(&["keys", "publicKeys"])
                .and_then(Data::as_str)
                .unwrap_or_default();
            let split: Vec<&str> = keys.split_inclusive(END).filter(|part| part.ends_with(END)).collect();
            if split.len() < 2 {
                entries.push(entry.clone());
                continue;
            }
            entries.extend(split.into_iter().map(|key| with_key(entry, key)));
        }
        let count = match set.get("count") {
            Some(Data::Int(count)) => usize::try_from(*count).unwrap_or_default(),
            Some(Data::Double(count)) => *count as usize,
            _ => 0,
        };
        Self {
            required: if count == 0 { entries.len() } else { count },
            entries,
        }
    }
}

fn with_key(entry: &Data, key: &str) -> Data {
    let (Data::Map(parts), Some(Data::Map(keys))) = (entry, entry.get("keys")) else {
        return entry.clone();
    };
    let mut keys = (**keys).clone();
    keys.insert(Arc::from("publicKeys"), key.into());
    let mut parts = (**parts).clone();
    parts.insert(Arc::from("keys"), Data::Map(Arc::new(keys)));
    Data::Map(Arc::new(parts))
}

/// The form of an entry: what follows its number in paths.
pub(crate) fn form(entry: &Data) -> &'static str {
    let there = |key: &str| entry.get(key).is_some_and(|part| !part.is_null());
    if there("keys") {
        ".keys"
    } else if there("certificates") {
        ".certificates"
    } else if there("keyless") {
        ".keyless"
    } else {
        ""
    }
}
