//! Filter expressions: `policy(=disallow-*) & result(diverge) & !tag(slow)`.
//!
//! The language is that of nextest's filter sets with the parts of a suite as predicates; `docs/filters.md` is the
//! reference. A filter is evaluated in steps, for a file, a suite and a case, so that suites without selected cases are
//! not run, and policies are evaluated only on resources of selected cases.

mod parse;

use super::{Case, Key, SuiteRun, source_map};
use crate::suite::Suite;
use kyvtest_go_compat::{
    diagnostic::{Diagnostic, FileId},
    regex::Regex,
    text::wildcard,
};
use kyvtest_model::{kube::Operation, verdict::DivergenceClass};

#[derive(Debug, Clone)]
pub struct Filter(Expression);

#[derive(Debug, Clone)]
enum Expression {
    /// `all()`, `none()`.
    Constant(bool),
    Is(Subject, Matcher),
    Not(Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

/// The subject of a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Suite,
    Path,
    Policy,
    Rule,
    Kind,
    Resource,
    Operation,
    Engine,
    Result,
    Tag,
    Id,
}

impl Subject {
    const ALL: [(&'static str, Self); 11] = [
        ("suite", Self::Suite),
        ("path", Self::Path),
        ("policy", Self::Policy),
        ("rule", Self::Rule),
        ("kind", Self::Kind),
        ("resource", Self::Resource),
        ("op", Self::Operation),
        ("engine", Self::Engine),
        ("result", Self::Result),
        ("tag", Self::Tag),
        ("id", Self::Id),
    ];

    /// The possible values, if the set is fixed.
    fn words(self) -> Vec<&'static str> {
        match self {
            Self::Operation => Operation::ALL.iter().map(|operation| operation.as_str()).collect(),
            Self::Engine => vec!["kyverno", "vap"],
            Self::Result => {
                let mut words = vec![
                    "pass",
                    "fail",
                    "error",
                    "needs-registry",
                    "unsupported",
                    "unmatched",
                    "skip",
                    "diverge",
                ];
                words.extend(DivergenceClass::ALL.iter().map(|class| class.as_str()));
                words
            }
            Self::Suite
            | Self::Path
            | Self::Policy
            | Self::Rule
            | Self::Kind
            | Self::Resource
            | Self::Tag
            | Self::Id => Vec::new(),
        }
    }
}

#[derive(Debug, Clone)]
enum Matcher {
    /// `=text`: the whole string; wildcards are supported, since names have none.
    Exact(String),
    /// `~text`: a substring.
    Contains(String),
    /// `/text/`: a regular expression that matches somewhere.
    Regex(Regex),
    /// The whole string, with wildcards.
    Glob(String),
}

impl Matcher {
    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(wanted) => wanted == text || wildcard::matches(wanted, text),
            Self::Contains(wanted) => text.contains(wanted.as_str()),
            Self::Regex(regex) => regex.is_match(text),
            Self::Glob(pattern) => wildcard::matches(pattern, text),
        }
    }
}

impl Filter {
    /// Parses an expression, which is its own source.
    ///
    /// # Errors
    /// The syntax error with its location.
    pub fn parse(text: &str, file: FileId) -> Result<Self, Diagnostic> {
        parse::parse(text, file).map(Self)
    }

    /// Whether cases of a test file can be selected; `None` if that depends on more than its path.
    pub fn file(&self, path: &str) -> Option<bool> {
        self.0.decide(&|subject, matcher| match subject {
            Subject::Path => Some(matcher.matches(path)),
            _ => None,
        })
    }

    /// Whether cases of a suite can be selected; `None` if that depends on the case.
    pub fn suite(&self, path: &str, name: &str, tags: &[String]) -> Option<bool> {
        self.0.decide(&|subject, matcher| match subject {
            Subject::Path => Some(matcher.matches(path)),
            Subject::Suite => Some(matcher.matches(name)),
            Subject::Tag => Some(tags.iter().any(|tag| matcher.matches(tag))),
            _ => None,
        })
    }

    /// Whether cases of a policy on a resource can be selected; `None` if that depends on more.
    pub(super) fn row(&self, suite: &Suite, tags: &[String], policy: &str, key: &Key) -> Option<bool> {
        self.0.decide(&|subject, matcher| match subject {
            Subject::Path => Some(matcher.matches(&suite.path)),
            Subject::Suite => Some(matcher.matches(suite.name())),
            Subject::Tag => Some(tags.iter().any(|tag| matcher.matches(tag))),
            Subject::Policy => Some(matcher.matches(policy)),
            Subject::Kind => Some(is_kind(matcher, key)),
            Subject::Resource => Some(is_resource(matcher, key)),
            Subject::Rule | Subject::Operation | Subject::Engine | Subject::Result | Subject::Id => None,
        })
    }

