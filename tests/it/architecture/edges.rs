//! ARCHITECTURE.md's tables against the edges: those between modules in `src/`, those between crates in their manifests.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{files, read, root, source::mentions};

/// A table: each module or crate with those that it may use.
struct Plan {
    order: Vec<String>,
    allowed: BTreeMap<String, BTreeSet<String>>,
}

impl Plan {
    /// Reads the table whose first column has this title; the last one is `may use`.
    fn read(markdown: &str, title: &str) -> Result<Self, String> {
        let mut rows = Vec::new();
        let lines = markdown
            .lines()
            .skip_while(|line| cells(line).first().is_none_or(|cell| cell != title));
        for line in lines.skip(2).take_while(|line| line.starts_with('|')) {
            let cells = cells(line);
            let [name, _, uses] = cells.as_slice() else {
                return Err(format!("a row without three cells: {line}"));
            };
            let [name] = <[String; 1]>::try_from(words(name)).map_err(|_| format!("a row without a name: {line}"))?;
            rows.push((name, words(uses)));
        }
        let order: Vec<String> = rows.iter().map(|(name, _)| name.clone()).collect();
        if order.is_empty() {
            return Err(format!("no table with the column `{title}`"));
        }
        let mut allowed = BTreeMap::new();
        for (i, (own, uses)) in rows.into_iter().enumerate() {
            let above = &order[..i];
            let mut used = BTreeSet::new();
            for name in uses {
                if name == "*" {
                    used.extend(above.iter().cloned());
                } else if above.contains(&name) {
                    used.insert(name);
                } else {
                    return Err(format!("`{own}` may use `{name}`, which is not above it"));
                }
            }
            if allowed.insert(own.clone(), used).is_some() {
                return Err(format!("`{own}` is in the table twice"));
            }
        }
        Ok(Self { order, allowed })
    }
}

/// The cells of a row of a Markdown table.
fn cells(line: &str) -> Vec<String> {
    let row = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|'));
    row.map(|row| row.split('|').map(|cell| cell.trim().to_owned()).collect())
        .unwrap_or_default()
}

/// The words in backticks.
fn words(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

/// The problems of a tree: a directory with ARCHITECTURE.md and `src/`.
fn problems(tree: &Path) -> Vec<String> {
    let plan = match Plan::read(&read(&tree.join("ARCHITECTURE.md")), "module") {
        Ok(plan) => plan,
        Err(problem) => return vec![problem],
    };
    let src = tree.join("src");
    let mut problems = Vec::new();
    let mut strangers = BTreeSet::new();
    for path in files(&src)
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
    {
        let inside = path.strip_prefix(&src).expect("a file of the tree").with_extension("");
        let module: Vec<String> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let own = &module[0];
        if module.len() == 1 && matches!(own.as_str(), "lib" | "main") {
            continue;
        }
        let Some(allowed) = plan.allowed.get(own) else {
            if strangers.insert(own.clone()) {
                problems.push(format!("module `{own}` is not in the table"));
            }
            continue;
        };
        for mention in mentions(&read(path), module.len()) {
            let name = &mention.name;
            if name == own || allowed.contains(name) {
                continue;
            }
            let place = format!("src/{}.rs:{}", module.join("/"), mention.line);
            problems.push(if plan.order.contains(name) {
                format!("{place}: `{own}` may not use `{name}`")
            } else {
                format!("{place}: `crate::{name}` is not a path into a module")
            });
        }
    }
    problems
}

fn fixture(name: &str) -> Vec<String> {
    problems(&root().join("fixtures/architecture").join(name))
}

#[test]
fn modules_use_only_what_the_table_allows() {
    let problems = problems(root());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_tidy_tree_passes() {
    assert_eq!(fixture("tidy"), Vec::<String>::new());
}

#[test]
fn forbidden_edges_fail() {
    assert_eq!(
        fixture("forbidden-edge"),
        [
            "src/vap/matching/deep.rs:3: `vap` may not use `kyverno`",
            "src/vap/matching/deep.rs:4: `crate::Suite` is not a path into a module",
            "src/vap/matching.rs:3: `vap` may not use `report`",
            "src/vap.rs:3: `vap` may not use `kyverno`",
            "src/vap.rs:8: `vap` may not use `kyverno`",
            "src/yaml.rs:3: `yaml` may not use `value`",
        ]
    );
}

#[test]
fn a_module_outside_the_table_fails() {
    assert_eq!(
        fixture("unknown-module"),
        [
            "module `helpers` is not in the table",
            "module `utils` is not in the table",
            "src/value.rs:3: `crate::utils` is not a path into a module",
        ]
    );
}

#[test]
fn a_table_that_runs_in_circles_fails() {
    assert_eq!(fixture("circle"), ["`value` may use `policy`, which is not above it"]);
}

/// The crates of the workspace that a manifest depends on, without the prefix of their names.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let own = manifest
        .lines()
        .skip_while(|line| *line != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    own.filter_map(|line| line.strip_prefix("kyvtest-")?.split_once('.'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[test]
fn crates_use_only_what_the_table_allows() {
    let plan = Plan::read(&read(&root().join("ARCHITECTURE.md")), "crate").expect("a table of crates");
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("crates")).expect("crates") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let used = dependencies(&read(&path.join("Cargo.toml")));
        assert_eq!(
            Some(&used),
            plan.allowed.get(&name),
            "`{name}` and its row in the table"
        );
        found.insert(name);
    }
    assert_eq!(found, plan.order.into_iter().collect(), "every crate has a row");
}
