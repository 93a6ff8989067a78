//! The files of objects that rows expect, or that their rules clone.

use super::{Loader, Missing};
use crate::suite::{ExpectedFile, Row, Test, Upstream, files::join};
use kyvtest_model::policy::Text;

impl Loader<'_> {
    /// Reads each file once. `kyverno test` reads them only when it compares, so that none of them ends a run.
    pub(super) fn expected(&mut self, test: &Test) {
        for at in test.results.iter().flat_map(files) {
            if self.suite.expected.iter().any(|file| file.path == at.value) {
                continue;
            }
            let upstream = std::mem::replace(&mut self.suite.upstream, Upstream::Runs);
            let before = self.suite.diagnostics.len();
            let mut objects = Vec::new();
            let path = join(&self.directory, &at.value);
            self.resource_file(at, &path, Missing::GoesOn, &mut objects);
            // Metadata that no API server would accept is compared like everything else.
            let is_read = self.suite.upstream == Upstream::Runs && !objects.is_empty();
            self.suite.upstream = upstream;
            let problem = self.suite.diagnostics.get(before).filter(|_| !is_read);
            self.suite.expected.push(ExpectedFile {
                path: at.value.clone(),
                problem: problem.map(|problem| problem.message.clone()),
                objects,
            });
        }
    }
}

/// The files that a row names.
fn files(row: &Row) -> impl Iterator<Item = &Text> {
    let single = [
        &row.patched_resources,
        &row.generated_resource,
        &row.clone_source_resource,
    ];
    let several = row.generated_resources.iter().flatten();
    single.into_iter().flatten().chain(several)
}
