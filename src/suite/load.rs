//! Reads a suite and what it names, in the order of `runTest` (`commands/test/test.go`, 1.19).

use std::{io, sync::Arc};

use super::{
    Cluster, Context, Files, GlobalContextSource, OldObject, Options, Payload, Resource, SIDECAR, Sidecar, Suite, Test,
    Upstream, UserInfo, Values, annotations,
    files::{base, clean, join, parent, reason, resolve},
    resource::{list_items, resource},
    values::ClusterResource,
};
use crate::{
    diagnostic::{Code, Diagnostic, FileId, Severity, Sources, Span, nearest},
    policy::{
        self, Loaded, Origin, Purpose, Spanned, Text,
        decode::{Decoder, Findings, Style},
        place,
    },
    value::{Builder, Document, Value},
    yaml::{self, Limits, Mode, Node, Stream, Tree},
};

/// Whether a path is an address of a network.
pub(super) fn is_address(path: &str) -> bool {
    path.starts_with("http://") || path.starts_with("https://")
}

/// Whether a file counts as YAML by its name.
fn is_yaml(path: &str) -> bool {
    let name = base(path);
    name.ends_with(".yaml") || name.ends_with(".yml")
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
            let message = "Kyverno stops reading here: a line that starts with `---` goes on with something else";
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
        old_resources: Vec::new(),
        expectations: Vec::new(),
        old_objects: Vec::new(),
        cases: Vec::new(),
        sources: Sources::new(),
        diagnostics: Vec::new(),
        upstream: Upstream::Runs,
    }
}

fn unreadable(span: Span, path: &str, error: &io::Error) -> Diagnostic {
    let code = match error.kind() {
        io::ErrorKind::NotFound => Code::MissingFile,
        io::ErrorKind::IsADirectory => Code::NotAFile,
        _ => Code::Unreadable,
    };
    let message = match code {
        Code::NotAFile => format!("`{path}` is a folder where a file is due"),
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
        // Go leaves the document as it is: empty.
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
        // A field of the wrong type has no meaning; what hangs on it would only repeat the complaint.
        suite.test = Some(decoded.test);
        return;
    }
    let test = decoded.test;
    if test.results.is_empty() {
        let message = "this suite expects nothing: it has no `results`";
        let span = Span::point(test.span.file, test.span.start);
        suite.diagnostics.push(Diagnostic::at(Code::EmptySuite, span, message));
    }
    let mut loader = Loader {
        files,
        options,
        folder: parent(&suite.path),
        suite,
        crds: Vec::new(),
    };
    loader.companions(&test);
    if findings.refused {
        loader.stop(Upstream::Aborts);
    }
    loader.extensions(&test, documents);
    if test.results.is_empty() && suite.upstream != Upstream::Undecodable && suite.upstream != Upstream::Deprecated {
        suite.upstream = Upstream::Skips;
    }
    suite.test = Some(test);
}

/// What a missing file means upstream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Aborts,
    GoesOn,
}

struct Loader<'a> {
    files: &'a dyn Files,
    options: &'a Options<'a>,
    folder: String,
    suite: &'a mut Suite,
    /// Group, kind and whether it is cluster-wide, of the suite's own CustomResourceDefinitions.
    crds: Vec<(String, String, bool)>,
}

