//! The committed schema tables against the reference data that they are generated from.
//!
//! `KYVTEST_WRITE_TABLES=1` writes them anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
};

use kyvtest_gates::{read, root, shared};

/// Compares a generated table with the committed one, or writes it.
fn compare(path: &str, committed: &str, generated: &str) {
    let path = root().join("crates/patch/src").join(path);
    if std::env::var_os("KYVTEST_WRITE_TABLES").is_some_and(|v| v == "1") {
        fs::write(&path, generated).expect("a table can be written");
        return;
    }
    assert!(
        committed == generated,
        "{} is out of date: write it with KYVTEST_WRITE_TABLES=1",
        path.display()
    );
}

/// The last three parts of a type's name, which identify the type.
fn short(name: &str) -> &str {
    let at = name.rmatch_indices('.').nth(2).map_or(0, |(at, _)| at + 1);
    &name[at..]
}

#[test]
fn strategic_schema_is_current() {
    let Some(path) = shared("golden/mutate/merge-keys.tsv") else {
        return;
    };
    let text = read(&path);
    let mut types: BTreeMap<&str, (Vec<String>, Vec<String>)> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for line in text.lines() {
        let [name, field, form, of, strategy, keys] = *line.split('\t').collect::<Vec<_>>() else {
            panic!("six columns: {line}");
        };
        names.insert(name);
        let (resources, _) = types.entry(short(name)).or_default();
        if field == "@gvk" {
            resources.push(format!("= {form} {of}"));
            continue;
        }
        if !of.is_empty() {
            names.insert(of);
            types.entry(short(of)).or_default();
        }
        let of = short(of);
        let mut line = match form {
            "ref" => format!(" {field} {of}"),
            "list" => format!(" {field} [{of}]"),
            "map" => format!(" {field} {{{of}}}"),
            "map-of-list" => format!(" {field} {{[]}}"),
            _ => panic!("unknown form {form}"),
        };
        if form == "list" && strategy.split(',').any(|strategy| strategy == "merge") {
            let keys = if keys.is_empty() { "-" } else { keys };
            write!(line, " {keys}").expect("a string takes everything");
        }
        types.get_mut(short(name)).expect("the type of the row").1.push(line);
    }
    assert_eq!(names.len(), types.len(), "short names tell types apart");
    let mut out = String::new();
    for (name, (resources, fields)) in types {
        for line in std::iter::once(name.to_owned()).chain(resources).chain(fields) {
            out.push_str(&line);
            out.push('\n');
        }
    }
    compare("strategic/schema.txt", kyvtest_patch::strategic::schema::TEXT, &out);
}

/// The word of the table for a scalar, or the short name of a type.
fn structured_type<'a>(form: &'a str, of: &'a str) -> &'a str {
    match (form, of) {
        ("string", "" | "byte") | ("of", "string" | "byte") => "string",
        ("string" | "scalar", _) => "scalar",
        ("integer" | "number", _) | ("of", "int32" | "int64" | "double") => "number",
        ("boolean", _) | ("of", "boolean") => "boolean",
        // The published type has alternatives instead of a type.
        ("int-or-string" | "any", _) => "any",
        ("object", _) => "object",
        (_, of) => short(of),
    }
}

fn structured_form(name: &str, field: &str, form: &str, of: &str, keys: &BTreeMap<(&str, &str), String>) -> String {
    let element = structured_type("of", of);
    match form {
        "list-atomic" => format!("[{element}]"),
        "list-set" => format!("[{element}] set"),
        "list-map" => format!("[{element}] {}", keys[&(name, field)]),
        // The table of reference names the innermost type of these maps of lists.
        "map" if field == "extra" => format!("{{[{element}]}}"),
        "map" => format!("{{{element}}}"),
        "map-atomic" => format!("{{{element}}} atomic"),
        form => structured_type(form, of).to_owned(),
    }
}

/// The keys of lists with their defaults, by type and field, and the types that are atomic as a whole.
fn structured_keys(merge_keys: &str) -> (BTreeMap<(&str, &str), String>, BTreeSet<&str>) {
    let mut keys = BTreeMap::new();
    let mut atomic = BTreeSet::new();
    for line in merge_keys.lines() {
        let [name, field, form, names, defaults, _] = *line.split('\t').collect::<Vec<_>>() else {
            panic!("six columns: {line}");
        };
        match form {
            "struct-atomic" => {
                atomic.insert(name);
            }
            "list-map" => {
                let with_default = |key: &str| {
                    let default = defaults
                        .split(',')
                        .find(|default| default.starts_with(&format!("{key}=")));
                    default.unwrap_or(key).to_owned()
                };
                let names: Vec<String> = names.split(',').map(with_default).collect();
                keys.insert((name, field), names.join(","));
            }
            _ => {}
        }
    }
    (keys, atomic)
}

/// The lines of every type; `:name` makes it an alias.
fn structured_types<'t>(schema: &'t str, keys: &BTreeMap<(&str, &str), String>) -> BTreeMap<&'t str, Vec<String>> {
    let mut types: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in schema.lines() {
        let [name, field, form, of, _] = *line.split('\t').collect::<Vec<_>>() else {
            panic!("five columns: {line}");
        };
        let lines = types.entry(name).or_default();
        match field {
            // The document of its own group version lacks the type.
            "@gvk" if form == "autoscaling/v1/Scale" => {}
            "@gvk" => {
                let (version, kind) = form.rsplit_once('/').expect("a group version and a kind");
                lines.insert(0, format!("= {} {kind}", version.trim_start_matches('/')));
            }
            // Upstream replaces embedded objects as a whole.
            "@type" if name.ends_with(".runtime.RawExtension") => lines.push(":untyped".to_owned()),
            "@type" => lines.push(format!(":{}", structured_type(form, of))),
            _ => lines.push(format!(" {field} {}", structured_form(name, field, form, of, keys))),
        }
    }
    types
}

#[test]
fn structured_schema_is_current() {
    let (Some(schema), Some(merge_keys)) = (shared("golden/map/schema.tsv"), shared("golden/map/merge-keys.tsv"))
    else {
        return;
    };
    let (schema, merge_keys) = (read(&schema), read(&merge_keys));
    let (keys, atomic) = structured_keys(&merge_keys);
    let types = structured_types(&schema, &keys);
    let names: BTreeSet<&str> = types.keys().map(|name| short(name)).collect();
    assert_eq!(names.len(), types.len(), "short names tell types apart");
    let mut out = String::new();
    for (name, lines) in &types {
        out.push_str(short(name));
        if atomic.contains(name) {
            out.push_str(" atomic");
        }
        match lines.iter().find_map(|line| line.strip_prefix(':')) {
            Some(alias) => writeln!(out, " : {alias}").expect("a string takes everything"),
            None => out.push('\n'),
        }
        for line in lines.iter().filter(|line| !line.starts_with(':')) {
            out.push_str(line);
            out.push('\n');
        }
    }
    compare("structured/schema.txt", kyvtest_patch::structured::TEXT, &out);
}