    /// Whether a case is selected.
    pub fn case(&self, run: &SuiteRun, case: &Case) -> bool {
        let decided = self.0.decide(&|subject, matcher| Some(is(subject, matcher, run, case)));
        decided.unwrap_or_default()
    }
}

impl Expression {
    /// Evaluates as far as the predicates are known.
    fn decide(&self, evaluate: &dyn Fn(Subject, &Matcher) -> Option<bool>) -> Option<bool> {
        // One value decides at once, the other does not.
        let fold = |parts: &[Self], decisive: bool| {
            let mut all = Some(!decisive);
            for part in parts {
                match part.decide(evaluate) {
                    Some(answer) if answer == decisive => return Some(decisive),
                    Some(_) => {}
                    None => all = None,
                }
            }
            all
        };
        match self {
            Self::Constant(answer) => Some(*answer),
            Self::Is(subject, matcher) => evaluate(*subject, matcher),
            Self::Not(inner) => inner.decide(evaluate).map(|answer| !answer),
            Self::All(parts) => fold(parts, false),
            Self::Any(parts) => fold(parts, true),
        }
    }
}

fn is_kind(matcher: &Matcher, key: &Key) -> bool {
    matcher.matches(&key.kind) || matcher.matches(&format!("{}/{}", key.api_version, key.kind))
}

fn is_resource(matcher: &Matcher, key: &Key) -> bool {
    matcher.matches(&key.name) || matcher.matches(&format!("{}/{}", key.namespace, key.name))
}

fn is(subject: Subject, matcher: &Matcher, run: &SuiteRun, case: &Case) -> bool {
    let fits = |text: &str| matcher.matches(text);
    let key = &case.resource;
    match subject {
        Subject::Suite => fits(&run.name),
        Subject::Path => fits(&run.path),
        Subject::Policy => fits(&case.policy),
        Subject::Rule => {
            let rule = case.rule.as_deref().unwrap_or_default();
            fits(rule) || fits(source_map::written(rule))
        }
        Subject::Kind => is_kind(matcher, key),
        Subject::Resource => is_resource(matcher, key),
        Subject::Operation => {
            let word = case.operation.as_str();
            fits(word) || fits(&word.to_ascii_lowercase())
        }
        Subject::Engine => case.kyverno.is_some() && fits("kyverno") || case.vap.is_some() && fits("vap"),
        Subject::Result => {
            let class = case.divergence.as_ref().map(|found| found.class.as_str());
            fits(case.outcome.as_str()) || class.is_some_and(fits) || case.diverges() && fits("diverge")
        }
        Subject::Tag => run.tags.iter().any(|tag| fits(tag)),
        Subject::Id => fits(&source_map::id(run, case)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kyvtest_go_compat::diagnostic::Sources;

    fn read(text: &str) -> Result<Filter, Diagnostic> {
        let mut sources = Sources::new();
        let file = sources.add("filter", text);
        Filter::parse(text, file)
    }

    fn on_path(text: &str, path: &str) -> Option<bool> {
        read(text).expect(text).file(path)
    }

    #[test]
    fn what_is_known_decides() {
        assert_eq!(on_path("path(a/*)", "a/b"), Some(true));
        assert_eq!(on_path("path(a/*) & policy(p)", "b"), Some(false));
        assert_eq!(on_path("path(a/*) & policy(p)", "a/b"), None);
        assert_eq!(on_path("policy(p) | path(~b)", "a/b"), Some(true));
        assert_eq!(on_path("not policy(p)", "a/b"), None);
        assert_eq!(on_path("all() - path(/^a.b$/)", "a/b"), Some(false));
        assert_eq!(on_path("!(path(x) or none())", "a/b"), Some(true));
        assert_eq!(on_path("path(=a/b) and path(~/) + none()", "a/b"), Some(true));
        assert_eq!(on_path(r"path(=a\)b)", "a)b"), Some(true));
    }

    #[test]
    fn mistakes_have_a_place() {
        for (text, start) in [
            ("", 0),
            ("policy", 6),
            ("polcy(a)", 0),
            ("policy(a", 8),
            ("policy(a) policy(b)", 10),
            ("policy(a) & ", 12),
            ("(policy(a)", 10),
            ("result(bad)", 7),
            ("rule(/(/)", 5),
            ("rule(/a)", 5),
            ("policy()", 7),
            ("& policy(a)", 0),
        ] {
            let error = read(text).expect_err(text);
            assert_eq!(error.primary.map(|span| span.start), Some(start), "{text}: {error:?}");
        }
        assert!(read(&"(".repeat(100_000)).is_err());
        assert!(read(&"!".repeat(100_000)).is_err());
        assert!(read(&format!("all(){}", " | all()".repeat(50_000))).is_ok());
    }
}
