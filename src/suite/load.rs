//! Loads a suite and the files that it names, in the order of `runTest` (`commands/test/test.go`, 1.19).

mod expected;
mod extensions;
mod payloads;
mod resources;

use std::{io, sync::Arc};

use super::{
    Cluster, Context, Files, GlobalContextSource, Options, Suite, Test, Upstream, UserInfo, Values,
    files::{base, clean, join, parent, reason, resolve},
    values::ClusterResource,
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Sources, Span, nearest},
    value::{Document, Value},
    yaml::{self, Limits, Mode, Node, Split, Stream, Tree},
};
use kyvtest_model::{
    kube::Discovery,
    policy::{
        self, Loaded, Purpose, Spanned, Text,
        decode::{Decoder, Findings, Style},
        place,
    },
};

/// Whether a path is a URL.
pub(super) fn is_address(path: &str) -> bool {
    path.starts_with("http://") || path.starts_with("https://")
}

/// The extension of a file name, case-sensitive as in Go.
fn extension(path: &str) -> &str {
    base(path).rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Whether a file counts as YAML by its name.
fn is_yaml(path: &str) -> bool {
    matches!(extension(path), "yaml" | "yml")
}

/// Reads every suite of a test file.
pub(super) fn load(files: &dyn Files, path: &str, options: &Options<'_>) -> Vec<Suite> {
    let bytes = match files.read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            let mut suite = empty(path, 0);
            let file = suite.sources.add(path, "");
            suite.upstream = Upstream::Undecodable;
            suite.diagnostics.push(unreadable(Span::point(file, 0), path, &error));
            return vec![suite];
        }
    };
    let stream = yaml::read(bytes, Mode::Strict, &Limits::default());
    let text = Arc::clone(stream.source());
    let start = |document: usize| {
        let mut suite = empty(path, document);
        let file = suite.sources.add(path, Arc::clone(&text));
        (suite, file)
    };
    if let Some(error) = stream.error() {
        let (mut suite, file) = start(0);
        suite.upstream = Upstream::Undecodable;
        suite.diagnostics.push(Diagnostic::from_yaml(file, error));
        return vec![suite];
    }
    if stream.documents().is_empty() && stream.cut().is_none() {
        let (mut suite, file) = start(0);
        suite.upstream = Upstream::Skips;
        let message = "this file is empty: it contains no suite";
        suite
            .diagnostics
            .push(Diagnostic::at(Code::EmptySuite, Span::point(file, 0), message));
        return vec![suite];
    }
    let cut = stream.cut().cloned();
    let mut suites: Vec<Suite> = Vec::new();
    let count = stream.documents().len();
    for (number, document) in stream.into_documents().into_iter().enumerate() {
        let (mut suite, file) = start(number);
        match document.into_tree() {
            Ok(tree) => read_suite(files, options, &mut suite, file, &Arc::new(tree), count),
            Err(error) => {
                suite.upstream = Upstream::Undecodable;
                suite.diagnostics.push(Diagnostic::from_yaml(file, &error));
            }
        }
        suites.push(suite);
    }
    if let Some(cut) = cut {
        if suites.is_empty() {
            suites.push(start(0).0);
        }
        if let Some(suite) = suites.last_mut()
            && let Some(file) = suite.sources.files().next()
        {
            let message = "Kyverno stops reading here: a line that starts with `---` continues with something else";
            suite
                .diagnostics
                .push(Diagnostic::at(Code::LostDocuments, place(file, cut.span()), message));
        }
    }
    suites
}

fn empty(path: &str, document: usize) -> Suite {
    Suite {
        path: path.to_owned(),
        document,
        test: None,
        policies: Loaded::default(),
        exceptions: Loaded::default(),
        resources: Vec::new(),
        targets: Vec::new(),
        params: Vec::new(),
        cluster: None,
        values: Values::default(),
        user_info: None,
        context: None,
        json_payloads: Vec::new(),
        http_payloads: Vec::new(),
        envoy_payloads: Vec::new(),
        global_context: Vec::new(),
        expected: Vec::new(),
        image_mocks: Vec::new(),
        old_resources: Vec::new(),
        expectations: Vec::new(),
        old_objects: Vec::new(),
        cases: Vec::new(),
        sources: Sources::new(),
        diagnostics: Vec::new(),
        upstream: Upstream::Runs,
    }
}

