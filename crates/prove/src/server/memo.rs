//! Remembers created objects with what a server made of them: suites about the same policy in several forms have the same
//! resources.
//!
//! Upstream counterpart: none.

use std::{
    hash::Hasher,
    sync::{Mutex, PoisonError},
};

use kyvtest_go_compat::value::Document;
use kyvtest_normalise::{Kind, Request as Target};
use rustc_hash::{FxHashMap, FxHasher};

/// Created objects with what a server made of them. Of too many objects it remembers the first.
#[derive(Debug, Default)]
pub struct Memo(Mutex<FxHashMap<u64, Completed>>);

#[derive(Debug)]
struct Completed {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    subresource: String,
    dry_run: bool,
    sent: Document,
    seen: Document,
}

impl Completed {
    fn is_about(&self, kind: Kind<'_>, target: Target<'_>, sent: &Document) -> bool {
        self.api_version == kind.api_version
            && self.kind == kind.name
            && self.namespace == target.namespace
            && self.name == target.name
            && self.subresource == target.subresource
            && self.dry_run == target.dry_run
            && self.sent.is_identical_to(sent)
    }
}

impl Memo {
    const LIMIT: usize = 4096;

    /// The completed object of a creation, by `complete` if it is not known. Errors are not remembered.
    pub(super) fn completed<E>(
        &self,
        kind: Kind<'_>,
        target: Target<'_>,
        sent: &Document,
        complete: impl FnOnce() -> Result<Document, E>,
    ) -> Result<Document, E> {
        let key = {
            let mut hasher = FxHasher::default();
            hasher.write_u64(sent.fingerprint());
            hasher.write(target.namespace.as_bytes());
            hasher.finish()
        };
        if let Some(known) = self.lock().get(&key)
            && known.is_about(kind, target, sent)
        {
            return Ok(known.seen.clone());
        }
        let seen = complete()?;
        let mut known = self.lock();
        if known.len() < Self::LIMIT {
            known.insert(
                key,
                Completed {
                    api_version: kind.api_version.to_owned(),
                    kind: kind.name.to_owned(),
                    namespace: target.namespace.to_owned(),
                    name: target.name.to_owned(),
                    subresource: target.subresource.to_owned(),
                    dry_run: target.dry_run,
                    sent: sent.clone(),
                    seen: seen.clone(),
                },
            );
        }
        Ok(seen)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FxHashMap<u64, Completed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kyvtest_normalise::Operation;

    #[test]
    fn only_the_same_object_in_the_same_request_is_remembered() {
        let memo = Memo::default();
        let document = |json: &str| Document::from_json(json).expect("valid");
        let complete = |namespace: &str, sent: &str, seen: &str| {
            let kind = Kind {
                api_version: "v1",
                name: "ConfigMap",
            };
            let target = Target {
                operation: Operation::Create,
                namespace,
                ..Target::default()
            };
            let seen = document(seen);
            let result: Result<Document, ()> = memo.completed(kind, target, &document(sent), || Ok(seen));
            result.expect("no error").root().to_json()
        };
        assert_eq!(complete("a", r#"{"x":1}"#, "[1]"), "[1]");
        assert_eq!(complete("a", r#"{"x":1}"#, "[2]"), "[1]");
        assert_eq!(complete("b", r#"{"x":1}"#, "[3]"), "[3]");
        assert_eq!(complete("a", r#"{"x":1.0}"#, "[4]"), "[4]");
        assert_eq!(complete("a", r#"{"x":2}"#, "[5]"), "[5]");
    }
}
