//! The committed schema tables against the reference data that they are generated from.
//!
//! `KYVTEST_WRITE_TABLES=1` writes them anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
};

use crate::support::{read, root, shared};

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

/// The last three parts of a type's name, which tell all types apart.
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
