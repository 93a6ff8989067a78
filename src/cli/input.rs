//! Reads the files that the command line names.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use serde_json::Value as Json;

use super::{Exit, Failure, output::Output};
use kyvtest_cel::time::Timestamp;
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Sources, Span},
    value::Document,
    yaml::{self, Limits, Mode},
};
use kyvtest_kyverno::config::Config;
use kyvtest_model::{
    kube::Discovery,
    policy::{self, Loaded, Purpose},
};
use walkdir::WalkDir;

/// The name under which standard input appears in diagnostics.
pub const STDIN: &str = "<stdin>";

/// Reads a file; the path `-` is standard input.
pub fn read(path: &Path, sources: &mut Sources) -> Result<FileId, Diagnostic> {
    let name = path.display().to_string();
    if name == "-" {
        let mut bytes = Vec::new();
        let result = std::io::stdin().lock().read_to_end(&mut bytes);
        let bytes = result
            .map(|_| bytes)
            .map_err(|error| unreadable("standard input", &error))?;
        return Ok(sources.add(STDIN, text(STDIN, bytes)?));
    }
    let bytes = fs::read(path).map_err(|error| unreadable(&format!("`{name}`"), &error))?;
    let text = text(&name, bytes)?;
    Ok(sources.add(name, text))
}

/// Reads the first document of a YAML or JSON file as a value; `null` if there is none.
pub fn read_value(path: &Path, sources: &mut Sources) -> Result<Document, Vec<Diagnostic>> {
    let mut documents = read_values(path, sources)?;
    Ok(if documents.is_empty() {
        Document::null()
    } else {
        documents.swap_remove(0)
    })
}

/// Reads all documents of a YAML or JSON file as values.
pub fn read_values(path: &Path, sources: &mut Sources) -> Result<Vec<Document>, Vec<Diagnostic>> {
    let file = read(path, sources).map_err(|diagnostic| vec![diagnostic])?;
    let text = sources.text(file).cloned().unwrap_or_default();
    let stream = yaml::read(text.as_bytes(), Mode::Lax, &Limits::default());
    let mut problems: Vec<Diagnostic> = stream
        .error()
        .iter()
        .map(|error| Diagnostic::from_yaml(file, error))
        .collect();
    let mut documents = Vec::new();
    for document in stream.documents() {
        match document.tree() {
            Ok(tree) => documents.push(tree.root().into()),
            Err(error) => problems.push(Diagnostic::from_yaml(file, error)),
        }
    }
    if problems.is_empty() {
        Ok(documents)
    } else {
        Err(problems)
    }
}

/// The served kinds: the table of a file or that of Kubernetes 1.36, and the given definitions.
pub(super) fn cluster(table: Option<&Path>, crds: &[PathBuf]) -> Result<Discovery, Failure> {
    let mut sources = Sources::new();
    let mut discovery = match table {
        None => Discovery::kubernetes(),
        Some(path) => {
            let file = read(path, &mut sources)?;
            let text = sources.text(file).cloned().unwrap_or_default();
            match Discovery::from_tsv(&text, file) {
                Ok(discovery) => discovery,
                Err(problems) => return Err(Failure::Input(problems, sources)),
            }
        }
    };
    for path in crds {
        let documents = read_values(path, &mut sources).map_err(|problems| {
            let sources = std::mem::take(&mut sources);
            Failure::Input(problems, sources)
        })?;
        for document in documents {
            discovery
                .add_crd(document.root())
                .map_err(|problem| Diagnostic::new(Code::BadValue, format!("`{}`: {problem}", path.display())))?;
        }
    }
    Ok(discovery)
}

/// The lines of a text that are not blank, each with its offset.
fn lines(text: &str) -> Vec<(u32, &str)> {
    let mut offset = 0;
    text.split_inclusive('\n')
        .map(|line| {
            let start = offset;
            offset += line.len();
            (start as u32, line.trim_end_matches(['\n', '\r']))
        })
        .filter(|(_, line)| !line.trim().is_empty())
        .collect()
}

/// A problem with a line: the byte offset, the code, the message.
pub(super) type LineProblem = (usize, Code, String);

/// Answers each line of a file with a line of JSON.
pub(super) fn answer_lines(
    path: &Path,
    output: &mut Output,
    answer: impl Fn(&str) -> Result<Json, LineProblem> + Sync,
) -> Result<Exit, Failure> {
    let mut sources = Sources::new();
    let file = read(path, &mut sources)?;
    let text = sources.text(file).cloned().unwrap_or_default();
    let answers: Vec<Result<String, Diagnostic>> = lines(&text)
        .par_iter()
        .map(|(start, line)| {
            let problem = |(column, code, message): LineProblem| {
                let at = start + (column as u32).min(line.len() as u32);
                Diagnostic::at(code, Span::new(file, at, start + line.len() as u32), message)
            };
            answer(line).map(|answer| answer.to_string()).map_err(problem)
        })
        .collect();
    Ok(output.answers(answers, &sources)?)
}

