//! Forbidden properties and contents of source files.

use super::{files, read, root};

/// The maximum number of lines: a longer file has two concepts.
const LONGEST: usize = 700;

/// Permitted exceptions, each with its reason.
const LONG: &[(&str, &str)] = &[];

/// Markers of unfinished work, matched as whole words.
const UNFINISHED: [&str; 7] = ["TODO", "FIXME", "XXX", "HACK", "todo!", "unimplemented!", "for now"];

/// Prefixes of paths that exist on one machine only.
const MACHINE: [&str; 4] = ["/root/", "/work/", "/home/", "C:\\Users"];

/// The lines of a text that contain one of the words, not as a part of a longer word or path.
fn lines_with(text: &str, words: &[&str]) -> Vec<usize> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let has = |line: &str, word: &str| {
        line.match_indices(word).any(|(at, _)| {
            let longer = word.ends_with(part) && line[at + word.len()..].starts_with(part);
            !line[..at].ends_with(part) && !longer
        })
    };
    let numbered = text.lines().enumerate();
    numbered
        .filter(|(_, line)| words.iter().any(|word| has(line, word)))
        .map(|(i, _)| i + 1)
        .collect()
}

/// The sources with their paths as the repository names them.
fn sources(directories: &[&str]) -> Vec<(String, String)> {
    let all = directories.iter().flat_map(|directory| files(&root().join(directory)));
    all.filter(|path| path.extension().is_some_and(|e| e == "rs" || e == "md"))
        .map(|path| {
            let name = path.strip_prefix(root()).expect("a file of the repository");
            (name.to_string_lossy().replace('\\', "/"), read(&path))
        })
        .collect()
}

#[test]
fn files_are_short() {
    let mut problems = Vec::new();
    for (name, text) in sources(&["src", "crates"]) {
        let lines = text.lines().count();
        let listed = LONG.iter().any(|(known, _)| *known == name);
        if lines > LONGEST && !listed {
            problems.push(format!("{name} has {lines} lines"));
        } else if lines <= LONGEST && listed {
            problems.push(format!("{name} has only {lines} lines: take it off the list"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn modules_have_names() {
    let unnamed = sources(&["src", "crates", "tests"])
        .into_iter()
        .filter(|(name, _)| name.ends_with("/mod.rs"));
    assert_eq!(unnamed.map(|(name, _)| name).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn nothing_is_left_unfinished_or_tied_to_a_machine() {
    let forbidden = [UNFINISHED.as_slice(), MACHINE.as_slice()].concat();
    let mut problems = Vec::new();
    for (name, text) in sources(&["src", "crates", "tests"]) {
        if name == "tests/it/architecture/tidy.rs" {
            continue;
        }
        problems.extend(
            lines_with(&text, &forbidden)
                .iter()
                .map(|line| format!("{name}:{line}")),
        );
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_words_are_found() {
    let found = |text: &str| lines_with(text, &[UNFINISHED.as_slice(), MACHINE.as_slice()].concat());
    assert_eq!(found("a\n// TODO: b\nc for now\ntodo!()\n(FIXME)"), [2, 3, 4, 5]);
    assert_eq!(found("\"/root/x\"\n/work/y"), [1, 2]);
    assert_eq!(
        found("TODOS\nmytodo!\nfor nowhere\npkg/work/x\nXXXL"),
        Vec::<usize>::new()
    );
}
