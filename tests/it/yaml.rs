//! Properties of the YAML reader and emitter.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use kyvtest::yaml::{Kind, Limits, Mode, Node, emit::Emitter, read};
use proptest::{collection::vec, prelude::*};
use saphyr::{LoadableYamlNode, Scalar, Yaml};

/// A JSON value; maps keep their order, keys are unique.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    Seq(Vec<Value>),
    Map(Vec<(String, Value)>),
}

fn emit(value: &Value, emitter: &mut Emitter) {
    match value {
        Value::Null => emitter.null(),
        Value::Bool(bool) => emitter.bool(*bool),
        Value::Int(int) => emitter.int(*int),
        Value::Float(float) => emitter.float(*float),
        Value::Str(text) => emitter.str(text),
        Value::Seq(items) => {
            emitter.begin_seq();
            for item in items {
                emit(item, emitter);
            }
            emitter.end();
        }
        Value::Map(entries) => {
            emitter.begin_map();
            for (key, value) in entries {
                emitter.key(key);
                emit(value, emitter);
            }
            emitter.end();
        }
    }
}

fn ours(node: Node<'_>) -> Value {
    match node.kind() {
        Kind::Null => Value::Null,
        Kind::Bool(bool) => Value::Bool(bool),
        Kind::Int(int) => Value::Int(int),
        Kind::Uint(uint) => Value::Float(uint as f64),
        Kind::Float(float) => Value::Float(float),
        Kind::Str(text) => Value::Str(text.to_owned()),
        Kind::Seq(items) => Value::Seq(items.iter().map(ours).collect()),
        Kind::Map(entries) => Value::Map(entries.iter().map(|e| (e.key.to_owned(), ours(e.value))).collect()),
    }
}

fn theirs(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(bool)) => Value::Bool(*bool),
        Yaml::Value(Scalar::Integer(int)) => Value::Int(*int),
        Yaml::Value(Scalar::FloatingPoint(float)) => Value::Float(float.into_inner()),
        Yaml::Value(Scalar::String(text)) => Value::Str(text.to_string()),
        Yaml::Sequence(items) => Value::Seq(items.iter().map(theirs).collect()),
        Yaml::Mapping(entries) => Value::Map(
            entries
                .iter()
                .map(|(key, value)| match theirs(key) {
                    Value::Str(key) => (key, theirs(value)),
                    other => panic!("the key {other:?} is not a string"),
                })
                .collect(),
        ),
        other => panic!("not a JSON value: {other:?}"),
    }
}

/// Strings that some reader reads as something else, or that are hard to write.
const WORDS: &[&str] = &[
    "",
    " ",
    "on",
    "Off",
    "y",
    "N",
    "yes",
    "TRUE",
    "null",
    "Null",
    "~",
    "0777",
    "0o17",
    "0x1F",
    "1e3",
    "1.0",
    ".5",
    "-.inf",
    ".nan",
    "1_000",
    "12:30:45",
    "2001-01-01",
    "2001-01-01T00:00:00Z",
    "08",
    "+1",
    "-",
    "--flag",
    "---",
    "--- a",
    "...",
    "?",
    "? a",
    ":",
    ": a",
    "a: b",
    "a:",
    "a #b",
    "#a",
    "&a",
    "*a",
    "!a",
    "!!int",
    "|",
    ">",
    "@a",
    "`a`",
    "%a",
    "[a]",
    "{a: b}",
    "a, b",
    "'a'",
    "\"a\"",
    "it's",
    "a\\b",
    "a\nb",
    "a\n",
    "a\n\n",
    "\na",
    "\n",
    "\n\n",
    " a\nb",
    "a \nb",
    "a\n b\n",
    "a\tb",
    "\ta\nb",
    "a\n\tb",
    "a\r\nb",
    "\u{85}",
    "a\u{2028}b",
    "\u{FEFF}",
    "\u{0}",
    "\u{7f}",
    "é",
    "\u{a0}",
    "日本語\nテキスト\n",
    "<<",
    "=",
    "10.0.0.1",
    "100m",
    "1Gi",
    "nginx:1.25",
    "object.spec.x == 'a'",
    "a:\n- b\n",
    "---\na\n",
    "\u{10FFFF}",
];

