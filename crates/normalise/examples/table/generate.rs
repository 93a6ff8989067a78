//! Builds the field table from our data files and from the recorded OpenAPI tables.
//!
//! Upstream counterpart: none. Inputs: `data/go-types.tsv` (fields of upstream's Go types in declaration order: pointer
//! or not, `omitempty`), `data/defaults.tsv` (constant defaults), `data/checks.tsv` (checks of single fields),
//! `golden/normalise/schema.tsv` and `golden/map/schema.tsv` (enumerations, list types),
//! `golden/apiserver/discovery.tsv` (scope and resource of each kind).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

/// Returns the table, or the problems of its inputs.
pub(crate) fn generate(data: &Path, shared: &Path) -> Result<String, String> {
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let types = read(&data.join("go-types.tsv"))?;
    let defaults = by_field(&read(&data.join("defaults.tsv"))?);
    let checks = by_field(&read(&data.join("checks.tsv"))?);
    let schema = Schema::read(&read(&shared.join("golden/normalise/schema.tsv"))?);
    let map_schema = read(&shared.join("golden/map/schema.tsv"))?;
    let discovery = read(&shared.join("golden/apiserver/discovery.tsv"))?;

    let mut out = String::new();
    kinds(&mut out, &map_schema, &discovery);
    let mut known = BTreeSet::new();
    let mut last = "";
    for line in types.lines() {
        let [type_name, field, go_type, omit] = columns(line);
        if type_name != last {
            let _ = writeln!(
                out,
                "T\t{type_name}\t{}",
                checks.get(&key(type_name, "")).map_or("", String::as_str)
            );
            last = type_name;
        }
        if field.is_empty() {
            continue;
        }
        let id = key(type_name, field);
        let flag = match omit {
            "omitempty" => "o",
            "omitzero" | "both" => "z",
            _ => "-",
        };
        let default = defaults.get(&id).map_or("", String::as_str);
        let check = checks.get(&id).map_or("", String::as_str);
        let facts = schema.fields.get(&id);
        let values = facts.map_or("", |facts| facts.values.as_str());
        let list = facts.map_or("", |facts| facts.list.as_str());
        let line = format!("{field}\t{go_type}\t{flag}\t{default}\t{check}\t{values}\t{list}");
        let _ = writeln!(out, "{}", line.trim_end_matches('\t'));
        known.insert(id);
    }
    complete(&known, defaults.keys().chain(checks.keys()), &map_schema)?;
    Ok(out)
}

/// Checks that every field of the inputs is in the table.
fn complete<'a>(
    known: &BTreeSet<String>,
    ours: impl Iterator<Item = &'a String>,
    map_schema: &str,
) -> Result<(), String> {
    for id in ours.filter(|id| !id.ends_with('\t')) {
        if !known.contains(id) {
            return Err(format!("`{id}` is not a field"));
        }
    }
    for line in map_schema.lines() {
        let [type_name, field] = columns(line);
        let (name, listed) = (short(type_name), field.starts_with('@') || field.is_empty());
        let ignored = name.ends_with("List") || name.starts_with("meta.v1") || name.contains("JSONSchemaPropsOr");
        if !listed && !ignored && !known.contains(&key(&name, field)) {
            return Err(format!("`{name}.{field}` is missing in go-types.tsv"));
        }
    }
    Ok(())
}

/// The lines of the kinds: group and version, kind, type, scope, resource, subresources.
fn kinds(out: &mut String, map_schema: &str, discovery: &str) {
    for line in map_schema.lines() {
        let [type_name, field, gvk] = columns(line);
        if field != "@gvk" || type_name.contains("apimachinery") || type_name.ends_with("List") {
            continue;
        }
        let mut parts = gvk.split('/');
        let (group, version, kind) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        let api_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        let served = discovery.lines().find_map(|line| {
            let [g, v, k, resource, scope, subresources] = columns(line);
            (g == group && v == version && k == kind).then(|| {
                let status = subresources.split(',').any(|sub| sub.starts_with("status:"));
                format!(
                    "{resource}\t{}\t{}",
                    if scope == "Namespaced" { "n" } else { "c" },
                    if status { "s" } else { "" }
                )
            })
        });
        let served = served.unwrap_or_else(|| "\tn\t".to_owned());
        let line = format!("K\t{api_version}\t{kind}\t{}\t{served}", short(type_name));
        let _ = writeln!(out, "{}", line.trim_end_matches('\t'));
    }
}

struct Facts {
    values: String,
    list: String,
}

struct Schema {
    fields: BTreeMap<String, Facts>,
}

impl Schema {
    fn read(text: &str) -> Self {
        let mut fields = BTreeMap::new();
        for line in text.lines().skip(1) {
            let [type_name, field, _, _, _, _, _, list, values] = columns(line);
            if !values.is_empty() || !list.is_empty() {
                let facts = Facts {
                    values: values.to_owned(),
                    list: list.to_owned(),
                };
                fields.insert(key(&short(type_name), field), facts);
            }
        }
        Self { fields }
    }
}

fn by_field(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let [type_name, field, value] = columns(line);
            (key(type_name, field), value.to_owned())
        })
        .collect()
}

fn key(type_name: &str, field: &str) -> String {
    format!("{type_name}\t{field}")
}

/// `io.k8s.api.core.v1.Pod` as `core.v1.Pod`.
fn short(type_name: &str) -> String {
    let mut parts: Vec<&str> = type_name.rsplitn(4, '.').take(3).collect();
    parts.reverse();
    parts.join(".")
}

fn columns<const N: usize>(line: &str) -> [&str; N] {
    let mut columns = [""; N];
    for (column, text) in columns.iter_mut().zip(line.split('\t')) {
        *column = text;
    }
    columns
}
