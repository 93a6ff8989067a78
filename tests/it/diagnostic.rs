//! The appearance of diagnostics: each case of `fixtures/diagnostic/` in one line and with its excerpt.

use std::{fs, path::Path, time::Instant};

use kyvtest::diagnostic::{Code, Diagnostic, Severity, Sources, Span, render};
use proptest::{collection::vec, prelude::*, sample::select};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    code: String,
    severity: Option<String>,
    message: String,
    primary: Option<Place>,
    #[serde(default)]
    labels: Vec<Place>,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    help: Vec<String>,
}

/// A part of a file below `sources/`: bytes, or the n-th occurrence of a text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    file: String,
    start: Option<u32>,
    end: Option<u32>,
    find: Option<String>,
    nth: Option<usize>,
    message: Option<String>,
}

impl Place {
    fn span(&self, directory: &Path, sources: &mut Sources) -> Span {
        let text = fs::read_to_string(directory.join("sources").join(&self.file)).expect("the source can be read");
        let (start, end) = match &self.find {
            Some(find) => {
                let nth = self.nth.unwrap_or(0);
                let (start, _) = text
                    .match_indices(find.as_str())
                    .nth(nth)
                    .expect("the source has the text");
                (start as u32, (start + find.len()) as u32)
            }
            None => (self.start.expect("a start"), self.end.expect("an end")),
        };
        let known = sources.files().find(|file| sources.name(*file) == Some(&self.file));
        let file = known.unwrap_or_else(|| sources.add(self.file.as_str(), text));
        Span::new(file, start, end)
    }
}

fn load(directory: &Path, case: &Case, sources: &mut Sources) -> Diagnostic {
    let mut diagnostic = Diagnostic::new(case.code.parse::<Code>().expect("a code"), case.message.as_str());
    diagnostic.primary = case.primary.as_ref().map(|place| place.span(directory, sources));
    for label in &case.labels {
        let span = label.span(directory, sources);
        diagnostic = diagnostic.with_label(span, label.message.as_deref().unwrap_or(""));
    }
    for note in &case.notes {
        diagnostic = diagnostic.with_note(note.as_str());
    }
    for help in &case.help {
        diagnostic = diagnostic.with_help(help.as_str());
    }
    match case.severity.as_deref() {
        None => diagnostic,
        Some("warning") => diagnostic.with_severity(Severity::Warning),
        Some("note") => diagnostic.with_severity(Severity::Note),
        Some(other) => panic!("no severity `{other}`"),
    }
}

#[test]
fn renderings() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/diagnostic");
    let mut seen = 0;
    let mut entries: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
    {
        let case: Case = serde_json::from_str(&fs::read_to_string(path).unwrap()).expect("a case");
        let mut sources = Sources::new();
        let diagnostic = load(&directory, &case, &mut sources);
        let concise = render::concise(&diagnostic, &sources);
        let full = render::full(&diagnostic, &sources, false);
        assert!(!concise.contains('\n'), "{concise}");
        assert!(!full.contains('\u{1b}'), "{full}");
        insta::assert_snapshot!(
            path.file_stem().unwrap().to_str().unwrap(),
            format!("{concise}\n\n{full}")
        );
        seen += 1;
    }
    assert!(seen >= 15, "only {seen} cases");
}

#[test]
fn colour() {
    let mut sources = Sources::new();
    let file = sources.add("a.yaml", "a: [\n");
    let diagnostic = Diagnostic::at(Code::YamlSyntax, Span::new(file, 3, 4), "never closed").with_help("add a `]`");
    let colored = render::full(&diagnostic, &sources, true);
    insta::assert_snapshot!("colour", colored.replace('\u{1b}', "ESC"));
}

#[test]
fn a_span_of_another_store_is_no_place() {
    let mut other = Sources::new();
    let file = other.add("a.yaml", "a");
    let diagnostic = Diagnostic::at(Code::YamlSyntax, Span::point(file, 0), "somewhere");
    assert_eq!(render::concise(&diagnostic, &Sources::new()), "error[KT001]: somewhere");
    assert_eq!(
        render::full(&diagnostic, &Sources::new(), false),
        "error[KT001]: somewhere\n"
    );
}

#[test]
fn large_files_and_long_lines_are_drawn_in_no_time() {
    let texts = [
        ("large-one-line", "x".repeat(4_000_000)),
        ("large-many-lines", "x\n".repeat(2_000_000)),
        ("large-odd-characters", "\t漢\u{1b}".repeat(800_000)),
    ];
    for (name, text) in texts {
        let mut sources = Sources::new();
        let end = text.len() as u32;
        let file = sources.add("big", text);
        let spans = [(0, 1), (end / 2, end / 2 + 9), (end, end), (0, end)];
        let start = Instant::now();
        for (from, to) in spans {
            let diagnostic = Diagnostic::at(Code::YamlSyntax, Span::new(file, from, to), "here")
                .with_label(Span::point(file, 0), "begin")
                .with_label(Span::point(file, end), "end");
            let full = render::full(&diagnostic, &sources, false);
            assert!(full.len() < 10_000, "{} bytes", full.len());
            if from == end / 2 {
                insta::assert_snapshot!(name, full);
            }
        }
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_text_and_no_span_make_the_renderer_panic(
        parts in vec(select(PARTS), 0..24),
        message in vec(select(PARTS), 0..4),
        spans in vec((0_usize..2, 0_u32..80, 0_u32..80), 1..5),
        color in any::<bool>(),
    ) {
        let mut sources = Sources::new();
        let files = [sources.add("a\nb.yaml", parts.concat()), sources.add("b.yaml", "one\r\ntwo\r\n")];
        let span = |(file, start, end): (usize, u32, u32)| Span::new(files[file], start, end);
        let mut diagnostic = Diagnostic::at(Code::YamlSyntax, span(spans[0]), message.concat());
        for place in &spans[1..] {
            diagnostic = diagnostic.with_label(span(*place), message.concat());
        }
        let full = render::full(&diagnostic, &sources, color);
        let begin = if color { "\u{1b}" } else { "error[KT001]" };
        prop_assert!(full.starts_with(begin));
        prop_assert!(!render::concise(&diagnostic, &sources).contains('\n'));
    }
}

/// Pieces of text that have tripped renderers: line ends, tabs, wide, joined and invisible characters, escapes.
const PARTS: &[&str] = &[
    "a",
    "key: value",
    " ",
    "\n",
    "\r\n",
    "\r",
    "\t",
    "漢",
    "é",
    "e\u{301}",
    "👩\u{200d}👧",
    "\u{feff}",
    "\u{1b}[31m",
    "\0",
    "\u{202e}",
    "\u{2028}",
    "\u{85}",
];