fn text() -> impl Strategy<Value = String> {
    let word = prop::sample::select(WORDS).prop_map(str::to_owned);
    let characters = prop::sample::select(
        " \n\t\r'\"\\#:-?,[]{}&*!|>%@`~=.0123456789aeinoxyzTZé\u{85}\u{2028}\u{feff}\u{0}\u{1b}"
            .chars()
            .collect::<Vec<_>>(),
    );
    prop_oneof![
        4 => word.clone(),
        3 => vec(characters, 0..24).prop_map(|chars| chars.into_iter().collect()),
        2 => vec(word, 0..4).prop_map(|words| words.concat()),
        1 => any::<String>(),
        1 => "[a-z]{500,1100}",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let float = any::<f64>().prop_filter("JSON has no others", |float| float.is_finite());
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        float.prop_map(Value::Float),
        text().prop_map(Value::Str),
        text().prop_map(Value::Str),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::Seq),
            vec((text(), inner), 0..5).prop_map(|mut entries| {
                let mut seen = std::collections::BTreeSet::new();
                entries.retain(|(key, _)| seen.insert(key.clone()));
                Value::Map(entries)
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_emitted_reads_back(value in value()) {
        let mut emitter = Emitter::new();
        emit(&value, &mut emitter);
        let text = emitter.finish();
        let stream = read(&text, Mode::Strict, &Limits::default());
        prop_assert_eq!(stream.documents().len(), 1, "{:?}", text);
        let tree = stream.documents()[0].tree();
        prop_assert!(tree.is_ok(), "{:?} in {:?}", tree.err(), text);
        prop_assert_eq!(ours(tree.expect("checked").root()), value.clone(), "{:?}", text);
        let other = Yaml::load_from_str(&text);
        prop_assert!(other.is_ok(), "{:?} in {:?}", other.err(), text);
        prop_assert_eq!(theirs(&other.expect("checked")[0]), value, "{:?}", text);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        read(&bytes, Mode::Lax, &Limits::default());
        read(&bytes, Mode::Strict, &Limits::default());
    }

    #[test]
    fn any_mixture_of_syntax_is_read_or_refused(words in vec(prop::sample::select(WORDS), 0..30), gap in prop::sample::select(vec!["", " ", "\n", "\n  ", ": "])) {
        read(words.join(gap), Mode::Strict, &Limits::default());
    }
}

/// Sixty thousand lines.
fn numbered(line: impl Fn(usize) -> String) -> String {
    (0..60_000).fold(String::new(), |text, n| text + &line(n))
}

/// Inputs on which a reader with unbounded lookahead or lookbehind takes forever.
#[test]
fn time_grows_with_size() {
    let size = 1 << 20;
    let repeat = |part: &str| part.repeat(size / part.len());
    let mut inputs: Vec<String> = [
        "[",
        "{",
        "]",
        "- ",
        "? ",
        ": ",
        "a: ",
        "{a: ",
        "[a, ",
        "'",
        "\"",
        "\"a\" ",
        "\\",
        "|\n",
        ">\n ",
        "a\n",
        "a\n\n",
        "\n",
        "\r",
        "\t",
        " ",
        "#",
        "# \n",
        "&a ",
        "*a ",
        "!",
        "!a ",
        "!!binary a\n",
        "--- \n",
        "...\n",
        "%TAG ! a\n",
        "- - a\n",
        "é",
        "\u{2028}",
        "a b ",
        "<<: *a\n",
        "a: [",
        "? a\n: b\n",
        "é: [é, é]\n",
    ]
    .into_iter()
    .map(repeat)
    .collect();
    inputs.push(format!("a: \"{}\"\n", repeat("\\n")));
    inputs.push(format!("a: '{}'\n", repeat("''")));
    inputs.push(format!("a: |\n{}", repeat("  b\n")));
    inputs.push(format!("a: >\n{}", repeat("  b\n\n")));
    inputs.push(format!("a:{}", repeat("\n b")));
    inputs.push(numbered(|n| format!("key{n}: {n}\n")));
    inputs.push(numbered(|n| format!("- &a{n} x\n")) + &"- *a1\n".repeat(60_000));
    inputs.push("~: 1\n".repeat(100_000));
    inputs.push(format!(
        "a: [{}]\na: 1\nb: [{}]\n",
        "{~: 1}, ".repeat(50_000),
        "{c: 1}, ".repeat(50_000)
    ));
    // Each level refers to the one before nine times.
    inputs.push((0..12).fold("- &b0 x\n".to_owned(), |text, n| {
        format!("{text}- &b{} [{}]\n", n + 1, vec![format!("*b{n}"); 9].join(", "))
    }));
    for input in &inputs {
        let start = Instant::now();
        read(input, Mode::Strict, &Limits::default());
        let time = start.elapsed();
        let head: String = input.chars().take(40).collect();
        assert!(
            time < Duration::from_secs(4),
            "{time:?} for {} bytes of {head:?}",
            input.len()
        );
    }
}

/// Real files, cut at any line and with single bytes changed.
#[test]
fn damaged_files_are_read_or_refused() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for directory in ["fixtures", "suites", "../shared/corpus"] {
        let mut directories = vec![root.join(directory)];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    directories.push(path);
                } else if path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml") {
                    files.push(path);
                }
            }
        }
    }
    files.sort();
    let mut state = 1u64;
    for path in files.iter().step_by(1 + files.len() / 300) {
        let bytes = std::fs::read(path).expect("a file");
        for _ in 0..8 {
            let mut damaged = bytes.clone();
            for _ in 0..3 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 33) as usize % damaged.len().max(1);
                match state >> 61 {
                    0..=2 => damaged.truncate(at.max(1)),
                    3..=5 => damaged.splice(at..at, *b"\n- [").for_each(drop),
                    _ => {
                        if let Some(byte) = damaged.get_mut(at) {
                            *byte = (state >> 40) as u8;
                        }
                    }
                }
            }
            read(&damaged, Mode::Lax, &Limits::default());
        }
    }
}

