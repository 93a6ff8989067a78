//! Suites: the `Test` document with everything that it names, decoded and located.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno` of Kyverno 1.19: `test/load.go` (discovery), `apis/v1alpha1`
//! (formats), the loading half of `commands/test/test.go`. [`load`] never stops at an error: readable parts are in the
//! [`Suite`], errors in its diagnostics, and [`Suite::upstream`] tells what `kyverno test` does with the same files.
//!
//! Known deviations: lists among the resources are split (Kyverno panics); the path of the test file itself may be
//! given ([`Options::accept_file`]); payloads in YAML are read by the same rules as all other files, where Kyverno uses
//! another library; the fields of CustomResourceDefinitions are not checked.

mod annotations;
mod files;
mod fix;
mod load;
mod mocks;
mod resource;
mod sidecar;
mod test;
mod values;

use std::sync::Arc;

pub use files::{Dependencies, Disk, Files, Memory, Overlay, RecordingFiles, Search};
pub use fix::{Change, Fixed, fix};
pub use mocks::{ApiCallResponse, GlobalContextEntry, GlobalContextSource, Method};
pub use resource::{BuiltInScopes, Resource, Scopes};
pub use sidecar::{
    Case, Expectation, ExpectedDivergence, ExpectedMessage, OldObject, RowExpectation, RowSelector, SIDECAR, Sidecar,
    is_day,
};
pub use test::{Expected, PolicyType, ResourceSpec, Row, Test};
pub use values::{
    ApiResource, Context, Named, NamespaceLabels, NamespaceObject, PolicyValues, ResourceValues, RuleValues,
    Subresource, UserInfo, Values,
};

use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Severity, Sources},
    value::Document,
};
use kyvtest_kyverno::{authorization, image_mocks::ImageMock};
use kyvtest_model::policy::{Loaded, Spanned, Text};

/// Options for finding and loading suites.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The name of test files.
    pub file_name: &'a str,
    /// Whether the test file itself may be given instead of its directory, regardless of its name.
    pub accept_file: bool,
    /// The scopes of kinds.
    pub scopes: &'a dyn Scopes,
    /// Whether the suite's own CustomResourceDefinitions also determine scopes. Kyverno reads them too late for that.
    pub own_crds: bool,
    /// Whether the sidecar is read.
    pub sidecar: bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            file_name: "kyverno-test.yaml",
            accept_file: true,
            scopes: &BuiltInScopes,
            own_crds: true,
            sidecar: true,
        }
    }
}

impl<'a> Options<'a> {
    /// The defaults, with the scopes of a cluster.
    pub fn in_cluster(scopes: &'a dyn Scopes) -> Self {
        Self {
            scopes,
            ..Self::default()
        }
    }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("file_name", &self.file_name)
            .field("accept_file", &self.accept_file)
            .field("own_crds", &self.own_crds)
            .field("sidecar", &self.sidecar)
            .finish_non_exhaustive()
    }
}

/// One suite with everything that it names.
#[derive(Debug)]
pub struct Suite {
    pub path: String,
    /// The document's index in it, not counting blank documents.
    pub document: usize,
    /// `None` if the document cannot be read.
    pub test: Option<Test>,
    /// The contents of the policy files. Exceptions among them are ignored.
    pub policies: Loaded,
    /// The contents of the exception files.
    pub exceptions: Loaded,
    /// The tested resources, without repetitions.
    pub resources: Vec<Resource>,
    /// The objects that mutate-existing rules change.
    pub targets: Vec<Resource>,
    pub params: Vec<Resource>,
    /// The simulated cluster; `None` if the suite has none.
    pub cluster: Option<Cluster>,
    /// The values, from the document or its file.
    pub values: Values,
    /// The user of the requests; `None` if unspecified.
    pub user_info: Option<UserInfo>,
    /// Objects and images for CEL expressions.
    pub context: Option<Context>,
    /// Payloads of policies on JSON; numbers of JSON files are doubles.
    pub json_payloads: Vec<Payload>,
    /// Payloads of policies on HTTP requests.
    pub http_payloads: Vec<Payload>,
    /// Payloads of policies on Envoy's requests.
    pub envoy_payloads: Vec<Payload>,
    /// Entries of the global context, files read.
    pub global_context: Vec<GlobalContextEntry>,
    /// The files of objects that rows expect, or that their rules clone.
    pub expected: Vec<ExpectedFile>,
    /// Mocks of image registries, from the sidecar.
    pub image_mocks: Vec<ImageMock>,
    /// Old states of resources, from the sidecar and the annotations.
    pub old_resources: Vec<Resource>,
    /// Expectations besides the rows' results, from the annotations and then the sidecar.
    pub expectations: Vec<RowExpectation>,
    /// Old objects that expectations and cases name as files, by path as written.
    pub old_objects: Vec<(String, Resource)>,
    /// Additional rows of the sidecar.
    pub cases: Vec<Case>,
    /// The sources that spans refer to.
    pub sources: Sources,
    /// In the order of reading.
    pub diagnostics: Vec<Diagnostic>,
    /// The behaviour of `kyverno test` on the suite.
    pub upstream: Upstream,
}