/// Parses a time in RFC 3339.
pub(super) fn time(text: &str) -> Result<Timestamp, Diagnostic> {
    Timestamp::parse(text).ok_or_else(|| {
        Diagnostic::new(Code::CommandLine, format!("invalid time `{text}`"))
            .with_help("use RFC 3339, such as `2026-11-16T00:00:00Z`")
    })
}

fn unreadable(what: &str, error: &std::io::Error) -> Diagnostic {
    Diagnostic::new(Code::Unreadable, format!("cannot read {what}: {}", reason(error)))
}

/// The files with policies below a directory, sorted by path. Files of other kinds are skipped; an unreadable YAML file
/// counts if it names the kind of a policy, so that its error is reported.
pub(super) fn policy_files(directory: &Path) -> Vec<PathBuf> {
    yaml_files(directory).filter(|path| has_policy(path)).collect()
}

/// Like [`policy_files`], with files of classic exceptions.
pub(super) fn policy_and_exception_files(directory: &Path) -> Vec<PathBuf> {
    let has_exception = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut lines = text.lines();
        lines.any(|line| {
            let kind = line.strip_prefix("kind:").map(str::trim);
            kind == Some("PolicyException")
        })
    };
    yaml_files(directory)
        .filter(|path| has_policy(path) || has_exception(path))
        .collect()
}

fn yaml_files(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let is_yaml = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| ["yaml", "yml", "json"].contains(&extension))
    };
    let entries = WalkDir::new(directory).sort_by_file_name().follow_root_links(true);
    let files = entries.into_iter().filter_map(Result::ok);
    let files = files.filter(move |entry| entry.file_type().is_file() && is_yaml(entry.path()));
    files.map(walkdir::DirEntry::into_path)
}

fn has_policy(path: &Path) -> bool {
    const KINDS: [&str; 4] = [
        "ClusterPolicy",
        "Policy",
        "ValidatingPolicy",
        "ValidatingAdmissionPolicy",
    ];
    let Ok(text) = fs::read_to_string(path) else {
        return false;
    };
    // Parsing is slow, and most files can be skipped without it.
    if !KINDS.iter().any(|kind| text.contains(kind)) {
        return false;
    }
    let mut sources = Sources::new();
    let file = sources.add(path.display().to_string(), text.as_str());
    let stream = yaml::read(text.as_bytes(), Mode::Lax, &Limits::default());
    let broken = stream.error().is_some();
    let mut loaded = Loaded::default();
    policy::load(stream, file, Purpose::Policies, &mut loaded);
    let any = !loaded.policies.is_empty();
    let named = || {
        let lines = text.lines().filter_map(|line| line.strip_prefix("kind:"));
        lines.map(str::trim).any(|kind| KINDS.contains(&kind))
    };
    any || broken && named()
}

/// The operating system's message in our style: without the number, in lower case.
pub(super) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// Kyverno's configuration: `bare`, `chart`, or a file with its ConfigMap.
pub(super) fn kyverno_config(word: &str) -> Result<Config, Failure> {
    match word {
        "bare" => Ok(Config::bare()),
        "chart" => Ok(Config::chart()),
        path => {
            let mut sources = Sources::new();
            match read_value(path.as_ref(), &mut sources) {
                Ok(document) => Config::from_config_map(&document)
                    .map_err(|problem| Diagnostic::new(Code::WrongKind, format!("`{path}`: {problem}")).into()),
                Err(problems) => Err(Failure::Input(problems, sources)),
            }
        }
    }
}

fn text(name: &str, bytes: Vec<u8>) -> Result<String, Diagnostic> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let byte = error.as_bytes().get(at).copied().unwrap_or_default();
        let message = format!("`{name}` is not UTF-8: byte {at} is 0x{byte:02x}");
        Diagnostic::new(Code::NotUtf8, message).with_help("save the file as UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/input").join(name)
    }

    #[test]
    fn a_file_becomes_a_source() {
        let mut sources = Sources::new();
        let file = read(&fixture("plain.txt"), &mut sources).expect("it can be read");
        assert_eq!(sources.text(file).map(|text| &**text), Some("plain\n"));
        assert!(sources.name(file).is_some_and(|name| name.ends_with("plain.txt")));
    }

    #[test]
    fn problems_say_where_and_why() {
        let problem = |path: &Path| read(path, &mut Sources::new()).expect_err("it cannot be read");
        let missing = problem(Path::new("no/such.yaml"));
        assert_eq!(missing.code, Code::Unreadable);
        assert_eq!(missing.message, "cannot read `no/such.yaml`: no such file or directory");
        let latin = problem(&fixture("latin1.txt"));
        assert_eq!(latin.code, Code::NotUtf8);
        assert!(
            latin.message.ends_with("is not UTF-8: byte 3 is 0xe9"),
            "{}",
            latin.message
        );
    }
}
