//! Custom resource definitions.
//!
//! Upstream counterpart: `pkg/apis/apiextensions/validation/validation.go` of apiextensions-apiserver.

use super::{Checker, Path, TypeCheck, admission, format};
use crate::node::Node;

pub(super) fn check(name: &str) -> Option<TypeCheck> {
    Some(match name {
        "apiextensions.v1.CustomResourceDefinition" => definition,
        _ => return None,
    })
}

fn definition(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let Some(spec) = node.get("spec") else { return };
    let name = node.at(&["metadata", "name"]).map_or("", Node::as_str);
    let plural = spec.at(&["names", "plural"]).map_or("", Node::as_str);
    if !name.is_empty() && name != format!("{plural}.{}", spec.str("group")) {
        checker.invalid(
            &path.field("metadata").field("name"),
            name,
            "must be spec.names.plural+\".\"+spec.group",
        );
    }
    let at = path.field("spec");
    group(checker, spec, &at);
    names(checker, spec, &at.field("names"));
    versions(checker, spec, &at);
    conversion(checker, spec, &at.field("conversion"));
    if spec.bool("preserveUnknownFields") {
        checker.invalid(
            &at.field("preserveUnknownFields"),
            "true",
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
    stored_versions(checker, node, &path.field("status").field("storedVersions"));
}

fn stored_versions(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let stored = node
        .get("status")
        .map_or(&[][..], |status| status.list("storedVersions"));
    let mut stored: Vec<&str> = stored.iter().map(Node::as_str).collect();
    if stored.is_empty() {
        return checker.invalid(path, "null", "must have at least one stored version");
    }
    let versions = node.get("spec").map_or(&[][..], |spec| spec.list("versions"));
    for version in versions {
        let name = version.str("name");
        // Upstream crosses names off, so a repeated version is missing the second time.
        match stored.iter().position(|own| *own == name) {
            Some(at) => {
                stored.remove(at);
            }
            None if version.bool("storage") => {
                checker.invalid(path, "", &format!("must have the storage version {name}"));
            }
            None => {}
        }
    }
}

fn group(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let group = spec.str("group");
    let at = path.field("group");
    if group.is_empty() {
        checker.required(&at, "");
    } else if !format::subdomain(group).is_empty() {
        checker.invalid(&at, group, "a lowercase RFC 1123 subdomain is required");
    } else if !group.contains('.') {
        checker.invalid(&at, group, "should be a domain with at least one dot");
    }
    match spec.str("scope") {
        "" => checker.required(&path.field("scope"), ""),
        "Cluster" | "Namespaced" => {}
        other => checker.unsupported(&path.field("scope"), other, &["Cluster", "Namespaced"]),
    }
}

fn names(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let Some(names) = spec.get("names") else { return };
    for field in ["plural", "singular", "kind", "listKind"] {
        let own = names.str(field);
        if own.is_empty() {
            checker.required(&path.field(field), "");
            continue;
        }
        let lower = if field.to_lowercase().ends_with("kind") {
            own.to_lowercase()
        } else {
            own.to_owned()
        };
        if !format::dns1035(&lower).is_empty() {
            checker.invalid(&path.field(field), own, "a DNS-1035 label is required");
        }
    }
    if !names.str("kind").is_empty() && names.str("kind") == names.str("listKind") {
        checker.invalid(
            &path.field("listKind"),
            names.str("listKind"),
            "kind and listKind may not be the same",
        );
    }
    for field in ["shortNames", "categories"] {
        for (index, own) in names.list(field).iter().enumerate() {
            if !format::dns1035(own.as_str()).is_empty() {
                checker.invalid(
                    &path.field(field).index(index),
                    own.as_str(),
                    "a DNS-1035 label is required",
                );
            }
        }
    }
}

fn versions(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let versions = spec.list("versions");
    let at = path.field("versions");
    for (index, version) in versions.iter().enumerate() {
        let at = at.index(index);
        let name = version.str("name");
        if !format::dns1035(name).is_empty() {
            checker.invalid(&at.field("name"), name, "a DNS-1035 label is required");
        }
        if version.has("deprecationWarning") {
            let warning = version.str("deprecationWarning");
            if !version.bool("deprecated") {
                checker.invalid(
                    &at.field("deprecationWarning"),
                    warning,
                    "can only be set for deprecated versions",
                );
            } else if warning.is_empty() || warning.len() > 256 {
                checker.invalid(
                    &at.field("deprecationWarning"),
                    warning,
                    "must be between 1 and 256 bytes",
                );
            }
        }
        if version.at(&["schema", "openAPIV3Schema"]).is_none() {
            checker.required(&at.field("schema").field("openAPIV3Schema"), "");
        }
    }
    // The internal type also has the name of the first version by itself.
    if let Some(first) = versions.first().map(|version| version.str("name"))
        && !first.is_empty()
        && !format::dns1035(first).is_empty()
    {
        checker.invalid(&path.field("version"), first, "a DNS-1035 label is required");
    }
    let name = |version: &Node<'_>| version.str("name").to_owned();
    if (1..versions.len()).any(|index| {
        versions[..index]
            .iter()
            .any(|other| name(other) == name(&versions[index]))
    }) {
        checker.invalid(&at, "", "must contain unique version names");
    }
    if versions.iter().filter(|version| version.bool("storage")).count() != 1 {
        checker.invalid(&at, "", "must have exactly one version marked as storage version");
    }
    parts(checker, versions, path, &at);
}

/// Checks schemas, subresources and columns: at the top if all versions have the same, else at each version.
fn parts(checker: &mut Checker<'_>, versions: &[Node<'_>], top: &Path<'_>, list: &Path<'_>) {
    let same = |field: &str| {
        versions
            .windows(2)
            .all(|pair| match (pair[0].get(field), pair[1].get(field)) {
                (Some(a), Some(b)) => a.same(b),
                (None, None) => true,
                _ => false,
            })
    };
    for (field, promoted) in [
        ("schema", "validation"),
        ("subresources", "subresources"),
        ("additionalPrinterColumns", "additionalPrinterColumns"),
        ("selectableFields", "selectableFields"),
    ] {
        if same(field) {
            if let Some(first) = versions.first() {
                part(checker, first, field, &top.field(promoted));
            }
        } else {
            for (index, version) in versions.iter().enumerate() {
                part(checker, version, field, &list.index(index).field(field));
            }
        }
    }
}

fn part(checker: &mut Checker<'_>, version: &Node<'_>, field: &str, path: &Path<'_>) {
    let Some(own) = version.get(field) else { return };
    match field {
        "schema" => {
            if let Some(schema) = own.get("openAPIV3Schema") {
                super::schema::root(checker, schema, &path.field("openAPIV3Schema"));
            }
        }
        "subresources" => subresources(checker, own, path),
        "additionalPrinterColumns" => columns(checker, own.items(), path),
        _ => {
            for (index, field) in own.items().iter().enumerate() {
                if field.str("jsonPath").is_empty() {
                    checker.required(&path.index(index).field("jsonPath"), "");
                }
            }
        }
    }
}

fn subresources(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let Some(scale) = node.get("scale") else { return };
    for (field, at, prefix) in [
        ("specReplicasPath", "scale.specReplicasPath", ".spec."),
        ("statusReplicasPath", "scale.statusReplicasPath", ".status."),
    ] {
        match scale.str(field) {
            "" => checker.required(&path.field(at), ""),
            own if !own.starts_with(prefix) => {
                checker.invalid(
                    &path.field(at),
                    own,
                    &format!("should be a json path under {}", prefix.trim_end_matches('.')),
                );
            }
            _ => {}
        }
    }
    let own = scale.str("labelSelectorPath");
    if !own.is_empty() && !own.starts_with(".spec.") && !own.starts_with(".status.") {
        checker.invalid(
            &path.field("scale.labelSelectorPath"),
            own,
            "should be a json path under either .spec or .status",
        );
    }
}

fn columns(checker: &mut Checker<'_>, columns: &[Node<'_>], path: &Path<'_>) {
    const TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
    const FORMATS: &[&str] = &[
        "int32",
        "int64",
        "float",
        "double",
        "byte",
        "date",
        "date-time",
        "password",
    ];
    for (index, column) in columns.iter().enumerate() {
        let path = path.index(index);
        if column.str("name").is_empty() {
            checker.required(&path.field("name"), "");
        }
        let detail = "must be one of boolean,date,integer,number,string";
        match column.str("type") {
            "" => checker.required(&path.field("type"), detail),
            own if !TYPES.contains(&own) => checker.invalid(&path.field("type"), own, detail),
            _ => {}
        }
        let own = column.str("format");
        if !own.is_empty() && !FORMATS.contains(&own) {
            checker.invalid(&path.field("format"), own, "unknown format");
        }
        match column.str("jsonPath") {
            "" => checker.required(&path.field("JSONPath"), ""),
            own if !own.starts_with('.') || own.contains("..") => {
                checker.invalid(
                    &path.field("JSONPath"),
                    own,
                    "must be a simple json path starting with .",
                );
            }
            _ => {}
        }
    }
}

fn conversion(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let Some(conversion) = spec.get("conversion") else {
        return;
    };
    let webhook = conversion.get("webhook");
    let config = webhook.and_then(|webhook| webhook.get("clientConfig"));
    let versions = webhook.map_or(&[][..], |webhook| webhook.list("conversionReviewVersions"));
    let strategy = conversion.str("strategy");
    match strategy {
        "" => checker.required(&path.field("strategy"), ""),
        "None" | "Webhook" => {}
        other => checker.unsupported(&path.field("strategy"), other, &["None", "Webhook"]),
    }
    if strategy == "Webhook" {
        let at = path.field("webhookClientConfig");
        match config {
            None => checker.required(&at, "required when strategy is set to Webhook"),
            Some(config) => admission::client_config(checker, config, &at),
        }
        admission::review_versions(checker, versions, "", &path.field("conversionReviewVersions"));
    } else {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            checker.forbidden(&path.field("webhookClientConfig"), detail);
        }
        if !versions.is_empty() {
            checker.forbidden(&path.field("conversionReviewVersions"), detail);
        }
    }
}