#[test]
fn carets_land_inside_of_scalars() {
    let source = "a: >-\n  first\n  second \"x\"\n\n  third\nb: \"q\\u00e9 \\\n   tail\"\nc: 'it''s\n  here'\nd: |\n   lit\n    eral\ne: plain\n  goes on\n\"k\\ney\": &x 1\n";
    let stream = read(source, Mode::Lax, &Limits::default());
    let tree = stream.documents()[0].tree().expect("valid");
    for (key, word) in [
        ("a", "first"),
        ("a", "second"),
        ("a", "third"),
        ("b", "tail"),
        ("c", "s here"),
        ("c", "here"),
        ("d", "lit"),
        ("d", "eral"),
        ("e", "plain"),
        ("e", "on"),
    ] {
        let node = tree.root().get(key).expect("there");
        let text = node.as_str().expect("a string");
        let at = node.source_offset(text.find(word).expect("the word")) as usize;
        let head = &word[..word.find(' ').unwrap_or(word.len())];
        assert!(
            source[at..].starts_with(head),
            "{key} {word}: {:?}",
            &source[at..at + 5]
        );
    }
    let entry = tree.root().as_map().and_then(|map| map.get("k\ney")).expect("there");
    assert_eq!(&source[entry.key_source_offset(2) as usize..][..2], "ey");
    assert_eq!(entry.value.span().len(), 1);
}

#[test]
fn one_bad_document_leaves_the_others() {
    let stream = read(
        b"a: 1\n---\nb: [\n---\nc: \xff\n---\nd: 4\n",
        Mode::Lax,
        &Limits::default(),
    );
    let good: Vec<bool> = stream
        .documents()
        .iter()
        .map(|document| document.tree().is_ok())
        .collect();
    assert_eq!(good, [true, false, false, true]);
    let error = stream.documents()[2].tree().expect_err("not UTF-8");
    assert_eq!(stream.lines().position(error.span().start).line, 5);
}

#[test]
fn limits() {
    let deep = "[".repeat(1001) + &"]".repeat(1001);
    let stream = read(&deep, Mode::Lax, &Limits::default());
    assert!(stream.first_error().expect("too deep").message().contains("1000"));
    let stream = read("a: 1\n", Mode::Lax, &Limits { bytes: 4, depth: 9 });
    assert!(stream.error().is_some() && stream.documents().is_empty());
}
