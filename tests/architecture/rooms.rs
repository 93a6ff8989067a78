//! ARCHITECTURE.md's table against the edges in `src/`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{files, read, root, source::mentions};

/// The table: each room with the rooms that it may use.
struct Plan {
    order: Vec<String>,
    allowed: BTreeMap<String, BTreeSet<String>>,
}

impl Plan {
    /// Reads the table with the columns `room`, `lives here` and `may use`, and the line of the common rooms.
    fn read(markdown: &str) -> Result<Self, String> {
        let mut rows = Vec::new();
        let lines = markdown
            .lines()
            .skip_while(|line| cells(line).first().is_none_or(|cell| cell != "room"));
        for line in lines.skip(2).take_while(|line| line.starts_with('|')) {
            let cells = cells(line);
            let [room, _, uses] = cells.as_slice() else {
                return Err(format!("a row without three cells: {line}"));
            };
            let [room] = <[String; 1]>::try_from(words(room)).map_err(|_| format!("a row without a room: {line}"))?;
            rows.push((room, words(uses)));
        }
        let common = markdown.lines().find_map(|line| line.strip_prefix("Common rooms:"));
        let common = words(common.ok_or("no line `Common rooms:`")?);
        let order: Vec<String> = rows.iter().map(|(room, _)| room.clone()).collect();
        if order.is_empty() {
            return Err("no table of rooms".to_owned());
        }
        let mut allowed = BTreeMap::new();
        for (i, (room, uses)) in rows.into_iter().enumerate() {
            let above = &order[..i];
            let mut rooms: BTreeSet<String> = common.iter().filter(|name| above.contains(name)).cloned().collect();
            for name in uses {
                if name == "*" {
                    rooms.extend(above.iter().cloned());
                } else if above.contains(&name) {
                    rooms.insert(name);
                } else {
                    return Err(format!("`{room}` may use `{name}`, which does not stand above it"));
                }
            }
            if allowed.insert(room.clone(), rooms).is_some() {
                return Err(format!("`{room}` stands in the table twice"));
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

/// What is wrong with a tree: a folder with ARCHITECTURE.md and `src/`.
fn problems(tree: &Path) -> Vec<String> {
    let plan = match Plan::read(&read(&tree.join("ARCHITECTURE.md"))) {
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
        let room = &module[0];
        if module.len() == 1 && matches!(room.as_str(), "lib" | "main") {
            continue;
        }
        let Some(allowed) = plan.allowed.get(room) else {
            if strangers.insert(room.clone()) {
                problems.push(format!("room `{room}` is not in the table"));
            }
            continue;
        };
        for mention in mentions(&read(path), module.len()) {
            let name = &mention.name;
            if name == room || allowed.contains(name) {
                continue;
            }
            let place = format!("src/{}.rs:{}", module.join("/"), mention.line);
            problems.push(if plan.order.contains(name) {
                format!("{place}: `{room}` may not use `{name}`")
            } else {
                format!("{place}: `crate::{name}` is not a path into a room")
            });
        }
    }
    problems
}

fn fixture(name: &str) -> Vec<String> {
    problems(&root().join("fixtures/architecture").join(name))
}

#[test]
fn rooms_use_only_what_the_table_allows() {
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
            "src/vap/matching/deep.rs:4: `crate::Suite` is not a path into a room",
            "src/vap/matching.rs:3: `vap` may not use `report`",
            "src/vap.rs:3: `vap` may not use `kyverno`",
            "src/vap.rs:8: `vap` may not use `kyverno`",
            "src/yaml.rs:3: `yaml` may not use `value`",
        ]
    );
}

#[test]
fn a_room_outside_the_table_fails() {
    assert_eq!(
        fixture("unknown-room"),
        [
            "room `helpers` is not in the table",
            "room `utils` is not in the table",
            "src/value.rs:3: `crate::utils` is not a path into a room",
        ]
    );
}

#[test]
fn a_table_that_runs_in_circles_fails() {
    assert_eq!(
        fixture("circle"),
        ["`value` may use `policy`, which does not stand above it"]
    );
}