impl Loader<'_> {
    /// Notes the first reason for which `kyverno test` stops.
    fn stop(&mut self, upstream: Upstream) {
        if self.suite.upstream == Upstream::Runs {
            self.suite.upstream = upstream;
        }
    }

    fn say(&mut self, diagnostic: Diagnostic) {
        self.suite.diagnostics.push(diagnostic);
    }

    /// The bytes of a file that the suite names at a place.
    fn bytes(&mut self, at: Span, path: &str, written: &str) -> Option<Vec<u8>> {
        let result = match self.files.is_folder(path) {
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
            let message = format!("`{written}` is an address; files are read from the disk only");
            return Diagnostic::at(Code::RemotePath, at, message)
                .with_help("download the file and name it by its path");
        }
        let diagnostic = unreadable(at, path, error);
        if error.kind() != io::ErrorKind::NotFound {
            return diagnostic;
        }
        let names = self.files.list(&parent(path)).unwrap_or_default();
        let near = nearest(base(path), names.iter().map(|(name, _)| name.as_str()));
        match near.as_slice() {
            [near, ..] => diagnostic.with_help(format!("did you mean `{near}`?")),
            [] if written.contains(['*', '?']) => diagnostic.with_help("wildcards are not expanded: name each file"),
            [] => diagnostic,
        }
    }

    fn stream(&mut self, bytes: &[u8], path: &str, mode: Mode) -> (Stream, FileId) {
        let stream = yaml::read(bytes, mode, &Limits::default());
        let file = self.suite.sources.add(path, Arc::clone(stream.source()));
        if let Some(cut) = stream.cut() {
            let message = "Kyverno stops reading here: a line that starts with `---` goes on with something else";
            self.say(Diagnostic::at(Code::LostDocuments, place(file, cut.span()), message));
        }
        (stream, file)
    }

    /// Reads a companion file: its first document, decoded into a struct.
    fn companion<T>(
        &mut self,
        at: &Text,
        decode: impl for<'t> FnOnce(&mut Decoder<'t>, Node<'t>) -> Option<T>,
    ) -> Option<T> {
        let path = join(&self.folder, &at.value);
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

    /// Takes over what decoding found in a file that must be right.
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
            self.policies(at, &resolve(&self.folder.clone(), &at.value), true);
        }
        // Kyverno reads the definitions last; where they count, they must be known before the resources.
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
        let vap = self.suite.policies.vaps.first().map(|vap| vap.origin.span);
        let exception = self.suite.exceptions.exceptions.first();
        if let (Some(vap), Some(exception)) = (vap, exception.map(|exception| exception.origin.span)) {
            let message = "Kyverno refuses exceptions in a suite that has a ValidatingAdmissionPolicy";
            let diagnostic = Diagnostic::at(
                Code::IgnoredValue,
                Span::point(exception.file, exception.start),
                message,
            );
            self.say(diagnostic.with_label(Span::point(vap.file, vap.start), "the policy is here"));
            self.stop(Upstream::Aborts);
        }
        self.global_context(test);
    }

    fn values(&mut self, test: &Test) {
        if let Some(values) = &test.values {
            self.suite.values = values.clone();
            if let Some(at) = &test.variables {
                let message = format!("`{}` is not read: the suite has `values` of its own", at.value);
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
            let message = format!("`request.operation` is `{operation}`, which is no operation");
            let help = "write `CREATE`, `UPDATE`, `DELETE` or `CONNECT`";
            self.say(Diagnostic::at(Code::BadValue, span, message).with_help(help));
            self.stop(Upstream::Aborts);
        }
    }

    /// Reads a policy file or all of a folder. Hidden ones and those that are no YAML by their name are passed over.
    fn policies(&mut self, at: &Text, path: &str, named: bool) {
        let folder = match self.files.is_folder(path) {
            Ok(folder) => folder,
            Err(error) => {
                let diagnostic = self.missing(at.span, path, &at.value, &error);
                self.say(diagnostic);
                self.stop(Upstream::Aborts);
                return;
            }
        };
        let cleaned = clean(path);
        if base(&cleaned).starts_with('.') || (!folder && !is_yaml(&cleaned)) {
            if named {
                let message = format!("Kyverno passes over `{}` because of its name", at.value);
                let help =
                    "policy files end with `.yaml` or `.yml`, and neither they nor their folder start with a dot";
                self.say(Diagnostic::at(Code::IgnoredValue, at.span, message).with_help(help));
            }
            return;
        }
        if folder {
            match self.files.list(path) {
                Ok(names) => {
                    for (name, _) in names {
                        self.policies(at, &join(path, &name), false);
                    }
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
        let path = resolve(&self.folder, &at.value);
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
            let path = resolve(&self.folder, &at.value);
            let Some(read) = self.companion_at(at.span, &path, &at.value, ClusterResource::decode_file) else {
                continue;
            };
            cluster.resources.extend(read.resources);
            for at in &read.crds {
                let path = resolve(&self.folder, &at.value);
                let crd = self.companion_at(at.span, &path, &at.value, |decoder, node| {
                    let crd = decoder.object(node)?;
                    let kind = node.get("kind").and_then(Node::as_str);
                    if kind != Some("CustomResourceDefinition") {
                        let message = format!("`{}` is no CustomResourceDefinition", kind.unwrap_or_default());
                        decoder.error(Diagnostic::at(Code::WrongKind, crd.span, message));
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

    /// Reads files of resources. The first path decides: if it is a folder, its files are read and the others are not.
    fn resources(&mut self, paths: &[Text]) -> Vec<Resource> {
        let mut resources = Vec::new();
        let Some(first) = paths.first() else {
            return resources;
        };
        let path = resolve(&self.folder, &first.value);
        match self.files.is_folder(&path) {
            Ok(true) => {
                for other in paths.iter().skip(1) {
                    let message = format!("`{}` is not read: the first path is a folder", other.value);
                    let diagnostic = Diagnostic::at(Code::IgnoredValue, other.span, message);
                    self.say(diagnostic.with_label(first.span, "only the files in this folder are read"));
                }
                let names = self.files.list(&path).unwrap_or_default();
                for (name, _) in names.into_iter().filter(|(name, _)| is_yaml(name)) {
                    let file = join(&path, &name);
                    self.resource_file(first, &file, Missing::GoesOn, &mut resources);
                }
            }
            Ok(false) | Err(_) => {
                for (number, at) in paths.iter().enumerate() {
                    let path = resolve(&self.folder, &at.value);
                    let missing = if number == 0 { Missing::Aborts } else { Missing::GoesOn };
                    self.resource_file(at, &path, missing, &mut resources);
                }
            }
        }
        resources
    }

    fn resource_file(&mut self, at: &Text, path: &str, missing: Missing, resources: &mut Vec<Resource>) {
        let Some(bytes) = self.bytes(at.span, path, &at.value) else {
            if missing == Missing::Aborts {
                self.stop(Upstream::Aborts);
            }
            return;
        };
        let (stream, file) = self.stream(&bytes, path, Mode::Lax);
        if let Some(error) = stream.error() {
            let diagnostic = Diagnostic::from_yaml(file, error);
            self.say(diagnostic);
            self.stop(Upstream::Aborts);
            return;
        }
        for (number, document) in stream.into_documents().into_iter().enumerate() {
            let tree = match document.into_tree() {
                Ok(tree) => tree,
                Err(error) => {
                    self.say(Diagnostic::from_yaml(file, &error));
                    self.stop(Upstream::Aborts);
                    continue;
                }
            };
            let origin = Origin {
                file,
                document: number,
                span: place(file, tree.root().span()),
            };
            self.object(tree.root(), origin, resources);
        }
    }

    /// Adds an object, or the items of a list.
    fn object(&mut self, node: Node<'_>, origin: Origin, resources: &mut Vec<Resource>) {
        let Some((items, fallback)) = list_items(node) else {
            return self.single(node, None, origin, resources);
        };
        let start = Span::point(origin.file, origin.span.start);
        let kind = node.get("kind").and_then(Node::as_str).unwrap_or_default();
        let message = format!("`{kind}` is a list: its items are read as single objects, `kyverno test` panics");
        self.say(Diagnostic::at(Code::ListKind, start, message).with_help("write each item as a document of its own"));
        self.stop(Upstream::Panics);
        for item in items {
            let span = place(origin.file, item.span());
            self.single(item, fallback, Origin { span, ..origin }, resources);
        }
    }

    fn single(
        &mut self,
        node: Node<'_>,
        fallback: Option<super::resource::Fallback<'_>>,
        origin: Origin,
        resources: &mut Vec<Resource>,
    ) {
        let start = Span::point(origin.file, origin.span.start);
        if node.as_map().is_none() {
            let message = "expected an object with `apiVersion` and `kind`";
            self.say(Diagnostic::at(Code::WrongType, start, message));
            self.stop(Upstream::Aborts);
            return;
        }
        let scopes = self.options.scopes;
        let own = if self.options.own_crds {
            self.crds.as_slice()
        } else {
            &[]
        };
        let cluster_wide = |group: &str, kind: &str| {
            let own = own.iter().find(|crd| crd.0 == group && crd.1 == kind);
            own.map_or_else(|| scopes.is_cluster_wide(group, kind), |crd| crd.2)
        };
        match resource(node, fallback, &cluster_wide, origin) {
            Some(resource) => {
                if resource.api_version.is_empty() {
                    let message = format!("this `{}` has no `apiVersion`", resource.kind);
                    let diagnostic = Diagnostic::at(Code::MissingField, start, message);
                    self.say(diagnostic.with_severity(Severity::Warning));
                }
                resources.push(resource);
            }
            None => {
                self.say(Diagnostic::at(Code::MissingField, start, "this resource has no `kind`"));
                self.stop(Upstream::Aborts);
            }
        }
    }

    /// The resources without repetitions: the first of each group, kind, namespace and name counts.
    fn distinct(&mut self, resources: Vec<Resource>) -> Vec<Resource> {
        let mut distinct: Vec<Resource> = Vec::with_capacity(resources.len());
        let mut seen = rustc_hash::FxHashMap::default();
        for resource in resources {
            let key = (
                resource.group().to_owned(),
                resource.kind.clone(),
                resource.namespace.clone(),
                resource.name.clone(),
            );
            if let Some(first) = seen.get(&key) {
                let first: &Span = first;
                let message = format!(
                    "the {} `{}` is here a second time: it is not used",
                    resource.kind,
                    display_name(&resource)
                );
                let start = Span::point(resource.origin.file, resource.origin.span.start);
                let diagnostic = Diagnostic::at(Code::DuplicateResource, start, message);
                self.say(diagnostic.with_label(Span::point(first.file, first.start), "the first one is here"));
                continue;
            }
            seen.insert(key, resource.origin.span);
            distinct.push(resource);
        }
        distinct
    }

    /// An object among resources and targets alike makes Kyverno's fake client panic.
    fn collisions(&mut self) {
        let mut found = Vec::new();
        for target in &self.suite.targets {
            let same = |resource: &&Resource| {
                resource.group() == target.group()
                    && resource.kind == target.kind
                    && resource.namespace == target.namespace
                    && resource.name == target.name
            };
            if let Some(resource) = self.suite.resources.iter().find(same) {
                let message = format!(
                    "the {} `{}` is among `resources` and `targetResources`: `kyverno test` panics",
                    target.kind,
                    display_name(target)
                );
                let start = |origin: Origin| Span::point(origin.file, origin.span.start);
                found.push(
                    Diagnostic::at(Code::DuplicateResource, start(target.origin), message)
                        .with_label(start(resource.origin), "the resource is here"),
                );
            }
        }
        if !found.is_empty() {
            self.stop(Upstream::Panics);
            self.suite.diagnostics.extend(found);
        }
    }

    fn payloads(&mut self, test: &Test) {
        for at in &test.json_payloads {
            let payload = self.payload(at, true);
            self.suite.json_payloads.extend(payload);
        }
        for at in &test.http_payloads {
            let payload = self.payload(at, false);
            self.suite.http_payloads.extend(payload);
        }
        for at in &test.envoy_payloads {
            let payload = self.payload(at, false);
            self.suite.envoy_payloads.extend(payload);
        }
    }

    /// A payload: one object. `any` also admits YAML, by the file's name; the others are JSON.
    fn payload(&mut self, at: &Text, any: bool) -> Option<Payload> {
        let path = resolve(&self.folder, &at.value);
        let payload = self.read_payload(at, &path, any);
        if payload.is_none() {
            self.stop(Upstream::Aborts);
        }
        payload
    }

    fn read_payload(&mut self, at: &Text, path: &str, any: bool) -> Option<Payload> {
        let bytes = self.bytes(at.span, path, &at.value)?;
        let json = path.ends_with(".json") || !any;
        if any && !json && !is_yaml(path) {
            let message = format!("the payload `{}` is neither `.json` nor `.yaml` nor `.yml`", at.value);
            self.say(Diagnostic::at(Code::WrongKind, at.span, message));
            return None;
        }
        let (stream, file) = self.stream(&bytes, path, Mode::Lax);
        if let Some(error) = stream.first_error() {
            let diagnostic = Diagnostic::from_yaml(file, error);
            self.say(diagnostic);
            return None;
        }
        if json && let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(stream.source()) {
            let message = format!("this is not JSON: {error}");
            let offset = offset(stream.source(), error.line(), error.column());
            self.say(Diagnostic::at(Code::JsonSyntax, Span::point(file, offset), message));
            return None;
        }
        let mut documents = stream.into_documents().into_iter();
        let tree = documents.next().and_then(|document| document.into_tree().ok());
        let Some(tree) = tree.filter(|tree| tree.root().as_map().is_some()) else {
            let message = format!("the payload `{}` must be one object", at.value);
            self.say(Diagnostic::at(Code::WrongType, Span::point(file, 0), message));
            return None;
        };
        if let Some(second) = documents.next() {
            let message = format!("the payload `{}` must be one object, not several", at.value);
            let span = place(file, second.span());
            self.say(Diagnostic::at(Code::WrongType, Span::point(file, span.start), message));
            return None;
        }
        let mut document = Document::from(tree.root());
        if json {
            let mut builder = Builder::new();
            doubles(&mut builder, document.root());
            document = builder.finish();
        }
        Some(Payload {
            path: at.clone(),
            full_path: path.to_owned(),
            document: Arc::new(document),
        })
    }

    fn global_context(&mut self, test: &Test) {
        for entry in &test.global_context_entries {
            let mut entry = entry.clone();
            if let GlobalContextSource::Files(paths) = &entry.source {
                let mut objects = Vec::new();
                for at in paths {
                    let path = join(&self.folder, at.trim());
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

    /// What the suite says to us and not to Kyverno; nothing here concerns what Kyverno does.
    fn extensions(&mut self, test: &Test, documents: usize) {
        let upstream = self.suite.upstream;
        let annotated = annotations::read(test);
        self.suite.diagnostics.extend(annotated.diagnostics);
        let mut old = annotated.old_resources;
        self.suite.expectations = annotated.rows;
        if self.options.sidecar {
            for sidecar in self.sidecars(test, documents) {
                old.extend(sidecar.old_resources);
                for row in sidecar.rows {
                    if row.selector.rows(test).next().is_none() {
                        let start = Span::point(row.span.file, row.span.start);
                        let diagnostic = row.selector.why_none(test, start);
                        self.say(diagnostic);
                    }
                    self.suite.expectations.push(row);
                }
                self.suite.cases.extend(sidecar.cases);
            }
        }
        let mut resources = Vec::new();
        for at in &old {
            let path = resolve(&self.folder, &at.value);
            self.resource_file(at, &path, Missing::GoesOn, &mut resources);
        }
        self.suite.old_resources = resources;
        self.old_objects();
        self.suite.upstream = upstream;
    }

    /// Reads the old objects that stand in files of their own.
    fn old_objects(&mut self) {
        let rows = self.suite.expectations.iter().map(|row| &row.expectation);
        let cases = self.suite.cases.iter().map(|case| &case.expectation);
        let paths = rows
            .chain(cases)
            .filter_map(|expectation| match &expectation.old_object {
                Some(OldObject::File(path)) => Some(path.clone()),
                Some(OldObject::Inline(_)) | None => None,
            });
        let paths: Vec<Text> = paths.collect();
        for at in paths {
            let path = resolve(&self.folder, &at.value);
            let mut resources = Vec::new();
            let before = self.suite.diagnostics.len();
            self.resource_file(&at, &path, Missing::GoesOn, &mut resources);
            match (resources.pop(), resources.is_empty()) {
                (Some(resource), true) => self.suite.old_objects.push((at.value, resource)),
                (None, _) if self.suite.diagnostics.len() > before => {}
                _ => {
                    let message = format!("`{}` must hold one object", at.value);
                    self.say(Diagnostic::at(Code::BadValue, at.span, message));
                }
            }
        }
    }

    /// The documents of the sidecar that concern this suite.
    fn sidecars(&mut self, test: &Test, documents: usize) -> Vec<Sidecar> {
        let path = join(&self.folder, SIDECAR);
        let Ok(bytes) = self.files.read(&path) else {
            return Vec::new();
        };
        let (stream, file) = self.stream(&bytes, &path, Mode::Strict);
        let mut sidecars = Vec::new();
        for document in stream.into_documents() {
            let tree = match document.into_tree() {
                Ok(tree) => Arc::new(tree),
                Err(error) => {
                    self.say(Diagnostic::from_yaml(file, &error));
                    continue;
                }
            };
            // Another suite of the same folder reads its own documents and their mistakes.
            let named = tree.root().get("suite").and_then(Node::as_str);
            if named.is_some_and(|named| named != test.name()) && documents > 1 {
                continue;
            }
            let mut decoder = Decoder::new(&tree, file, Style::Schema);
            let sidecar = Sidecar::decode(&mut decoder, tree.root());
            let findings = decoder.finish();
            self.suite.diagnostics.extend(findings.diagnostics);
            let Some(sidecar) = sidecar.filter(|_| !findings.invalid && !findings.unknown) else {
                continue;
            };
            match &sidecar.suite {
                Some(name) if name.value != test.name() => {
                    let message = format!("the suite beside this file is `{}`, not `{}`", test.name(), name.value);
                    self.say(Diagnostic::at(Code::UnknownRow, name.span, message));
                    continue;
                }
                None if documents > 1 => {
                    let message = "the test file has several suites: say which one is meant";
                    let start = Span::point(sidecar.span.file, sidecar.span.start);
                    let help = format!("add `suite: {}`", test.name());
                    self.say(Diagnostic::at(Code::MissingField, start, message).with_help(help));
                    continue;
                }
                Some(_) | None => sidecars.push(sidecar),
            }
        }
        sidecars
    }
}

/// The name of a resource as rows write it.
fn display_name(resource: &Resource) -> String {
    if resource.namespace.is_empty() {
        resource.name.clone()
    } else {
        format!("{}/{}", resource.namespace, resource.name)
    }
}

/// The byte at a line and column of a parser that counts bytes from 1.
fn offset(text: &str, line: usize, column: usize) -> u32 {
    let start: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    (start + column.saturating_sub(1)).min(text.len()) as u32
}

/// Copies a value with every number as a double, as Go's own JSON decoder delivers them.
fn doubles(builder: &mut Builder, value: Value<'_>) {
    match value {
        Value::Int(int) => builder.double(int as f64),
        Value::Uint(uint) => builder.double(uint as f64),
        Value::List(list) => {
            builder.begin_list();
            for item in list.iter() {
                doubles(builder, item);
            }
            builder.end();
        }
        Value::Map(map) => {
            builder.begin_map();
            for (key, item) in map.iter() {
                builder.key(key.text());
                doubles(builder, item);
            }
            builder.end();
        }
        other => builder.value(other),
    }
}