pub(super) fn unreadable(span: Span, path: &str, error: &io::Error) -> Diagnostic {
    let code = match error.kind() {
        io::ErrorKind::NotFound => Code::MissingFile,
        io::ErrorKind::IsADirectory => Code::NotAFile,
        io::ErrorKind::FileTooLarge => Code::YamlTooLarge,
        _ => Code::Unreadable,
    };
    let message = match code {
        Code::NotAFile => format!("expected a file, found the directory `{path}`"),
        Code::YamlTooLarge => format!("`{path}` is larger than {} MiB", Limits::default().bytes >> 20),
        _ => format!("cannot read `{path}`: {}", reason(error)),
    };
    Diagnostic::at(code, span, message)
}

fn read_suite(
    files: &dyn Files,
    options: &Options<'_>,
    suite: &mut Suite,
    file: FileId,
    tree: &Arc<Tree>,
    documents: usize,
) {
    let mut decoder = Decoder::new(tree, file, Style::Struct);
    let root = tree.root();
    let decoded = if root.is_null() {
        // Go leaves the document empty.
        let message = "this document is empty";
        decoder.remark(Diagnostic::at(Code::OldSchema, decoder.span(root), message));
        suite.upstream = Upstream::Deprecated;
        None
    } else {
        Test::decode(&mut decoder, root)
    };
    let findings = decoder.finish();
    suite.diagnostics.extend(findings.diagnostics);
    if findings.unknown || findings.invalid {
        suite.upstream = Upstream::Undecodable;
    }
    let Some(decoded) = decoded else {
        return;
    };
    if decoded.deprecated && suite.upstream == Upstream::Runs {
        suite.upstream = Upstream::Deprecated;
    }
    if findings.invalid {
        // A field of the wrong type is ignored; problems that depend on it would only repeat the error.
        suite.test = Some(decoded.test);
        return;
    }
    let test = decoded.test;
    let reported = suite.diagnostics.len();
    let mut loader = Loader {
        files,
        options,
        directory: parent(&suite.path),
        suite,
        crds: Vec::new(),
    };
    loader.companions(&test);
    if findings.refused {
        loader.stop(Upstream::Aborts);
    }
    loader.extensions(&test, documents);
    if test.results.is_empty() && suite.cases.is_empty() {
        let message = "this suite has no expectations";
        let span = Span::point(test.span.file, test.span.start);
        let diagnostic = Diagnostic::at(Code::EmptySuite, span, message).with_help("add rows under `results`");
        suite.diagnostics.insert(reported, diagnostic);
    }
    if test.results.is_empty() && suite.upstream != Upstream::Undecodable && suite.upstream != Upstream::Deprecated {
        suite.upstream = Upstream::Skips;
    }
    suite.test = Some(test);
}

/// The effect of a missing file upstream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Aborts,
    GoesOn,
}

struct Loader<'a> {
    files: &'a dyn Files,
    options: &'a Options<'a>,
    directory: String,
    suite: &'a mut Suite,
    /// Group, kind and whether it is cluster-wide, of the suite's own CustomResourceDefinitions.
    crds: Vec<(String, String, bool)>,
}