/// The simulated cluster of a suite.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    pub crds: Vec<Spanned<Document>>,
    /// Objects.
    pub resources: Vec<Spanned<Document>>,
}

/// A file of objects that rows expect, or that their rules clone.
#[derive(Debug, Clone)]
pub struct ExpectedFile {
    /// The path as rows write it.
    pub path: String,
    pub objects: Vec<Resource>,
    /// The reason why the file cannot be used.
    pub problem: Option<String>,
}

/// A payload of a policy that does not evaluate admission requests.
#[derive(Debug, Clone)]
pub struct Payload {
    /// The path as the suite writes it.
    pub path: Text,
    /// The path from the working directory, by which rows name HTTP and Envoy payloads.
    pub full_path: String,
    pub document: Arc<Document>,
    /// The content of an HTTP or Envoy payload.
    pub request: Option<Arc<authorization::Request>>,
}

/// The behaviour of `kyverno test` on a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// `kyverno test` runs the suite.
    Runs,
    /// `kyverno test` skips the suite because it has no rows.
    Skips,
    /// The suite cannot be decoded: `kyverno test` runs nothing at all.
    Undecodable,
    /// The suite has the dropped schema: the run ends there.
    Deprecated,
    /// A file that the suite names cannot be used: the run ends there.
    Aborts,
    /// `kyverno test` crashes.
    Panics,
}

impl Suite {
    pub fn has_errors(&self) -> bool {
        let mut diagnostics = self.diagnostics.iter();
        diagnostics.any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Its name; the path of its file if it has none.
    pub fn name(&self) -> &str {
        let name = self.test.as_ref().map_or("", Test::name);
        if name.is_empty() { &self.path } else { name }
    }

    /// Releases the objects of its resources, which no longer are needed once policies have been evaluated.
    pub(crate) fn release_objects(&mut self) {
        let released = Arc::new(Document::null());
        for resource in &mut self.resources {
            resource.object = Arc::clone(&released);
        }
    }

    /// The file that a row names.
    pub fn expected(&self, path: &str) -> Option<&ExpectedFile> {
        self.expected.iter().find(|file| file.path == path)
    }

    pub fn rows(&self) -> &[Row] {
        self.test.as_ref().map_or(&[], |test| &test.results)
    }

    /// The expectations for a resource in a row besides the result, earlier ones first. The resource is given as the
    /// row writes it.
    pub fn expectations<'s>(&'s self, row: usize, resource: &'s str) -> impl Iterator<Item = &'s Expectation> + 's {
        let test = self.test.as_ref();
        let fits = move |entry: &&RowExpectation| {
            let named = entry.selector.resource.as_ref();
            named.is_none_or(|named| named.value == resource)
                && test.is_some_and(|test| entry.selector.rows(test).any(|number| number == row))
        };
        self.expectations.iter().filter(fits).map(|entry| &entry.expectation)
    }
}

/// The test files below a path, in Kyverno's order.
///
/// # Errors
/// If the path is a URL, does not exist, or is a file instead of a directory.
pub fn discover(files: &dyn Files, path: &str, options: &Options<'_>) -> Result<Vec<String>, Diagnostic> {
    let (found, mut unreadable) = discover_all(files, path, options)?;
    if unreadable.is_empty() {
        Ok(found)
    } else {
        Err(unreadable.swap_remove(0).1)
    }
}

/// Test files, and unreadable directories with the reason.
pub type Discovered = (Vec<String>, Vec<(String, Diagnostic)>);

/// The test files below a path, and the unreadable directories below it, each with the reason.
///
/// # Errors
/// As [`discover`].
pub fn discover_all(files: &dyn Files, path: &str, options: &Options<'_>) -> Result<Discovered, Diagnostic> {
    if load::is_address(path) {
        let message = format!("`{path}` is an address; suites are only read from directories");
        return Err(Diagnostic::new(Code::RemotePath, message)
            .with_help("clone the repository and give the directory: `git clone --depth 1 URL DIR`"));
    }
    let unreadable = |path: &str, error: &std::io::Error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => Code::MissingFile,
            _ => Code::Unreadable,
        };
        Diagnostic::new(code, format!("cannot read `{path}`: {}", files::reason(error)))
    };
    let root = files::clean(path);
    if files.is_directory(&root).map_err(|error| unreadable(path, &error))? {
        let search = files.search(&root, options.file_name);
        let problems = search.unreadable.iter();
        let problems = problems.map(|(path, error)| (path.clone(), unreadable(path, error)));
        let problems = problems.collect();
        return Ok((search.files, problems));
    }
    if options.accept_file {
        return Ok((vec![root], Vec::new()));
    }
    let message = format!("expected a directory, found the file `{path}`");
    Err(Diagnostic::new(Code::NotAFile, message).with_help("give the directory that contains the test file"))
}

/// Loads every suite of a test file. An unreadable file is one suite without a document.
pub fn load(files: &dyn Files, path: &str, options: &Options<'_>) -> Vec<Suite> {
    load::load(files, path, options)
}