impl Loader<'_> {
    /// Records the first reason for which `kyverno test` stops.
    fn stop(&mut self, upstream: Upstream) {
        if self.suite.upstream == Upstream::Runs {
            self.suite.upstream = upstream;
        }
    }

    fn say(&mut self, diagnostic: Diagnostic) {
        self.suite.diagnostics.push(diagnostic);
    }

    /// Reads a file that the suite names at a location.
    fn bytes(&mut self, at: Span, path: &str, written: &str) -> Option<Vec<u8>> {
        let result = match self.files.is_directory(path) {
            Ok(true) => Err(io::ErrorKind::IsADirectory.into()),
            Ok(false) | Err(_) => self.files.read(path),
        };
        match result {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let diagnostic = self.missing(at, path, written, &error);
                self.say(diagnostic);
                None
            }
        }
    }

    fn missing(&self, at: Span, path: &str, written: &str, error: &io::Error) -> Diagnostic {
        if is_address(written) {
            let message = format!("`{written}` is an address; files are only read from disk");
            return Diagnostic::at(Code::RemotePath, at, message).with_help("download the file and use its path");
        }
        let diagnostic = unreadable(at, path, error);
        if error.kind() != io::ErrorKind::NotFound {
            return diagnostic;
        }
        let names = self.files.list(&parent(path)).unwrap_or_default();
        if names.iter().any(|(name, _)| name == base(path)) {
            return diagnostic.with_help("it is a broken link");
        }
        let near = nearest(base(path), names.iter().map(|(name, _)| name.as_str()));
        match near.as_slice() {
            [near, ..] => diagnostic.with_help(format!("did you mean `{near}`?")),
            [] if written.contains(['*', '?']) => diagnostic.with_help("wildcards are not expanded: list each file"),
            [] => diagnostic,
        }
    }

    fn stream(&mut self, bytes: &[u8], path: &str, mode: Mode) -> (Stream, FileId) {
        let (split, file) = self.split(bytes, path);
        (split.read(mode), file)
    }

    fn split(&mut self, bytes: &[u8], path: &str) -> (Split, FileId) {
        let split = yaml::split(bytes, &Limits::default());
        let file = self.suite.sources.add(path, Arc::clone(split.source()));
        if let Some(cut) = split.cut() {
            let message = "Kyverno stops reading here: a line that starts with `---` continues with something else";
            self.say(Diagnostic::at(Code::LostDocuments, place(file, cut.span()), message));
        }
        (split, file)
    }

    /// Reads a companion file: its first document, decoded into a struct.
    fn companion<T>(
        &mut self,
        at: &Text,
        decode: impl for<'t> FnOnce(&mut Decoder<'t>, Node<'t>) -> Option<T>,
    ) -> Option<T> {
        let path = join(&self.directory, &at.value);
        self.companion_at(at.span, &path, &at.value, decode)
    }

    fn companion_at<T>(
        &mut self,
        at: Span,
        path: &str,
        written: &str,
        decode: impl for<'t> FnOnce(&mut Decoder<'t>, Node<'t>) -> Option<T>,
    ) -> Option<T> {
        let Some(bytes) = self.bytes(at, path, written) else {
            self.stop(Upstream::Aborts);
            return None;
        };
        let (stream, file) = self.stream(&bytes, path, Mode::Strict);
        if let Some(error) = stream.first_error() {
            let diagnostic = Diagnostic::from_yaml(file, error);
            self.say(diagnostic);
            self.stop(Upstream::Aborts);
            return None;
        }
        let mut documents = stream.into_documents().into_iter();
        let Some(tree) = documents.next().and_then(|document| document.into_tree().ok()) else {
            let message = format!("`{path}` is empty");
            self.say(Diagnostic::at(Code::OldSchema, at, message));
            self.stop(Upstream::Aborts);
            return None;
        };
        if let Some(second) = documents.next() {
            let message = "only the first document of this file is read";
            let span = place(file, second.span());
            self.say(Diagnostic::at(
                Code::LostDocuments,
                Span::point(file, span.start),
                message,
            ));
        }
        let tree = Arc::new(tree);
        let mut decoder = Decoder::new(&tree, file, Style::Struct);
        let decoded = decode(&mut decoder, tree.root());
        let findings = decoder.finish();
        self.take(findings);
        decoded
    }

    /// Adds the findings of decoding a required file.
    fn take(&mut self, findings: Findings) -> bool {
        let wrong = findings.unknown || findings.invalid;
        if wrong || findings.refused {
            self.stop(Upstream::Aborts);
        }
        self.suite.diagnostics.extend(findings.diagnostics);
        !wrong
    }

    fn companions(&mut self, test: &Test) {
        self.values(test);
        if let Some(at) = &test.userinfo
            && let Some((info, deprecated)) = self.companion(at, UserInfo::decode_file)
        {
            if deprecated {
                self.stop(Upstream::Aborts);
            }
            self.suite.user_info = Some(info);
        }
        for at in &test.policies {
            let path = resolve(&self.directory, &at.value);
            let before = self.suite.diagnostics.len();
            let found = self.suite.policies.count();
            self.policies(at, &path, &mut Vec::new());
            // If a problem is already reported, the reason is known.
            if self.suite.policies.count() == found && self.suite.diagnostics.len() == before {
                self.holds_nothing(at, "no policy");
            }
        }
        // Kyverno reads the definitions last; if they determine scopes, they must be known before the resources.
        self.cluster(test);
        let listed = self.resources(&test.resources);
        self.suite.resources = self.distinct(listed);
        self.payloads(test);
        self.suite.targets = self.resources(&test.target_resources);
        self.suite.params = self.resources(&test.param_resources);
        self.collisions();
        if let Some(at) = &test.context {
            self.suite.context = self.companion(at, Context::decode_file);
        }
        for at in &test.exceptions {
            self.exceptions(at);
        }
        let vap = self.suite.policies.native().next().map(|vap| vap.origin.span);
        let exception = self.suite.exceptions.exceptions.first();
        if let (Some(vap), Some(exception)) = (vap, exception.map(|exception| exception.origin.span)) {
            let message = "Kyverno rejects exceptions in a suite with a ValidatingAdmissionPolicy";
            let diagnostic = Diagnostic::at(
                Code::IgnoredValue,
                Span::point(exception.file, exception.start),
                message,
            );
            self.say(diagnostic.with_label(Span::point(vap.file, vap.start), "the policy is here"));
            self.stop(Upstream::Aborts);
        }
        self.global_context(test);
        self.expected(test);
    }

    fn values(&mut self, test: &Test) {
        if let Some(values) = &test.values {
            self.suite.values = values.clone();
            if let Some(at) = &test.variables {
                let message = format!("`{}` is not read: the suite has inline `values`", at.value);
                self.say(Diagnostic::at(Code::IgnoredValue, at.span, message));
            }
        } else if let Some(at) = &test.variables
            && let Some((values, deprecated)) = self.companion(at, Values::decode_file)
        {
            if deprecated {
                self.stop(Upstream::Aborts);
            }
            self.suite.values = values;
        }
        let known = ["", "CREATE", "UPDATE", "DELETE", "CONNECT"];
        if let Some((operation, span)) = self.suite.values.global_operation()
            && !known.contains(&operation)
        {
            let message = format!("invalid `request.operation` `{operation}`");
            let help = "use `CREATE`, `UPDATE`, `DELETE` or `CONNECT`";
            self.say(Diagnostic::at(Code::BadValue, span, message).with_help(help));
            self.stop(Upstream::Aborts);
        }
    }

    /// Reports a file or directory that has nothing to test.
    fn holds_nothing(&mut self, at: &Text, what: &str) {
        let message = format!("`{}` contains {what}", at.value);
        self.say(Diagnostic::at(Code::NothingInFile, at.span, message));
    }

    /// Loads a policy file or a whole directory. Hidden files and those without a YAML extension are skipped. `open`
    /// are the ancestor directories.
    fn policies(&mut self, at: &Text, path: &str, open: &mut Vec<String>) {
        let directory = match self.files.is_directory(path) {
            Ok(directory) => directory,
            Err(error) => {
                let diagnostic = self.missing(at.span, path, &at.value, &error);
                self.say(diagnostic);
                self.stop(Upstream::Aborts);
                return;
            }
        };
        let cleaned = clean(path);
        if base(&cleaned).starts_with('.') || (!directory && !is_yaml(&cleaned)) {
            if open.is_empty() {
                let message = format!("Kyverno skips `{}` because of its name", at.value);
                let help =
                    "policy files end in `.yaml` or `.yml`, and neither they nor their directory start with a dot";
                self.say(Diagnostic::at(Code::IgnoredValue, at.span, message).with_help(help));
            }
            return;
        }
        if directory {
            let identity = self.files.identity(path).unwrap_or_else(|| cleaned.clone());
            if open.contains(&identity) {
                let message = format!("`{path}` leads back to a directory that contains it");
                let help = "remove the link, or list the policy files one by one";
                self.say(Diagnostic::at(Code::Unreadable, at.span, message).with_help(help));
                self.stop(Upstream::Aborts);
                return;
            }
            match self.files.list(path) {
                Ok(names) => {
                    open.push(identity);
                    for (name, _) in names {
                        self.policies(at, &join(path, &name), open);
                    }
                    open.pop();
                }
                Err(error) => {
                    let diagnostic = self.missing(at.span, path, &at.value, &error);
                    self.say(diagnostic);
                    self.stop(Upstream::Aborts);
                }
            }
            return;
        }
        let Some(bytes) = self.bytes(at.span, path, &at.value) else {
            self.stop(Upstream::Aborts);
            return;
        };
        let (stream, file) = self.stream(&bytes, path, Mode::Strict);
        policy::load(stream, file, Purpose::Policies, &mut self.suite.policies);
        let diagnostics = std::mem::take(&mut self.suite.policies.diagnostics);
        self.suite.diagnostics.extend(diagnostics);
        if self.suite.policies.refused.is_some() {
            self.stop(Upstream::Aborts);
        }
    }

    fn exceptions(&mut self, at: &Text) {
        let path = resolve(&self.directory, &at.value);
        let Some(bytes) = self.bytes(at.span, &path, &at.value) else {
            self.stop(Upstream::Aborts);
            return;
        };
        let (stream, file) = self.stream(&bytes, &path, Mode::Strict);
        policy::load(stream, file, Purpose::Exceptions, &mut self.suite.exceptions);
        let diagnostics = std::mem::take(&mut self.suite.exceptions.diagnostics);
        self.suite.diagnostics.extend(diagnostics);
        if self.suite.exceptions.refused.is_some() {
            self.stop(Upstream::Aborts);
        }
    }

    fn cluster(&mut self, test: &Test) {
        if test.cluster_resources.is_empty() {
            return;
        }
        let mut cluster = Cluster::default();
        for at in &test.cluster_resources {
            let path = resolve(&self.directory, &at.value);
            let Some(read) = self.companion_at(at.span, &path, &at.value, ClusterResource::decode_file) else {
                continue;
            };
            for object in &read.resources {
                // Kyverno's fake client rejects objects without a version, and lists.
                if object
                    .value
                    .root()
                    .get("apiVersion")
                    .and_then(Value::as_str)
                    .is_none_or(str::is_empty)
                {
                    let start = Span::point(object.span.file, object.span.start);
                    self.say(Diagnostic::at(
                        Code::MissingField,
                        start,
                        "the object has no `apiVersion`",
                    ));
                    self.stop(Upstream::Panics);
                }
            }
            cluster.resources.extend(read.resources);
            for at in &read.crds {
                let path = resolve(&self.directory, &at.value);
                let crd = self.companion_at(at.span, &path, &at.value, |decoder, node| {
                    let crd = decoder.object(node)?;
                    let kind = node.get("kind").and_then(Node::as_str);
                    if kind != Some("CustomResourceDefinition") {
                        let message = format!("`{}` is not a CustomResourceDefinition", kind.unwrap_or_default());
                        decoder.error(Diagnostic::at(Code::WrongKind, crd.span, message));
                        return None;
                    }
                    if let Err(problem) = Discovery::empty().add_crd(crd.root()) {
                        let message = format!("this CustomResourceDefinition cannot be used: {problem}");
                        decoder.error(Diagnostic::at(
                            Code::BadValue,
                            Span::point(crd.span.file, crd.span.start),
                            message,
                        ));
                        return None;
                    }
                    Some(crd)
                });
                cluster.crds.extend(crd);
            }
        }
        for crd in &cluster.crds {
            let text = |path: &[&str]| crd.root().at(path).and_then(Value::as_str).unwrap_or_default();
            self.crds.push((
                text(&["spec", "group"]).to_owned(),
                text(&["spec", "names", "kind"]).to_owned(),
                text(&["spec", "scope"]) == "Cluster",
            ));
        }
        self.suite.cluster = Some(cluster);
    }

    fn global_context(&mut self, test: &Test) {
        for entry in &test.global_context_entries {
            let mut entry = entry.clone();
            if let GlobalContextSource::Files(paths) = &entry.source {
                let mut objects = Vec::new();
                for at in paths {
                    let path = join(&self.directory, at.trim());
                    let Some(bytes) = self.bytes(at.span, &path, &at.value) else {
                        self.stop(Upstream::Aborts);
                        continue;
                    };
                    let (stream, file) = self.stream(&bytes, &path, Mode::Lax);
                    for document in stream.documents() {
                        match document.tree() {
                            Ok(tree) => {
                                let root = tree.root();
                                objects.push(Spanned::new(Document::from(root), place(file, root.span())));
                            }
                            Err(error) => {
                                self.say(Diagnostic::from_yaml(file, error));
                                self.stop(Upstream::Aborts);
                            }
                        }
                    }
                }
                entry.source = GlobalContextSource::Resources(objects);
            }
            self.suite.global_context.push(entry);
        }
    }
}
